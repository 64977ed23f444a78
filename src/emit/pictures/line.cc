// Builds a line of a picture. A line counts its columns on the terminal, which
// differ from its bytes: a character may have several bytes, and colour codes
// have no columns. With this count, blocks of lines can be placed next to each
// other. For example:
//
//   Line(style).Put("tp 0 ").Put("│")  ->  8 bytes, 6 columns
#include "emit/pictures/line.h"

#include <algorithm>
#include <array>

#include "model/mesh_layout.h"
#include "picture/array.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Terminal colours (of 256) that are close to the colours of the HTML page.
constexpr std::array<std::string_view, picture::kAxisColors> kAxisCodes = {
    "38;5;169", "38;5;32", "38;5;166", "38;5;36",
    "38;5;136", "38;5;67", "38;5;98",  "38;5;245"};

// Returns whether a terminal shows a code point in two columns, such as East
// Asian wide characters and most emoji.
bool IsWide(uint32_t point) {
  constexpr std::pair<uint32_t, uint32_t> kWide[] = {
      {0x1100, 0x115F},   {0x2E80, 0x303E},  {0x3041, 0x33FF},
      {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},  {0xA000, 0xA4CF},
      {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},  {0xFE30, 0xFE6F},
      {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},  {0x1F300, 0x1F64F},
      {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};
  return std::any_of(std::begin(kWide), std::end(kWide), [&](const auto& of) {
    return of.first <= point && point <= of.second;
  });
}

bool IsCombining(uint32_t point) {
  return (point >= 0x0300 && point <= 0x036F) ||
         (point >= 0x1AB0 && point <= 0x1AFF) ||
         (point >= 0x20D0 && point <= 0x20FF) ||
         (point >= 0xFE20 && point <= 0xFE2F);
}

int64_t WidthOf(uint32_t point) {
  if (IsCombining(point)) return 0;
  return IsWide(point) ? 2 : 1;
}

constexpr Glyphs kUnicode = {"─", "│", "┌", "┬", "┐", "├", "┼", "┤", "└", "┴",
                             "┘", "┐", "│", "┘", "×", "→", "█", "·", "⋯"};
constexpr Glyphs kAscii = {"-", "|",  "+", "+", "+", "+",  "+", "+", "+", "+",
                           "+", "\\", "|", "/", "x", "->", "#", ".", ".."};

}  // namespace

int64_t TextWidth(std::string_view text) {
  int64_t out = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = DecodeUtf8(text, at);
    out += point.length == 0 ? 1 : WidthOf(point.value);
    at += std::max<size_t>(1, point.length);
  }
  return out;
}

std::string CutTo(std::string_view text, int64_t width, bool ascii) {
  if (TextWidth(text) <= width) return std::string(text);
  const std::string_view mark = ascii ? "..." : "…";
  int64_t left = width - TextWidth(mark);
  size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = DecodeUtf8(text, at);
    left -= point.length == 0 ? 1 : WidthOf(point.value);
    if (left < 0) break;
    at += std::max<size_t>(1, point.length);
  }
  return std::string(text.substr(0, at)) + std::string(mark);
}

const Glyphs& GlyphsOf(const PictureStyle& style) {
  return style.ascii ? kAscii : kUnicode;
}

Line& Line::Put(std::string_view text) {
  text_ += text;
  width_ += TextWidth(text);
  return *this;
}

Line& Line::Painted(std::string_view text, std::string_view code) {
  if (!color_) return Put(text);
  text_ += "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
  width_ += TextWidth(text);
  return *this;
}

Line& Line::Tint(std::string_view text, uint8_t axis_color) {
  return Painted(text, kAxisCodes[axis_color]);
}

Line& Line::Bold(std::string_view text) { return Painted(text, "1"); }
Line& Line::Alarm(std::string_view text) { return Painted(text, "1;31"); }

Line& Line::Repeat(std::string_view glyph, int64_t count) {
  for (int64_t i = 0; i < count; ++i) text_ += glyph;
  width_ += std::max<int64_t>(0, count) * TextWidth(glyph);
  return *this;
}

