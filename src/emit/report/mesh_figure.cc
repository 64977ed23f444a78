// The mesh is drawn in px at its own size, one panel per coordinate of the
// outer axes; hosts are outlined and separated by gaps:
//
//   cells of 30 x 24 px with device numbers, or 11 x 11 px without, if a row or
//   a column has more than 16
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

// Draws the mesh: cells with device numbers, or plain squares if there are too
// many devices for numbers.
class MeshDrawing {
 public:
  MeshDrawing(Page& page, const MeshPicture& mesh)
      : html_(page.html), page_(page), mesh_(mesh) {
    const int64_t rows = mesh.RowCount(), columns = mesh.ColumnCount();
    plain_ = rows > 16 || columns > 16;
    shown_rows_ = std::min<int64_t>(rows, plain_ ? 32 : 16);
    shown_columns_ = std::min<int64_t>(columns, plain_ ? 64 : 16);
    width_ =
        plain_
            ? 11
            : std::max(30.0, WidthOf(std::to_string(page.mesh().devices - 1)));
    height_ = plain_ ? 11 : 24;
    if (mesh.rows()) {
      const auto letters =
          static_cast<double>(TextWidth(Printable(NameOf(*mesh.rows()))) + 3);
      left_ = std::max(34.0, letters * kLetter);
    }
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
    html_.Raw("<p class=q>").Count(count).Raw(" more such panels");
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

  // Hosts are separated by a gap: counts the gaps left of a column, above a
  // row.
  double X(int64_t column) const {
    const double cells = static_cast<double>(column) * (width_ + 2);
    if (mesh_.host_form() != HostForm::kInRow) return left_ + cells;
    const int64_t hosts = column / mesh_.host_cells();
    return left_ + cells + static_cast<double>(hosts * 6);
  }
  double Y(int64_t row) const {
    const double cells = static_cast<double>(row) * (height_ + 2);
    const bool rows = mesh_.host_form() == HostForm::kRows;
    const int64_t hosts = rows ? row / mesh_.host_cells()
                          : mesh_.host_form() == HostForm::kInRow ? row
                                                                  : 0;
    return 32 + cells + static_cast<double>(hosts * 6);
  }

  void Word(std::string_view look, double x, double y, std::string_view text) {
    html_.Raw("<text class=\"").Raw(look).Raw("\" x=\"").Fixed(x);
    html_.Raw("\" y=\"").Fixed(y).Raw("\">").Text(text).Raw("</text>");
  }

  void Heads() {
    const int64_t every = plain_ ? 8 : 1;
    if (mesh_.columns()) {
      const std::string& name = NameOf(*mesh_.columns());
      Word("axis " + page_.AxisClass(name), left_, 11, name + " →");
      for (int64_t c = 0; c < shown_columns_; c += every) {
        Word(plain_ ? "m0" : "mid m0", X(c) + (plain_ ? 0 : width_ / 2), 26,
             std::to_string(c));
      }
    }
    if (mesh_.rows()) {
      const std::string& name = NameOf(*mesh_.rows());
      Word("axis " + page_.AxisClass(name), 0, 26, name + " ↓");
      for (int64_t r = 0; r < shown_rows_; r += plain_ ? 4 : 1) {
        Word("mid m0", left_ - 16, Y(r) + height_ / 2 + 4, std::to_string(r));
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
        html_.Raw("<rect class=host rx=4 x=\"").Fixed(X(c) - 2);
        html_.Raw("\" y=\"").Fixed(Y(r) - 2).Raw("\" width=\"");
        html_.Fixed(X(last) + width_ - X(c) + 4).Raw("\" height=\"");
        html_.Fixed(Y(last_row) + height_ - Y(r) + 4).Raw("\"/>");
      }
    }
  }

  void Squares() {
    html_.Raw("<path class=cell d=\"");
    for (int64_t r = 0; r < shown_rows_; ++r) {
      for (int64_t c = 0; c < shown_columns_; ++c) {
        html_.Raw("M").Fixed(X(c)).Raw(" ").Fixed(Y(r)).Raw("h11v11h-11z");
      }
    }
    html_.Raw("\"/>");
  }

  void Cells(int64_t panel) {
    for (int64_t r = 0; r < shown_rows_; ++r) {
      for (int64_t c = 0; c < shown_columns_; ++c) {
        const int64_t device = mesh_.At(panel, r, c);
        html_.Raw("<g data-d=").Number(device).Raw("><title>device ");
        html_.Number(device);
        if (mesh_.knows_hosts()) {
          html_.Raw(" on host ").Number(mesh_.HostOf(device));
        }
        html_.Raw("</title><rect class=cell rx=2 x=\"").Fixed(X(c));
        html_.Raw("\" y=\"").Fixed(Y(r)).Raw("\" width=\"").Fixed(width_);
        html_.Raw("\" height=\"").Fixed(height_).Raw("\"/>");
        Word("mid", X(c) + width_ / 2, Y(r) + 16, std::to_string(device));
        html_.Raw("</g>");
      }
    }
  }

  void Panel(int64_t panel) {
    html_.Raw("<div>");
    if (!mesh_.panels().empty()) {
      html_.Raw("<div class=q>");
      const auto at = mesh_.PanelCoordinates(panel);
      for (size_t i = 0; i < at.size(); ++i) {
        html_.Raw(i > 0 ? ", " : "").Name(NameOf(mesh_.panels()[i]));
        html_.Raw(" = ").Number(at[i]);
      }
      html_.Raw("</div>");
    }
    const double width = X(shown_columns_ - 1) + width_ + 6;
    const double height = Y(shown_rows_ - 1) + height_ + 6;
    html_.Raw("<svg width=\"").Fixed(width).Raw("\" height=\"").Fixed(height);
    html_.Raw("\" viewBox=\"0 0 ").Fixed(width).Raw(" ").Fixed(height);
    html_.Raw("\" role=img aria-label=\"").Count(mesh_.RowCount());
    html_.Raw(" by ").Count(mesh_.ColumnCount()).Raw(" devices\">");
    Heads();
    Hosts();
    if (plain_) {
      Squares();
    } else {
      Cells(panel);
    }
    html_.Raw("</svg></div>");
  }

  Html& html_;
  Page& page_;
  const MeshPicture& mesh_;
  bool plain_ = false;
  int64_t shown_rows_ = 1, shown_columns_ = 1;
  double width_ = 30, height_ = 24, left_ = 34;
};

}  // namespace

void DrawMesh(Page& page, const picture::MeshPicture& mesh) {
  MeshDrawing(page, mesh).Draw();
}

}  // namespace shardc::report
