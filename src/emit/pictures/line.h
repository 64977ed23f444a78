// Lines of a picture for a terminal: text whose columns are counted, in UTF-8
// or ASCII, tinted or not.
#ifndef SHARDC_EMIT_PICTURES_LINE_H_
#define SHARDC_EMIT_PICTURES_LINE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/mesh.h"

namespace shardc {

struct PictureStyle {
  bool ascii = false;
  bool color = false;
  int64_t width = 80;  // columns
};

// Columns that a terminal takes for a text without control characters.
int64_t TextWidth(std::string_view text);
// Its beginning in at most so many columns, marked where it is cut; `width` is
// at least 4.
std::string CutTo(std::string_view text, int64_t width, bool ascii);

// What is drawn with.
struct Glyphs {
  std::string_view across, down;
  std::string_view top_left, top, top_right;
  std::string_view left, cross, right;
  std::string_view low_left, low, low_right;
  std::string_view host_top, host, host_low;
  std::string_view times, arrow, bar, track, gap;
};
const Glyphs& GlyphsOf(const PictureStyle& style);

class Line {
 public:
  explicit Line(const PictureStyle& style) : color_(style.color) {}

  Line& Put(std::string_view text);
  // In the colour of an axis (picture/axis_color.h), where there is colour.
  Line& Tint(std::string_view text, uint8_t axis_color);
  Line& Bold(std::string_view text);
  // Red, which marks what is over a budget.
  Line& Alarm(std::string_view text);
  Line& Repeat(std::string_view glyph, int64_t count);
  Line& PadTo(int64_t column);
  // Right-aligned in so many columns.
  Line& Right(std::string_view text, int64_t width);
  Line& Add(const Line& other);

  int64_t width() const { return width_; }
  const std::string& text() const { return text_; }

 private:
  Line& Painted(std::string_view text, std::string_view code);

  bool color_ = false;
  std::string text_;
  int64_t width_ = 0;
};

using Lines = std::vector<Line>;

// With the space that ends each line left off.
std::string TextOfLines(const Lines& lines);

// Blocks side by side, as many in a band as the width has room for, `between`
// columns apart, and an empty line between the bands.
Lines SideBySide(const std::vector<Lines>& blocks, int64_t between,
                 const PictureStyle& style);

// Words in as many lines as they need, the second and later ones indented.
Lines Wrapped(std::string_view text, int64_t indent, const PictureStyle& style);

// Names of axes with their colours.
class AxisInk {
 public:
  explicit AxisInk(const Mesh& mesh);
  // `dp, fsdp`
  void Put(const AxisGroup& axes, std::string_view between, Line& line) const;
  uint8_t ColorOf(std::string_view axis) const;

 private:
  const Mesh& mesh_;
  std::vector<uint8_t> colors_;
};

}  // namespace shardc

#endif  // SHARDC_EMIT_PICTURES_LINE_H_
