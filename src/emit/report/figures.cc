// Draws a sharded array as SVG. Each shard is a rectangle, called a tile, that
// shows the devices that hold the shard. If several devices hold copies of a
// shard, the copies are drawn as sheets behind the tile. Labels to the left of
// and above the tiles have the coordinates on the mesh axes that shard the
// array. The drawing has a fixed size in px. If it is wider than the page, the
// reader scrolls it.
//
// For example, the sheets need room between the tiles:
//
//   1 copy: tiles are 3 px apart, 2 copies: 6 px, more copies: 8 px
#include <algorithm>
#include <string>
#include <vector>

#include "emit/pictures/line.h"
#include "emit/report/page.h"
#include "model/mesh_layout.h"
#include "picture/bars.h"
#include "source/wording.h"

namespace shardc::report {
namespace {

// The width of a letter in the drawings' font, in px.
inline constexpr double kLetter = 6.7;

// Returns the width in px of a cell with this text.
inline double WidthOf(const std::string& text) {
  return static_cast<double>(text.size()) * kLetter + 10;
}

using picture::ArrayDim;
using picture::ArrayPicture;
using picture::DeviceSet;
using picture::kGap;

constexpr int64_t kMostPanels = 4;
constexpr int64_t kListedTiles = 64;

// Returns a set of devices in the form that the page's script parses.
// `3,4x8,32x2` means devices 3, 7, ..., 31, and the same numbers plus 32.
std::string Code(const DeviceSet& devices) {
  std::string out = std::to_string(devices.first);
  for (const DeviceSet::Digit& digit : devices.digits) {
    out +=
        "," + std::to_string(digit.stride) + "x" + std::to_string(digit.size);
  }
  return out;
}

// Returns the CSS class of one of ten colour steps from pale to full. The first
// of `count` positions (`at` is 0) is pale, and the last one is full.
std::string Step(int64_t at, int64_t count) {
  return "o" + std::to_string(count > 1 ? at * 9 / (count - 1) : 5);
}

std::string RangeText(const ArrayDim& dim, int64_t piece) {
  const auto range = dim.Range(piece);
  if (!range) return dim.name + " shard " + std::to_string(piece);
  return dim.name + " " + std::to_string(range->first) + ":" +
         std::to_string(range->second);
}

class ArrayDrawing {
 public:
  ArrayDrawing(Page& page, const ArrayPicture& array)
      : page_(page), html_(page.html), array_(array) {
    const int64_t most = std::max<int64_t>(
        4, std::min<int64_t>(picture::kMostPieces, page.limits.tiles / 8));
    rows_ = picture::Shown(array.RowCount(), most);
    columns_ = picture::Shown(array.ColumnCount(), most);
    const auto cells = static_cast<int64_t>(rows_.size() * columns_.size());
    panels_ = std::min(
        array.PanelCount(),
        std::clamp<int64_t>(page.limits.tiles / cells, 1, kMostPanels));
    Measure();
  }

  void Draw() {
    html_.Raw("<div class=draw tabindex=0 role=group data-across=");
    html_.Count(static_cast<int64_t>(columns_.size())).Raw(" aria-label=\"");
    html_.Text("shards and the devices that hold them").Raw("\">");
    for (int64_t i = 0; i < panels_; ++i) Panel(i);
    html_.Raw("</div><p class=selected aria-live=polite></p>");
    if (panels_ < array_.PanelCount()) {
      html_.Raw("<p class=q>" +
                Counted(array_.PanelCount() - panels_, "more such panel") +
                ".</p>");
    }
    if (!array_.whole()) List();
  }

 private:
  std::string Label(const DeviceSet& devices) const {
    if (array_.whole()) return "× " + CountText(devices.count());
    if (devices.count() == 1) return std::to_string(devices.first);
    if (devices.count() == 2) {
      return std::to_string(devices.first) + " " +
             std::to_string(devices.last());
    }
    const std::string all = DevicesText(devices, "–");
    return array_.columns() && WidthOf(all) > 60 ? DevicesShort(devices) : all;
  }

