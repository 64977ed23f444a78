// Draws a mesh as panels of device numbers. If the devices of a host are
// complete rows, a bracket to the right of the rows marks the host. If a row
// has several hosts, a wider space separates the hosts. For example, 8 devices
// with 8 or 2 devices per host are drawn as:
//
//   0 │   0  1  2  3 ┐ host 0        0 │   0  1   2  3   hosts 0-1
//   1 │   4  5  6  7 ┘
#include "emit/pictures/line.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "picture/bars.h"
#include "source/wording.h"

namespace shardc {
namespace {

using picture::HostForm;
using picture::kGap;
using picture::MeshPicture;

constexpr int64_t kMostMeshPanels = 8;
// If the mesh has more devices than this, only one panel is drawn.
constexpr int64_t kMostDevices = 128;

class MeshDrawing {
 public:
  MeshDrawing(const MeshPicture& mesh, const PictureStyle& style)
      : mesh_(mesh),
        style_(style),
        glyphs_(GlyphsOf(style)),
        ink_(mesh.mesh()) {
    digits_ = static_cast<int64_t>(
        std::to_string(std::max<int64_t>(0, mesh.mesh().devices - 1)).size());
    if (mesh.rows()) {
      Line names(style);
      Corner(names);
      label_ = names.width();
    }
    // The width of `host 12`, or of `hosts 12-15` if a row has several hosts.
    int64_t host = 0;
    if (mesh.host_form() != HostForm::kNone) {
      const auto number = static_cast<int64_t>(
          std::to_string(mesh.mesh().processes - 1).size());
      host = mesh.host_form() == HostForm::kRows ? 9 + number : 10 + 2 * number;
    }
    const int64_t room = style.width - 2 - label_ - 3 - host - 1;
    columns_ = picture::Shown(
        mesh.ColumnCount(),
        std::clamp<int64_t>(room / (digits_ + 1), 3, picture::kMostPieces));
    rows_ = picture::Shown(mesh.RowCount(), picture::kMostPieces);
  }

  Lines Draw() const {
    const int64_t all = mesh_.PanelCount();
    const bool every = all <= kMostMeshPanels &&
                       (all == 1 || mesh_.mesh().devices <= kMostDevices);
    const int64_t shown = every ? all : 1;
    std::vector<Lines> panels;
    for (int64_t i = 0; i < shown; ++i) panels.push_back(Panel(i));
    Lines out = SideBySide(panels, 3, style_);
    if (shown == all) return out;
    out.emplace_back(style_);
    std::string more = "  " + CountText(all - 1) + " more such panels";
    // The other panels are not drawn. If the panels are the coordinates of one
    // axis, and the device numbers of successive panels differ by a constant,
    // the text states this constant.
    if (mesh_.panels().size() == 1) {
      const auto& line = mesh_.axes()[mesh_.panels()[0]];
      if (const auto step = line.group.Step()) {
        more += ": add " + std::to_string(*step) + " to the numbers for each";
      }
    }
    out.push_back(Line(style_).Put(more));
    return out;
  }

 private:
  const std::string& NameOf(size_t axis) const {
    return mesh_.mesh().axes[axis].name;
  }

  // Appends the heading of the corner cell, the axes of rows and columns:
  // `fsdp \ tp`.
  void Corner(Line& line) const {
    ink_.Put({NameOf(*mesh_.rows())}, "", line);
    line.Put(" \\ ");
    ink_.Put({NameOf(*mesh_.columns())}, "", line);
  }

  // Returns whether the space to the left of column number `at` is wider. This
  // marks the border between two hosts, or the place where columns are left
  // out.
  bool SplitsBefore(size_t at) const {
    if (mesh_.host_form() != HostForm::kInRow || at == 0) return false;
    const int64_t column = columns_[at];
    return column == kGap || column % mesh_.host_cells() == 0;
  }

  Line Heading() const {
    Line out(style_);
    out.Put("  ");
    if (mesh_.rows()) {
      Corner(out);
    } else if (mesh_.columns()) {
      ink_.Put({NameOf(*mesh_.columns())}, "", out);
    }
    out.PadTo(2 + label_ + 3);
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (SplitsBefore(i)) out.Put(" ");
      out.Put(" ").Right(columns_[i] == kGap ? "" : std::to_string(columns_[i]),
                         digits_);
    }
    return out;
  }

  void HostMark(int64_t panel, int64_t row, Line& line) const {
    if (mesh_.host_form() == HostForm::kNone || row == kGap) return;
    const int64_t host = mesh_.HostOf(mesh_.At(panel, row, 0));
    if (mesh_.host_form() == HostForm::kInRow) {
      const int64_t last =
          mesh_.HostOf(mesh_.At(panel, row, mesh_.ColumnCount() - 1));
      line.Put("  " + (host == last ? "host " + std::to_string(host)
                                    : "hosts " + std::to_string(host) + "-" +
                                          std::to_string(last)));
      return;
    }
    const int64_t cells = mesh_.host_cells(), at = row % cells;
    if (cells == 1) {
      line.Put("  host " + std::to_string(host));
    } else if (at == 0) {
      line.Put(" ").Put(glyphs_.host_top).Put(" host " + std::to_string(host));
    } else {
      line.Put(" ").Put(at + 1 == cells ? glyphs_.host_low : glyphs_.host);
    }
  }

