// Draws a sharded array as text. A panel is a grid of cells for two dimensions
// of the array. Each cell is a shard, and has the numbers of the devices that
// hold it. Panels are placed next to each other. All cells are as wide as the
// longest text of a cell or heading. If a row is too wide, its middle is left
// out. For example, on dp=2, fsdp=8, tp=4, with rows sharded over tp and
// columns over fsdp, the first row is:
//
//   tp 0 │ 0 32 │ 4 36 │ ⋯ │ 28 60 │
#include "emit/pictures/line.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "picture/bars.h"
#include "source/wording.h"

namespace shardc {
namespace {

using picture::ArrayDim;
using picture::ArrayPicture;
using picture::DeviceSet;
using picture::kGap;

constexpr int64_t kMostArrayPanels = 4;
constexpr int64_t kRuledRows = 4;
constexpr std::string_view kIndent = "  ";

// Returns the text of the devices in a cell. One or two device numbers are
// padded to the width of the largest device number.
std::string CellText(const DeviceSet& devices, size_t width) {
  if (devices.count() > 2) return DevicesText(devices);
  std::string out;
  for (int64_t i = 0; i < devices.count(); ++i) {
    std::string one = std::to_string(devices.At(i));
    if (one.size() < width) one.insert(0, width - one.size(), ' ');
    out += (i == 0 ? "" : " ") + one;
  }
  return out;
}

class ArrayDrawing {
 public:
  ArrayDrawing(const ArrayPicture& array, const PictureStyle& style)
      : array_(array),
        style_(style),
        glyphs_(GlyphsOf(style)),
        ink_(array.mesh()),
        rows_(picture::Shown(array.RowCount(), picture::kMostPieces)) {
    digits_ =
        std::to_string(std::max<int64_t>(0, array.mesh().devices - 1)).size();
    if (array.rows()) {
      const ArrayDim& dim = array.dims()[*array.rows()];
      Line names(style);
      ink_.Put(dim.axes, ".", names);
      label_ = names.width() + 1;
      for (int64_t row : rows_) {
        if (row == kGap) continue;
        number_ = std::max(number_,
                           TextWidth(CoordinateText(array.mesh(), dim, row)));
      }
      label_ += number_ + 1;
    }
    Fit();
  }

  Lines Draw() const {
    const int64_t all = array_.PanelCount();
    const int64_t shown = std::min(all, kMostArrayPanels);
    std::vector<Lines> panels;
    for (int64_t i = 0; i < shown; ++i) panels.push_back(Panel(i));
    Lines out = SideBySide(panels, 4, style_);
    if (shown < all) {
      out.emplace_back(style_);
      out.push_back(Line(style_).Put(kIndent).Put(CountText(all - shown) +
                                                  " more such panels"));
    }
    return out;
  }

 private:
  // Chooses the number of columns that are drawn, and whether the cells have
  // short or long texts. The short texts are used only if more columns fit with
  // them.
  void Fit() {
    const int64_t left = static_cast<int64_t>(kIndent.size()) + label_ + 1;
    int64_t after = 0;
    if (array_.columns()) {
      Line names(style_);
      ink_.Put(array_.dims()[*array_.columns()].axes, ".", names);
      after = names.width() + 2;
    }
    const int64_t room = style_.width - left - after;
    const int64_t count = array_.ColumnCount();
    int64_t best = -1;
    for (const bool brief : {false, true}) {
      const int64_t wide = Widest(brief) + 3;
      const int64_t fits = std::min(room / wide, picture::kMostPieces);
      if (best < 0 || (best < count && fits > best)) {
        best = fits;
        brief_ = brief;
        cell_ = wide - 1;
      }
    }
    best = std::max<int64_t>(best, 3);
    columns_ = picture::Shown(count, best);
  }

  // Returns the width of the widest cell or heading. Only the corner cells and
  // the last column's heading are measured, because they have the longest
  // numbers.
  int64_t Widest(bool brief) const {
    int64_t out = 1;
    const int64_t panels[] = {0, array_.PanelCount() - 1};
    const int64_t rows[] = {0, array_.RowCount() - 1};
    const int64_t columns[] = {0, array_.ColumnCount() - 1};
    for (int64_t panel : panels) {
      for (int64_t row : rows) {
        for (int64_t column : columns) {
          out = std::max(out, TextWidth(Cell(panel, row, column, brief)));
        }
      }
    }
    if (array_.columns()) {
      const ArrayDim& dim = array_.dims()[*array_.columns()];
      out = std::max(
          out, TextWidth(CoordinateText(array_.mesh(), dim, dim.parts - 1)));
    }
    return out;
  }

