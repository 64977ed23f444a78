// Directory: emit/pictures. Draws pictures as text.
// Its files include headers of these directories: source, model, picture.
//
// A line of a picture for a terminal, in UTF-8 or ASCII, with or without
// colour. A line counts its columns, so that lines can be placed next to each
// other.
#ifndef SHARDC_EMIT_PICTURES_LINE_H_
#define SHARDC_EMIT_PICTURES_LINE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/mesh.h"
#include "picture/array.h"
#include "picture/fold.h"

namespace shardc {

struct PictureStyle {
  bool ascii = false;
  bool color = false;
  int64_t width = 80;  // columns
};

// Returns the number of columns that a terminal uses for a text without control
// characters.
int64_t TextWidth(std::string_view text);
// Returns the start of the text that fits in `width` columns. A shortened text
// ends in a mark. `width` must be at least 4.
std::string CutTo(std::string_view text, int64_t width, bool ascii);

// The characters with which pictures are drawn.
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
  // Appends `text` in the colour of an axis (picture/array.h). Without
  // `PictureStyle::color` it is appended without colour.
  Line& Tint(std::string_view text, uint8_t axis_color);
  Line& Bold(std::string_view text);
  // Appends `text` in red, which marks values over a budget.
  Line& Alarm(std::string_view text);
  Line& Repeat(std::string_view glyph, int64_t count);
  Line& PadTo(int64_t column);
  // Appends `text`, right-aligned in `width` columns.
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

// Returns the lines without trailing spaces, each ended by a line break.
std::string TextOfLines(const Lines& lines);

// Places blocks of lines next to each other, `between` columns apart. A row of
// blocks has as many blocks as fit the width. An empty line separates the rows.
Lines SideBySide(const std::vector<Lines>& blocks, int64_t between,
                 const PictureStyle& style);

// Breaks the text into lines at word boundaries. The second and later lines are
// indented by `indent` columns.
Lines Wrapped(std::string_view text, int64_t indent, const PictureStyle& style);

// Writes the names of mesh axes in their colours.
class AxisInk {
 public:
  explicit AxisInk(const Mesh& mesh);
  // Appends the names of axes in their colours: `dp, fsdp`.
  void Put(const AxisGroup& axes, std::string_view between, Line& line) const;
  uint8_t ColorOf(std::string_view axis) const;

 private:
  const Mesh& mesh_;
  std::vector<uint8_t> colors_;
};

// Returns the text of a set of devices: `0, 32`; `0-60 step 4`; `0-3`; `0 and
// 15 more`. `dash` is the character between the ends of a range.
std::string DevicesText(const picture::DeviceSet& devices,
                        std::string_view dash = "-");
// Returns the shortest text of a set of devices: `0 +15` for 0 and 15 more.
std::string DevicesShort(const picture::DeviceSet& devices);
// Returns where the devices of an axis are: `inside one host`, `each on another
// host`, `2 a host, 4 hosts`. The text is empty if the hosts are unknown or the
// axis has one device.
std::string HostSpanText(const picture::AxisLine& line);

// Returns the coordinates of shard `piece` along the axes that shard the
// dimension: `3`, or `0.3` for two axes. Returns `0` for an unsharded
// dimension.
std::string CoordinateText(const Mesh& mesh, const picture::ArrayDim& dim,
                           int64_t piece);

// Draws bars for a terminal. One kind of bar shows the memory of a device, in
// each mode or on each rank of a pipeline. The other kind shows, for each rule,
// the bytes of the parameters that the rule is the first to match.

struct MemoryBar {
  std::string name;  // such as "train"
  // The bytes of each part, in the order of MemoryBars::parts.
  std::vector<int64_t> parts;
  // The bytes of the emptiest device; absent if they equal those of the fullest
  // device.
  std::optional<int64_t> least;
  // Whether the sum of the parts is a lower bound, so that its share of the
  // budget is not known.
  bool at_least = false;
};

struct MemoryPart {
  char letter = 'P';
  std::string name;  // "parameters"
};

struct MemoryBars {
  int64_t devices = 1;
  // True if each bar is of a pipeline rank, false if each bar is of a mode.
  bool of_ranks = false;
  std::vector<MemoryPart> parts;
  std::vector<MemoryBar> bars;
  std::optional<int64_t> budget;  // bytes of memory of a device
  // The parts that the bars do not include, each with the reason.
  std::vector<std::string> unknown;
};

std::string MemoryText(const MemoryBars& memory, const PictureStyle& style);
std::string CoverageText(const picture::Coverage& coverage,
                         const PictureStyle& style);

// Returns the drawing: the title, a line for each dimension, and the grid of
// shards. `title` is the name of the array and remarks on it.
std::string ArrayText(const picture::ArrayPicture& array,
                      const std::vector<std::string>& title,
                      const PictureStyle& style);

std::string MeshPictureText(const picture::MeshPicture& mesh,
                            const PictureStyle& style);

// What the drawings show, each as one JSON value. The shards of an array have a
// range of each dimension (null if its size is unknown) and their devices.
std::string MemoryJson(const MemoryBars& memory);
std::string CoverageJson(const picture::Coverage& coverage);
std::string ArrayJson(const picture::ArrayPicture& array,
                      const std::vector<std::string>& title);

}  // namespace shardc

#endif  // SHARDC_EMIT_PICTURES_LINE_H_