  Line Row(int64_t panel, int64_t row) const {
    Line out(style_);
    const int64_t end = 2 + label_;
    const std::string name =
        row == kGap || !mesh_.rows() ? std::string() : std::to_string(row);
    out.Repeat(" ", end - static_cast<int64_t>(name.size())).Put(name);
    out.PadTo(end).Put(" ").Put(glyphs_.down).Put(" ");
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (SplitsBefore(i)) out.Put(" ");
      const bool gap = columns_[i] == kGap || row == kGap;
      out.Put(" ").Right(
          gap ? std::string(glyphs_.gap)
              : std::to_string(mesh_.At(panel, row, columns_[i])),
          digits_);
    }
    HostMark(panel, row, out);
    return out;
  }

  Lines Panel(int64_t panel) const {
    Lines out;
    if (!mesh_.panels().empty()) {
      Line title(style_);
      title.PadTo(2 + label_ + 1);
      const auto at = mesh_.PanelCoordinates(panel);
      for (size_t i = 0; i < at.size(); ++i) {
        title.Put(i == 0 ? " " : ", ");
        ink_.Put({NameOf(mesh_.panels()[i])}, "", title);
        title.Put(" " + std::to_string(at[i]));
      }
      out.push_back(title);
    }
    out.push_back(Heading());
    for (int64_t row : rows_) out.push_back(Row(panel, row));
    return out;
  }

  const MeshPicture& mesh_;
  const PictureStyle& style_;
  const Glyphs& glyphs_;
  AxisInk ink_;
  int64_t digits_ = 1, label_ = 0;
  std::vector<int64_t> rows_, columns_;
};

Lines AxisTable(const MeshPicture& mesh, const PictureStyle& style) {
  const AxisInk ink(mesh.mesh());
  int64_t name = 0, size = 0, stride = 0, group = 0;
  struct Row {
    std::string size, stride, group;
  };
  std::vector<Row> rows;
  for (const picture::AxisLine& line : mesh.axes()) {
    const MeshAxis& axis = mesh.mesh().axes[line.axis];
    const auto step = line.group.Step();
    rows.push_back({std::to_string(axis.size),
                    axis.size == 1 ? "-"
                    : step         ? std::to_string(*step)
                                   : "uneven",
                    DevicesText(line.group)});
    name = std::max(name, TextWidth(Printable(axis.name)));
    size = std::max(size, TextWidth(rows.back().size));
    stride = std::max(stride, TextWidth(rows.back().stride));
    group = std::max(group, TextWidth(rows.back().group));
  }
  int64_t lies = 0;
  for (const picture::AxisLine& line : mesh.axes()) {
    lies = std::max(lies, TextWidth(HostSpanText(line)));
  }
  const int64_t strides = 9 + stride;
  const int64_t at = 2 + name + 2 + size + 2 + group + 2;
  // The column of strides is omitted if the line has no room for it. The column
  // of groups, `0-60 step 4`, shows the stride too.
  const bool with_stride = at + strides + lies <= style.width;
  Lines out;
  for (size_t i = 0; i < rows.size(); ++i) {
    const picture::AxisLine& line = mesh.axes()[i];
    Line row(style);
    row.Put("  ");
    ink.Put({mesh.mesh().axes[line.axis].name}, "", row);
    row.PadTo(2 + name + 2).Right(rows[i].size, size);
    if (with_stride) row.Put("  stride ").Right(rows[i].stride, stride);
    row.Put("  ").Put(rows[i].group);
    const std::string text = HostSpanText(line);
    if (!text.empty()) row.PadTo(at + (with_stride ? strides : 0)).Put(text);
    out.push_back(row);
  }
  return out;
}

}  // namespace

std::string MeshPictureText(const picture::MeshPicture& mesh,
                            const PictureStyle& style) {
  const AxisInk ink(mesh.mesh());
  Lines out;
  Line head(style);
  for (const MeshAxis& axis : mesh.mesh().axes) {
    if (head.width() > 0) head.Put(" ");
    ink.Put({axis.name}, "", head);
    head.Put("=" + std::to_string(axis.size));
  }
  head.Put("   " + Counted(mesh.mesh().devices, "device"));
  if (mesh.knows_hosts()) {
    head.Put(", " + Counted(mesh.mesh().processes, "host") + " of " +
             CountText(mesh.PerHost()));
  }
  if (mesh.mesh().slices > 1) {
    head.Put(", " + Counted(mesh.mesh().slices, "slice"));
  }
  out.push_back(head);
  out.emplace_back(style);
  for (Line& line : MeshDrawing(mesh, style).Draw()) out.push_back(line);
  if (mesh.knows_hosts() && mesh.host_form() == HostForm::kNone) {
    out.emplace_back(style);
    out.push_back(Line(style).Put(
        "  hosts are neither complete rows nor parts of one row"));
  }
  out.emplace_back(style);
  for (Line& line : AxisTable(mesh, style)) out.push_back(line);
  return TextOfLines(out);
}

}  // namespace shardc
