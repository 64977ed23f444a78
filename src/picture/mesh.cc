// Arranges the devices of a mesh in panels of rows and columns, and finds the
// form in which the devices of one host are arranged in a panel. The devices of
// a host have consecutive numbers. If the mesh has one slice, the cells of a
// host are usually some full rows of a panel, or a part of one row. If the mesh
// has several slices, the cells may be arranged in another way.
//
// The sizes of rows and hosts show which of the two forms is possible. Each
// cell of the first panel is then checked against this form, if the panel has
// at most kMostCells cells. For example:
//
//   fsdp 8, tp 4 on hosts of 8 devices  ->  each host has two full rows
#include "picture/mesh.h"

#include <algorithm>

namespace shardc::picture {
namespace {

// Limits of the search for hosts: the largest panel in cells, and the longest
// axis in devices.
constexpr int64_t kMostCells = int64_t{1} << 16;

}  // namespace

MeshPicture::MeshPicture(const Mesh& mesh) : mesh_(mesh), digits_(mesh_) {
  for (size_t i = 0; i < mesh_.axes.size(); ++i) {
    if (mesh_.axes[i].size > 1) panels_.push_back(i);
  }
  if (!panels_.empty()) {
    columns_ = panels_.back();
    panels_.pop_back();
  }
  if (!panels_.empty()) {
    rows_ = panels_.back();
    panels_.pop_back();
  }
  FindHosts();
  for (size_t i = 0; i < mesh_.axes.size(); ++i) axes_.push_back(LineOf(i));
}

int64_t MeshPicture::RowCount() const { return SizeAt(rows_); }
int64_t MeshPicture::ColumnCount() const { return SizeAt(columns_); }

int64_t MeshPicture::PanelCount() const {
  int64_t out = 1;
  for (size_t axis : panels_) out *= mesh_.axes[axis].size;
  return out;
}

std::vector<int64_t> MeshPicture::PanelCoordinates(int64_t panel) const {
  std::vector<int64_t> out(panels_.size());
  for (size_t i = panels_.size(); i > 0;) {
    --i;
    out[i] = panel % mesh_.axes[panels_[i]].size;
    panel /= mesh_.axes[panels_[i]].size;
  }
  return out;
}

int64_t MeshPicture::At(int64_t panel, int64_t row, int64_t column) const {
  int64_t out = 0;
  const auto at = PanelCoordinates(panel);
  for (size_t i = 0; i < panels_.size(); ++i) {
    out += digits_.Offset(panels_[i], at[i]);
  }
  if (rows_) out += digits_.Offset(*rows_, row);
  if (columns_) out += digits_.Offset(*columns_, column);
  return out;
}

void MeshPicture::FindHosts() {
  const int64_t rows = RowCount(), columns = ColumnCount();
  if (!knows_hosts() || mesh_.devices % mesh_.processes != 0) return;
  if (rows > kMostCells / columns) return;
  const int64_t per_host = PerHost();
  HostForm form = HostForm::kNone;
  int64_t cells = 0;
  if (per_host % columns == 0 && rows % (per_host / columns) == 0) {
    form = HostForm::kRows;
    cells = per_host / columns;
  } else if (columns % per_host == 0) {
    form = HostForm::kInRow;
    cells = per_host;
  }
  for (int64_t r = 0; r < rows && form != HostForm::kNone; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      // If the cells have this form, this cell is on the same host as `first`.
      const int64_t first = form == HostForm::kRows
                                ? At(0, r / cells * cells, 0)
                                : At(0, r, c / cells * cells);
      if (HostOf(At(0, r, c)) != HostOf(first)) form = HostForm::kNone;
    }
  }
  host_form_ = form;
  host_cells_ = form == HostForm::kNone ? 0 : cells;
}

AxisLine MeshPicture::LineOf(size_t axis) const {
  AxisLine out;
  out.axis = axis;
  std::vector<bool> free(mesh_.axes.size(), false);
  free[axis] = true;
  out.group = digits_.Along(free, 0);
  const int64_t size = mesh_.axes[axis].size;
  if (!knows_hosts() || mesh_.devices % mesh_.processes != 0 ||
      size > kMostCells) {
    return out;
  }
  // A run is a sequence of devices on one host, in the order of device numbers.
  // The longest and the shortest run are found.
  int64_t hosts = 0, run = 0, longest = 0, shortest = size, before = -1;
  const auto end = [&] {
    if (before >= 0) shortest = std::min(shortest, run);
    longest = std::max(longest, run);
  };
  for (int64_t i = 0; i < size; ++i) {
    const int64_t host = HostOf(out.group.At(i));
    if (host != before) {
      end();
      ++hosts;
      run = 0;
      before = host;
    }
    ++run;
  }
  end();
  if (longest == shortest) {
    out.per_host = longest;
    out.hosts = hosts;
  }
  return out;
}

}  // namespace shardc::picture