  void Measure() {
    width_ = array_.columns() ? 46 : 176;
    height_ = array_.rows() ? 30 : 52;
    const int64_t panels[] = {0, array_.PanelCount() - 1};
    for (int64_t panel : panels) {
      for (int64_t row : {rows_.front(), rows_.back()}) {
        for (int64_t column : {columns_.front(), columns_.back()}) {
          width_ =
              std::max(width_, WidthOf(Label(array_.At(panel, row, column))));
        }
      }
    }
    if (array_.columns()) {
      top_ = 22;
      width_ = std::max(width_, WidthOf(Edge(*array_.columns(), -1)));
    }
    if (array_.rows()) {
      std::string names = "↓";
      for (const std::string& axis :
           JoinedGroup(array_.dims()[*array_.rows()].axes)) {
        names += axis + ".";
      }
      left_ = 8 + std::max({24.0, WidthOf(Edge(*array_.rows(), -1)),
                            static_cast<double>(TextWidth(names)) * kLetter});
      top_ = std::max(top_, 16.0);
    }
    sheets_ = static_cast<double>(std::min<int64_t>(array_.copies() - 1, 2));
    gap_ = 3 + (sheets_ > 0 ? 3 : 0) + (sheets_ > 1 ? 2 : 0);
  }

  // Returns the coordinate of shard `piece` in a dimension as text. If `piece`
  // is negative, returns the longest such text.
  std::string Edge(size_t dim, int64_t piece) const {
    const ArrayDim& of = array_.dims()[dim];
    return CoordinateText(array_.mesh(), of, piece < 0 ? of.parts - 1 : piece);
  }
  // Returns the CSS classes that colour a tile or a label by the outermost axis
  // that shards the dimension.
  std::string Look(size_t dim, int64_t piece) const {
    const ArrayDim& of = array_.dims()[dim];
    const std::string axis =
        of.axes.empty() ? "a7" : page_.AxisClass(of.axes[0]);
    return axis + " " + Step(piece, of.parts);
  }

  double X(size_t at) const {
    return left_ + static_cast<double>(at) * (width_ + gap_);
  }
  double Y(size_t at) const {
    return top_ + static_cast<double>(at) * (height_ + gap_);
  }

  void Rect(std::string_view look, double x, double y, double width,
            double height) {
    html_.Raw("<rect class=\"").Raw(look).Raw("\" x=\"").Fixed(x);
    html_.Raw("\" y=\"").Fixed(y).Raw("\" width=\"").Fixed(width);
    html_.Raw("\" height=\"").Fixed(height).Raw("\"/>");
  }
  void Word(std::string_view look, double x, double y, std::string_view text) {
    html_.Raw("<text class=\"").Raw(look).Raw("\" x=\"").Fixed(x);
    html_.Raw("\" y=\"").Fixed(y).Raw("\">").Text(text).Raw("</text>");
  }

  void Names(size_t dim, double x, double y, std::string_view arrow_before,
             std::string_view arrow_after) {
    const AxisGroup axes = JoinedGroup(array_.dims()[dim].axes);
    const std::string text =
        std::string(arrow_before) + Join(axes, ".") + std::string(arrow_after);
    Word("axis " + page_.AxisClass(axes.empty() ? "" : axes[0]), x, y, text);
  }

  void Panel(int64_t panel) {
    const double names =
        // The names of the columns' axes are drawn right of the columns.
        array_.columns() ? 10 + 8 * kLetter : 0;
    const double width = X(columns_.size()) + 6 + names;
    const double height = Y(rows_.size()) + 6;
    html_.Raw("<div>");
    if (!array_.panels().empty()) {
      html_.Raw("<div class=q>");
      const auto pieces = array_.PanelPieces(panel);
      for (size_t i = 0; i < pieces.size(); ++i) {
        html_.Raw(i > 0 ? ", " : "");
        html_.Text(RangeText(array_.dims()[array_.panels()[i]], pieces[i]));
      }
      html_.Raw("</div>");
    }
    html_.Raw("<svg width=\"").Fixed(width).Raw("\" height=\"").Fixed(height);
    html_.Raw("\" viewBox=\"0 0 ").Fixed(width).Raw(" ").Fixed(height);
    html_.Raw("\" role=img aria-label=\"").Count(array_.RowCount());
    html_.Raw(" by ").Count(array_.ColumnCount()).Raw(" shards\">");
    Edges();
    for (size_t r = 0; r < rows_.size(); ++r) {
      for (size_t c = 0; c < columns_.size(); ++c) Tile(panel, r, c);
    }
    html_.Raw("</svg></div>");
  }

