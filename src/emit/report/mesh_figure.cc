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
#include <algorithm>
#include <vector>

#include "emit/pictures/line.h"
#include "emit/pictures/words.h"
#include "emit/report/drawing.h"
#include "emit/report/figures.h"
#include "source/wording.h"

namespace shardc::report {
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
    height_ = plain_ ? 11 : 24;
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
    const double cells = static_cast<double>(row) * (height_ + 2);
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
        Word("mid", X(c) + Percent(0.5), 0, Y(r) + 16, std::to_string(device));
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
  double height_ = 24;  // px
};

}  // namespace

void DrawMesh(Page& page, const picture::MeshPicture& mesh) {
  MeshDrawing(page, mesh).Draw();
}

}  // namespace shardc::report