Line& Line::PadTo(int64_t column) { return Repeat(" ", column - width_); }

Line& Line::Right(std::string_view text, int64_t width) {
  return Repeat(" ", width - TextWidth(text)).Put(text);
}

Line& Line::Add(const Line& other) {
  text_ += other.text_;
  width_ += other.width_;
  return *this;
}

std::string TextOfLines(const Lines& lines) {
  std::string out;
  for (const Line& line : lines) {
    std::string text = line.text();
    while (text.ends_with(' ')) text.pop_back();
    out += text + "\n";
  }
  return out;
}

Lines SideBySide(const std::vector<Lines>& blocks, int64_t between,
                 const PictureStyle& style) {
  Lines out;
  for (size_t begin = 0; begin < blocks.size();) {
    Lines band;
    int64_t column = 0;
    size_t end = begin;
    for (; end < blocks.size(); ++end) {
      int64_t width = 0;
      for (const Line& line : blocks[end]) {
        width = std::max(width, line.width());
      }
      const int64_t left = end == begin ? 0 : column + between;
      if (end > begin && left + width > style.width) break;
      band.resize(std::max(band.size(), blocks[end].size()), Line(style));
      for (size_t i = 0; i < blocks[end].size(); ++i) {
        band[i].PadTo(left).Add(blocks[end][i]);
      }
      column = left + width;
    }
    if (begin > 0) out.emplace_back(style);
    out.insert(out.end(), band.begin(), band.end());
    begin = end;
  }
  return out;
}

Lines Wrapped(std::string_view text, int64_t indent,
              const PictureStyle& style) {
  const size_t start = std::min(text.find_first_not_of(' '), text.size());
  Lines out = {Line(style)};
  out.back().PadTo(static_cast<int64_t>(start));
  bool fresh = true;
  for (size_t begin = start; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (!fresh && out.back().width() + 1 + TextWidth(word) > style.width) {
      out.emplace_back(style);
      out.back().PadTo(indent);
      fresh = true;
    }
    out.back().Put(fresh ? "" : " ").Put(word);
    fresh = false;
    begin = end + 1;
  }
  return out;
}

AxisInk::AxisInk(const Mesh& mesh)
    : mesh_(mesh), colors_(picture::AxisColorsOf(mesh)) {}

uint8_t AxisInk::ColorOf(std::string_view axis) const {
  const auto at = mesh_.Find(WholeAxis(axis));
  return at ? colors_[*at] : picture::kAxisColors - 1;
}

void AxisInk::Put(const AxisGroup& written, std::string_view between,
                  Line& line) const {
  const AxisGroup axes = JoinedGroup(written);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (i > 0) line.Put(between);
    line.Tint(Printable(axes[i]), ColorOf(axes[i]));
  }
}

std::string DevicesText(const picture::DeviceSet& devices,
                        std::string_view dash) {
  const int64_t count = devices.count();
  std::string out = std::to_string(devices.first);
  if (count == 1) return out;
  const auto step = devices.Step();
  if (count == 2 && step != 1) {
    return out + ", " + std::to_string(devices.last());
  }
  if (!step) return out + " and " + std::to_string(count - 1) + " more";
  out += std::string(dash) + std::to_string(devices.last());
  return *step == 1 ? out : out + " step " + std::to_string(*step);
}

std::string DevicesShort(const picture::DeviceSet& devices) {
  const int64_t count = devices.count();
  std::string out = std::to_string(devices.first);
  return count == 1 ? out : out + " +" + std::to_string(count - 1);
}

std::string HostSpanText(const picture::AxisLine& line) {
  if (!line.hosts || line.group.count() == 1) return "";
  if (*line.hosts == 1) return "inside one host";
  if (*line.per_host == 1) return "each on another host";
  return CountText(*line.per_host) + " a host, " + Counted(*line.hosts, "host");
}

std::string CoordinateText(const Mesh& mesh, const picture::ArrayDim& dim,
                           int64_t piece) {
  std::string out = Join(picture::CoordinatesAlong(mesh, dim.axes, piece), ".");
  return out.empty() ? "0" : out;
}

}  // namespace shardc