  std::string Cell(int64_t panel, int64_t row, int64_t column,
                   bool brief) const {
    const DeviceSet devices = array_.At(panel, row, column);
    if (!array_.columns() && !array_.rows() && devices.count() > 1) {
      return DevicesText(devices) + "  " + std::string(glyphs_.times) + " " +
             CountText(devices.count());
    }
    return brief && devices.count() > 1 ? DevicesShort(devices)
                                        : CellText(devices, digits_);
  }

  int64_t GapWidth() const { return TextWidth(glyphs_.gap) + 2; }
  int64_t WidthAt(int64_t column) const {
    return column == kGap ? GapWidth() : cell_;
  }

  Line Rule(std::string_view left, std::string_view between,
            std::string_view right) const {
    Line out(style_);
    out.Put(kIndent).PadTo(static_cast<int64_t>(kIndent.size()) + label_);
    for (size_t i = 0; i < columns_.size(); ++i) {
      out.Put(i == 0 ? left : between);
      out.Repeat(glyphs_.across, WidthAt(columns_[i]));
    }
    out.Put(right);
    return out;
  }

  Line Heading() const {
    Line out(style_);
    out.Put(kIndent).PadTo(static_cast<int64_t>(kIndent.size()) + label_);
    const ArrayDim& dim = array_.dims()[*array_.columns()];
    for (int64_t column : columns_) {
      const std::string text =
          column == kGap ? "" : CoordinateText(array_.mesh(), dim, column);
      const int64_t end = out.width() + 1 + WidthAt(column);
      out.Repeat(" ", 1 + (WidthAt(column) - TextWidth(text)) / 2).Put(text);
      if (column != columns_.back()) out.PadTo(end);
    }
    out.Put("  ");
    ink_.Put(dim.axes, ".", out);
    return out;
  }

  // Appends the label of a row to the line: `tp 0 `.
  void Label(int64_t row, Line& line) const {
    line.Put(kIndent);
    const int64_t end = static_cast<int64_t>(kIndent.size()) + label_;
    if (array_.rows() && row != kGap) {
      const ArrayDim& dim = array_.dims()[*array_.rows()];
      ink_.Put(dim.axes, ".", line);
      line.Put(" ").Right(CoordinateText(array_.mesh(), dim, row), number_);
    }
    line.PadTo(end);
  }

  Line Row(int64_t panel, int64_t row) const {
    Line out(style_);
    Label(row, out);
    for (int64_t column : columns_) {
      out.Put(glyphs_.down);
      const int64_t end = out.width() + WidthAt(column);
      out.Put(" ").Put(column == kGap || row == kGap
                           ? std::string(glyphs_.gap)
                           : Cell(panel, row, column, brief_));
      out.PadTo(end);
    }
    out.Put(glyphs_.down);
    return out;
  }

  // Returns the title of a panel: `batch 0:32`, or `dp 1` if sizes are unknown.
  Line Title(int64_t panel) const {
    Line out(style_);
    out.Put(kIndent);
    const auto pieces = array_.PanelPieces(panel);
    for (size_t i = 0; i < pieces.size(); ++i) {
      const ArrayDim& dim = array_.dims()[array_.panels()[i]];
      if (i > 0) out.Put(", ");
      const auto range = dim.Range(pieces[i]);
      if (range) {
        out.Put(dim.name + " " + std::to_string(range->first) + ":" +
                std::to_string(range->second));
      } else {
        ink_.Put(dim.axes, ".", out);
        out.Put(" " + CoordinateText(array_.mesh(), dim, pieces[i]));
      }
    }
    return out;
  }