  void Edges() {
    if (array_.columns()) {
      const size_t dim = *array_.columns();
      for (size_t c = 0; c < columns_.size(); ++c) {
        if (columns_[c] == kGap) continue;
        Rect("edge " + Look(dim, columns_[c]), X(c), 0, width_, 15);
        Word("mid", X(c) + width_ / 2, 11, Edge(dim, columns_[c]));
      }
      Names(dim, X(columns_.size()) + 2, 11, "← ", "");
    }
    if (array_.rows()) {
      const size_t dim = *array_.rows();
      Names(dim, 0, 11, "", "↓");
      for (size_t r = 0; r < rows_.size(); ++r) {
        if (rows_[r] == kGap) continue;
        Rect("edge " + Look(dim, rows_[r]), 0, Y(r), left_ - 8, height_);
        Word("mid", (left_ - 8) / 2, Y(r) + height_ / 2 + 4,
             Edge(dim, rows_[r]));
      }
    }
  }

  void Tile(int64_t panel, size_t r, size_t c) {
    const double x = X(c), y = Y(r);
    const double middle = x + width_ / 2, low = y + height_ / 2 + 4;
    if (rows_[r] == kGap || columns_[c] == kGap) {
      Word("mid m0", middle, low, "⋯");
      return;
    }
    for (double sheet = sheets_; sheet > 0; --sheet) {
      Rect("sheet", x + sheet * 2.5, y + sheet * 2.5, width_, height_);
    }
    const DeviceSet devices = array_.At(panel, rows_[r], columns_[c]);
    html_.Raw("<g data-d=\"").Raw(Code(devices)).Raw("\"><title>");
    html_.Text(Description(panel, rows_[r], columns_[c], devices))
        .Raw("</title>");
    Rect("back", x, y, width_, height_);
    if (array_.whole()) {
      Rect("tile hatch", x, y, width_, height_);
      const double room = WidthOf(Label(devices));
      Rect("back", middle - room / 2, y + 12, room, height_ - 24);
    } else {
      const auto shaded = array_.rows()      ? array_.rows()
                          : array_.columns() ? array_.columns()
                                             : std::nullopt;
      const int64_t piece = array_.rows() ? rows_[r] : columns_[c];
      Rect("tile " + (shaded ? Look(*shaded, piece) : "a7 o2"), x, y, width_,
           height_);
    }
    Word("mid", middle, low, Label(devices));
    html_.Raw("</g>");
  }

  std::string Description(int64_t panel, int64_t row, int64_t column,
                          const DeviceSet& devices) const {
    std::string out = devices.count() == 1 ? "device " : "devices ";
    out += DevicesText(devices, "–") + ":";
    const auto pieces = array_.PanelPieces(panel);
    std::string parts;
    const auto add = [&](size_t dim, int64_t piece) {
      parts +=
          (parts.empty() ? " " : ", ") + RangeText(array_.dims()[dim], piece);
    };
    for (size_t i = 0; i < pieces.size(); ++i)
      add(array_.panels()[i], pieces[i]);
    if (array_.rows()) add(*array_.rows(), row);
    if (array_.columns()) add(*array_.columns(), column);
    return out + (parts.empty() ? " all of it" : parts);
  }

  void List() {
    html_.Raw(
        "<details><summary>Slices and devices as a table</summary>"
        "<table class=narrow><thead><tr><th scope=col>Shard</th>"
        "<th scope=col>Devices</th></tr></thead><tbody>");
    int64_t listed = 0;
    const int64_t most = std::min(kListedTiles, page_.limits.tiles);
    for (int64_t panel = 0; panel < panels_; ++panel) {
      for (int64_t row : rows_) {
        for (int64_t column : columns_) {
          if (row == kGap || column == kGap || listed == most) continue;
          ++listed;
          const DeviceSet devices = array_.At(panel, row, column);
          const std::string text = Description(panel, row, column, devices);
          html_.Raw("<tr><td>").Text(text.substr(text.find(": ") + 2));
          html_.Raw("</td><td>").Text(DevicesText(devices, "–"));
          html_.Raw("</td></tr>");
        }
      }
    }
    html_.Raw("</tbody></table>");
    const int64_t all =
        array_.PanelCount() * array_.RowCount() * array_.ColumnCount();
    if (listed < all) {
      html_.Raw("<p class=q>and " + Counted(all - listed, "more shard") +
                ".</p>");
    }
    html_.Raw("</details>");
  }

  Page& page_;
  Html& html_;
  const ArrayPicture& array_;
  std::vector<int64_t> rows_, columns_;
  int64_t panels_ = 1;
  double width_ = 46, height_ = 30, left_ = 0, top_ = 0, gap_ = 3, sheets_ = 0;
};

}  // namespace

void WriteArrayCaption(Page& page, const picture::ArrayPicture& array) {
  Html& html = page.html;
  html.Raw("<ul>");
  for (const ArrayDim& dim : array.dims()) {
    html.Raw("<li>").Text(dim.name).Raw(" ");
    if (dim.size) html.Raw("<b>").Number(*dim.size);
    if (dim.parts == 1) {
      html.Raw(dim.size ? "</b> unsharded</li>" : "unsharded</li>");
      continue;
    }
    if (!dim.size) html.Raw("<b>");
    html.Raw(" / ").Number(dim.parts);
    if (const auto piece = dim.Piece()) {
      html.Raw(*dim.size % dim.parts == 0 ? " = " : ", at most ");
      html.Number(*piece);
    }
    html.Raw("</b> over ");
    page.Axes(dim.axes);
    html.Raw("</li>");
  }
  html.Raw("<li>copies <b>").Count(array.copies()).Raw("</b>");
  if (array.copies() > 1) {
    html.Raw(" over ");
    page.Axes(array.copy_axes());
  }
  html.Raw("</li>");
  if (array.placement()) {
    html.Raw("<li>drawn for ");
    page.Axis(array.placement()->axis);
    html.Raw(" ").Number(array.placement()->coordinate);
    html.Raw(", where it is placed</li>");
  }
  if (array.rank()) {
    html.Raw("<li>drawn for ");
    page.Axis(array.rank()->axis);
    html.Raw(" ").Number(array.rank()->coordinate);
    html.Raw(", a rank that holds it</li>");
  }
  html.Raw("</ul>");
}

void DrawArray(Page& page, const picture::ArrayPicture& array) {
  ArrayDrawing(page, array).Draw();
}

// Draws the mesh as wide as the page allows. The last axes are the rows and
// columns of a panel of cells, one cell for each device. There is one panel for
// each coordinate on the remaining axes, but only the first panel is drawn if
// there are many. Hosts are outlined and separated by gaps. Widths are in
// percent of the panel, so that text has the same size on a phone. Heights are
// in px.
//
// For example, 8 columns belong to 2 hosts. The width is 8 cells, 7 gaps of
// 0.07 cells between columns, and one more gap of 0.2 cells between the hosts,
// in total 8.69 cells. Column 4 begins at 4.48 cells, which is 51.55 %.

namespace {

using picture::HostForm;
using picture::MeshPicture;

// The width of the row numbers in px, as in the style sheet.
constexpr double kRowNumbers = 56;
// Widths as multiples of the width of a cell: the gap between two columns, and
// the additional gap between two hosts.
constexpr double kColumnGap = 0.07, kHostGap = 0.2;

// Draws the mesh as cells with device numbers. If there are too many cells,
// they are drawn as plain squares without numbers.
class MeshDrawing {
 public:
  MeshDrawing(Page& page, const MeshPicture& mesh)
      : html_(page.html), page_(page), mesh_(mesh) {
    const int64_t rows = mesh.RowCount(), columns = mesh.ColumnCount();
    plain_ = rows > 16 || columns > 16;
    shown_rows_ = std::min<int64_t>(rows, plain_ ? 32 : 16);
    shown_columns_ = std::min<int64_t>(columns, plain_ ? 64 : 16);
    height_ = plain_ ? 11 : 16;
  }