  Lines Panel(int64_t panel) const {
    Lines out;
    if (!array_.panels().empty()) out.push_back(Title(panel));
    if (array_.columns()) out.push_back(Heading());
    out.push_back(Rule(glyphs_.top_left, glyphs_.top, glyphs_.top_right));
    const bool ruled = static_cast<int64_t>(rows_.size()) <= kRuledRows;
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (i > 0 && ruled) {
        out.push_back(Rule(glyphs_.left, glyphs_.cross, glyphs_.right));
      }
      out.push_back(Row(panel, rows_[i]));
    }
    out.push_back(Rule(glyphs_.low_left, glyphs_.low, glyphs_.low_right));
    return out;
  }

  const ArrayPicture& array_;
  const PictureStyle& style_;
  const Glyphs& glyphs_;
  AxisInk ink_;
  std::vector<int64_t> rows_, columns_;
  // The number of digits of the largest device number.
  size_t digits_ = 1;
  // Widths in columns of the terminal: of the labels of rows, which are left of
  // the grid, of the number in a label such as `tp 0`, and of a cell.
  int64_t label_ = 0;
  int64_t number_ = 1;
  int64_t cell_ = 3;
  bool brief_ = false;
};

// Returns the line of a dimension: ` dim 0 14336 / 4 = 3584 over tp`.
Line DimLine(const ArrayDim& dim, const AxisInk& ink, int64_t names,
             const PictureStyle& style) {
  Line out(style);
  out.Put(kIndent).Put(dim.name).PadTo(names);
  const std::string size =
      dim.size ? std::to_string(*dim.size) : "size unknown";
  if (dim.parts == 1)
    return out.Put(size + (dim.size ? " unsharded" : ", unsharded"));
  out.Put(size + " / " + std::to_string(dim.parts));
  if (const auto piece = dim.Piece()) {
    const bool even = *dim.size % dim.parts == 0;
    out.Put((even ? " = " : ", at most ") + std::to_string(*piece));
  }
  out.Put(" over ");
  ink.Put(dim.axes, ", ", out);
  return out;
}

// Returns the parts of the title on one line or, if the line is too long, each
// part on its own line.
Lines TitleLines(const std::vector<std::string>& title,
                 const PictureStyle& style) {
  Lines out = {Line(style)};
  for (size_t i = 0; i < title.size(); ++i) {
    Line& line = out.back();
    if (i == 0) {
      line.Bold(title[i]);
    } else if (line.width() + 2 + TextWidth(title[i]) <= style.width) {
      line.Put("  " + title[i]);
    } else {
      out.push_back(Line(style).Put("  " + title[i]));
    }
  }
  return out;
}

}  // namespace

std::string ArrayText(const picture::ArrayPicture& array,
                      const std::vector<std::string>& title,
                      const PictureStyle& style) {
  const AxisInk ink(array.mesh());
  Lines out = TitleLines(title, style);
  int64_t names = 6;
  for (const ArrayDim& dim : array.dims()) {
    names = std::max(names, TextWidth(dim.name));
  }
  names += static_cast<int64_t>(kIndent.size()) + 2;
  for (const ArrayDim& dim : array.dims()) {
    out.push_back(DimLine(dim, ink, names, style));
  }
  Line copies(style);
  copies.Put(kIndent).Put("copies").PadTo(names).Put(CountText(array.copies()));
  if (array.copies() > 1) {
    copies.Put(" over ");
    ink.Put(array.copy_axes(), ", ", copies);
  }
  if (array.whole() && array.mesh().devices > 1) {
    copies.Put(": replicated on every device");
  }
  out.push_back(copies);
  if (array.placement()) {
    Line placed(style);
    placed.Put(kIndent).Put("placed").PadTo(names).Put("at ");
    ink.Put({array.placement()->axis}, "", placed);
    placed.Put(" " + std::to_string(array.placement()->coordinate));
    out.push_back(placed);
  }
  if (array.rank()) {
    Line drawn(style);
    drawn.Put(kIndent).Put("drawn").PadTo(names).Put("for ");
    ink.Put({array.rank()->axis}, "", drawn);
    drawn.Put(" " + std::to_string(array.rank()->coordinate) +
              ", a rank that holds it");
    out.push_back(drawn);
  }
  out.emplace_back(style);
  for (Line& line : ArrayDrawing(array, style).Draw()) out.push_back(line);
  out.emplace_back(style);
  for (Line& line : Wrapped("  a cell is one shard; the numbers in it are the "
                            "devices that hold it",
                            2, style)) {
    out.push_back(line);
  }
  return TextOfLines(out);
}

}  // namespace shardc