  void Draw() {
    const int64_t all = mesh_.PanelCount();
    const bool every =
        all <= 8 &&
        mesh_.mesh().devices <= std::min<int64_t>(128, page_.limits.tiles);
    const int64_t shown = every ? all : 1;
    html_.Raw("<div class=draw tabindex=0 role=group data-across=");
    html_.Count(shown_columns_).Raw(" aria-label=\"device grid\">");
    for (int64_t i = 0; i < shown; ++i) Panel(i);
    html_.Raw("</div><p class=selected aria-live=polite></p>");
    if (shown_rows_ < mesh_.RowCount() ||
        shown_columns_ < mesh_.ColumnCount()) {
      html_.Raw("<p class=q>The first ").Count(shown_rows_).Raw(" rows and ");
      html_.Count(shown_columns_).Raw(" columns are drawn.</p>");
    }
    if (shown < all) More(all - shown);
  }

 private:
  void More(int64_t count) {
    html_.Raw("<p class=q>" + Counted(count, "more such panel"));
    if (mesh_.panels().size() == 1) {
      const auto step = mesh_.axes()[mesh_.panels()[0]].group.Step();
      if (step) {
        html_.Raw(": add ").Number(*step).Raw(" to the numbers for each");
      }
    }
    html_.Raw(".</p>");
  }

  const std::string& NameOf(size_t axis) const {
    return mesh_.mesh().axes[axis].name;
  }

  // Returns the left edge of a column as a multiple of the width of a cell. It
  // includes the gaps between hosts to the left of the column.
  double Cells(int64_t column) const {
    const double cells = static_cast<double>(column) * (1 + kColumnGap);
    if (mesh_.host_form() != HostForm::kInRow) return cells;
    const int64_t hosts = column / mesh_.host_cells();
    return cells + static_cast<double>(hosts) * kHostGap;
  }
  // Converts a width in cells to percent of the panel.
  double Percent(double cells) const {
    return 100 * cells / (Cells(shown_columns_ - 1) + 1);
  }
  double X(int64_t column) const { return Percent(Cells(column)); }
  double Y(int64_t row) const {
    const double cells = static_cast<double>(row) * (height_ + 1);
    const bool rows = mesh_.host_form() == HostForm::kRows;
    const int64_t hosts = rows ? row / mesh_.host_cells()
                          : mesh_.host_form() == HostForm::kInRow ? row
                                                                  : 0;
    return 32 + cells + static_cast<double>(hosts * 6);
  }

  // Writes a text. `x` is in percent; `dx` is an offset in px, negative to the
  // left.
  void Word(std::string_view look, double x, double dx, double y,
            std::string_view text) {
    html_.Raw("<text class=\"").Raw(look).Raw("\" x=\"").Fixed(x);
    html_.Raw("%\" dx=\"")
        .Fixed(dx)
        .Raw("\" y=\"")
        .Fixed(y)
        .Raw("\">")
        .Text(text)
        .Raw("</text>");
  }

  void Heads() {
    const int64_t every = plain_ ? 8 : 1;
    if (mesh_.columns()) {
      const std::string& name = NameOf(*mesh_.columns());
      Word("axis " + page_.AxisClass(name), 0, 0, 11, name + " →");
      for (int64_t c = 0; c < shown_columns_; c += every) {
        Word("mid m0", X(c) + Percent(0.5), 0, 26, std::to_string(c));
      }
    }
    if (mesh_.rows()) {
      const std::string& name = NameOf(*mesh_.rows());
      Word("axis " + page_.AxisClass(name), 0, -kRowNumbers, 26, name + " ↓");
      for (int64_t r = 0; r < shown_rows_; r += plain_ ? 4 : 1) {
        Word("end m0", 0, -8, Y(r) + height_ / 2 + 4, std::to_string(r));
      }
    }
  }

  void Hosts() {
    if (mesh_.host_form() == HostForm::kNone) return;
    const bool rows = mesh_.host_form() == HostForm::kRows;
    const int64_t high = rows ? mesh_.host_cells() : 1;
    const int64_t wide = rows ? shown_columns_ : mesh_.host_cells();
    for (int64_t r = 0; r < shown_rows_; r += high) {
      for (int64_t c = 0; c < shown_columns_; c += wide) {
        const int64_t last_row = std::min(shown_rows_, r + high) - 1;
        const int64_t last = std::min(shown_columns_, c + wide) - 1;
        html_.Raw("<rect class=host rx=4 x=\"").Fixed(X(c));
        html_.Raw("%\" y=\"").Fixed(Y(r) - 2).Raw("\" width=\"");
        html_.Fixed(X(last) + Percent(1) - X(c)).Raw("%\" height=\"");
        html_.Fixed(Y(last_row) + height_ - Y(r) + 4).Raw("\"/>");
      }
    }
  }

  void Squares() {
    // Each row of cells is one thick dashed line, whose dashes are the cells.
    const bool hosts = mesh_.host_form() == HostForm::kInRow;
    const int64_t period = hosts ? mesh_.host_cells() : 1;
    for (int64_t r = 0; r < shown_rows_; ++r) {
      const double y = Y(r) + height_ / 2;
      html_.Raw("<line class=cells x1=0 x2=\"100%\" y1=\"").Fixed(y);
      html_.Raw("\" y2=\"").Fixed(y).Raw("\" pathLength=\"");
      html_.Fixed(100 * (Cells(shown_columns_ - 1) + 1));
      html_.Raw("\" stroke-dasharray=\"");
      for (int64_t i = 0; i < period; ++i) {
        const bool last = hosts && i + 1 == period;
        html_.Raw(i > 0 ? " 100 " : "100 ");
        html_.Fixed(100 * (kColumnGap + (last ? kHostGap : 0)));
      }
      html_.Raw("\"/>");
    }
  }

  void Numbered(int64_t panel) {
    for (int64_t r = 0; r < shown_rows_; ++r) {
      for (int64_t c = 0; c < shown_columns_; ++c) {
        const int64_t device = mesh_.At(panel, r, c);
        html_.Raw("<g data-d=").Number(device).Raw("><title>device ");
        html_.Number(device);
        if (mesh_.knows_hosts()) {
          html_.Raw(" on host ").Number(mesh_.HostOf(device));
        }
        html_.Raw("</title><rect class=cell rx=2 x=\"").Fixed(X(c));
        html_.Raw("%\" y=\"").Fixed(Y(r)).Raw("\" width=\"");
        html_.Fixed(Percent(1)).Raw("%\" height=\"").Fixed(height_).Raw("\"/>");
        Word("mid", X(c) + Percent(0.5), 0, Y(r) + 12, std::to_string(device));
        html_.Raw("</g>");
      }
    }
  }

  void Panel(int64_t panel) {
    html_.Raw(shown_columns_ <= 4   ? "<div class=\"grid few\">"
              : shown_columns_ <= 8 ? "<div class=\"grid some\">"
                                    : "<div class=grid>");
    if (!mesh_.panels().empty()) {
      html_.Raw("<div class=q>");
      const auto at = mesh_.PanelCoordinates(panel);
      for (size_t i = 0; i < at.size(); ++i) {
        html_.Raw(i > 0 ? ", " : "").Name(NameOf(mesh_.panels()[i]));
        html_.Raw(" = ").Number(at[i]);
      }
      html_.Raw("</div>");
    }
    const double height = Y(shown_rows_ - 1) + height_ + 6;
    html_.Raw("<svg height=\"")
        .Fixed(height)
        .Raw("\" role=img aria-label=\"")
        .Count(mesh_.RowCount());
    html_.Raw(" by ").Count(mesh_.ColumnCount()).Raw(" devices\">");
    Heads();
    Hosts();
    if (plain_) {
      Squares();
    } else {
      Numbered(panel);
    }
    html_.Raw("</svg></div>");
  }

  Html& html_;
  Page& page_;
  const MeshPicture& mesh_;
  bool plain_ = false;
  int64_t shown_rows_ = 1, shown_columns_ = 1;
  double height_ = 16;  // px
};

}  // namespace

void DrawMesh(Page& page, const picture::MeshPicture& mesh) {
  MeshDrawing(page, mesh).Draw();
}

}  // namespace shardc::report
