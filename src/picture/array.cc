// Computes which devices hold each shard of an array. In the drawing, each
// shard is a cell, which has one shard index for each dimension. A device
// number is a mixed-radix number: a step along an axis adds the stride of the
// axis. Each shard index of a cell therefore adds an offset to the number of
// the cell's first device. The other devices of the cell differ from the first
// one only along axes that shard no dimension. For example:
//
//   dp 2, fsdp 8, tp 4 have the strides 32, 4 and 1. With the spec [tp, fsdp],
//   the cell in row 1 and column 2 is on device 1 * 1 + 2 * 4 = 9 and, along
//   dp, on device 9 + 32 = 41.
#include "picture/array.h"

#include <algorithm>
#include <utility>

#include "model/mesh_layout.h"
#include "source/size.h"

namespace shardc::picture {

std::optional<int64_t> ArrayDim::Piece() const {
  if (!size) return std::nullopt;
  return ShareOf(*size, parts);
}

std::optional<std::pair<int64_t, int64_t>> ArrayDim::Range(
    int64_t piece) const {
  if (!size) return std::nullopt;
  const ShardRange range = RangeOfShard(*size, axis_sizes, piece);
  return std::pair(range.begin, range.end());
}

namespace {

// Returns the mesh with factors in place of axes of which the spec has
// sub-axes, and writes the spec with them, so that each dimension has complete
// axes of the mesh. The devices keep their numbers.
Mesh RefineMesh(ArrayInput& input) {
  auto mesh = RefinedMesh(input.mesh, {&input.spec, 1});
  if (!mesh) return std::move(input.mesh);
  input.spec = RefinedSpec(*mesh, input.spec);
  return std::move(*mesh);
}

}  // namespace

ArrayPicture::ArrayPicture(ArrayInput input)
    : mesh_(RefineMesh(input)),
      digits_(mesh_),
      dims_(std::move(input.dims)),
      placement_(std::move(input.placement)),
      rank_(std::move(input.rank)),
      free_(mesh_.axes.size(), true) {
  for (size_t i = 0; i < dims_.size() && i < input.spec.size(); ++i) {
    ArrayDim& dim = dims_[i];
    for (const std::string& axis : input.spec[i]) {
      const auto at = mesh_.Find(axis);
      if (!at || mesh_.axes[*at].size == 1 || !free_[*at]) continue;
      free_[*at] = false;
      dim.axes.push_back(axis);
      dim.axis_sizes.push_back(mesh_.axes[*at].size);
      dim.parts *= mesh_.axes[*at].size;
    }
    whole_ = whole_ && dim.parts == 1;
  }
  for (auto* const one : {&placement_, &rank_}) {
    if (!*one) continue;
    const auto at = mesh_.Find((*one)->axis);
    if (at && (*one)->coordinate < mesh_.axes[*at].size) {
      free_[*at] = false;
      whole_ = false;
    } else {
      one->reset();
    }
  }
  for (size_t i = 0; i < free_.size(); ++i) {
    if (!free_[i] || mesh_.axes[i].size == 1) continue;
    copy_axes_.push_back(mesh_.axes[i].name);
    copies_ *= mesh_.axes[i].size;
  }
  Choose(input.drawn);
}

void ArrayPicture::Choose(
    const std::optional<std::pair<size_t, size_t>>& drawn) {
  std::vector<size_t> cut;
  for (size_t i = 0; i < dims_.size(); ++i) {
    if (dims_[i].parts > 1) cut.push_back(i);
  }
  if (drawn && drawn->first < dims_.size() && drawn->second < dims_.size()) {
    rows_ = drawn->first;
    columns_ = drawn->second;
  } else if (cut.size() >= 2) {
    rows_ = cut[cut.size() - 2];
    columns_ = cut.back();
  } else if (cut.size() == 1) {
    (cut[0] + 1 == dims_.size() ? columns_ : rows_) = cut[0];
  }
  for (size_t dim : cut) {
    if (dim != rows_ && dim != columns_) panels_.push_back(dim);
  }
}

int64_t ArrayPicture::PanelCount() const {
  int64_t out = 1;
  for (size_t dim : panels_) out *= dims_[dim].parts;
  return out;
}

std::vector<int64_t> ArrayPicture::PanelPieces(int64_t panel) const {
  std::vector<int64_t> out(panels_.size());
  for (size_t i = panels_.size(); i > 0;) {
    --i;
    const int64_t parts = dims_[panels_[i]].parts;
    out[i] = panel % parts;
    panel /= parts;
  }
  return out;
}

std::vector<int64_t> ArrayPicture::IndexOf(int64_t panel, int64_t row,
                                           int64_t column) const {
  std::vector<int64_t> out(dims_.size(), 0);
  const std::vector<int64_t> pieces = PanelPieces(panel);
  for (size_t i = 0; i < pieces.size(); ++i) out[panels_[i]] = pieces[i];
  if (rows_) out[*rows_] = row;
  if (columns_) out[*columns_] = column;
  return out;
}

int64_t ArrayPicture::Offset(size_t dim, int64_t piece) const {
  const AxisGroup& axes = dims_[dim].axes;
  const auto coordinates = CoordinatesAlong(mesh_, axes, piece);
  int64_t out = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    out += digits_.Offset(*mesh_.Find(axes[i]), coordinates[i]);
  }
  return out;
}

DeviceSet ArrayPicture::At(int64_t panel, int64_t row, int64_t column) const {
  int64_t first = 0;
  for (const auto* const one : {&placement_, &rank_}) {
    if (!*one) continue;
    first += digits_.Offset(*mesh_.Find((*one)->axis), (*one)->coordinate);
  }
  const std::vector<int64_t> index = IndexOf(panel, row, column);
  for (size_t dim = 0; dim < index.size(); ++dim) {
    first += Offset(dim, index[dim]);
  }
  return digits_.Along(free_, first);
}

std::vector<ArrayDim> DimsOf(const std::optional<std::vector<int64_t>>& shape,
                             const Spec& spec, const EqualParts& parts) {
  std::vector<ArrayDim> out;
  for (size_t i = 0; i < (shape ? shape->size() : spec.size()); ++i) {
    const int64_t count = PartsAt(parts, i);
    const std::string name = "dim " + std::to_string(i);
    if (count > 1) {
      ArrayDim& of_parts = out.emplace_back();
      of_parts.name = name + " parts";
      of_parts.size = count;
    }
    ArrayDim& dim = out.emplace_back();
    dim.name = name + (count > 1 ? " of a part" : "");
    if (shape) dim.size = (*shape)[i] / count;
  }
  return out;
}

// Treats device numbers as mixed-radix numbers, whose digits are coordinates on
// the axes. The least significant digits are the coordinates inside a slice (a
// group of devices with fast links), from the last axis to the first. The
// coordinates of the slice follow in the same order. The stride of a digit is
// the product of the sizes of all less significant digits. For example, the
// mesh dp 2, tp 4 of one slice has these digits:
//
//   tp: size 4, stride 1
//   dp: size 2, stride 4
//
// If tp is divided over two slices, tp has two digits:
//
//   tp inside a slice:  size 2, stride 1
//   dp:                 size 2, stride 2
//   tp over slices:     size 2, stride 4

int64_t DeviceSet::count() const {
  int64_t out = 1;
  for (const Digit& digit : digits) out *= digit.size;
  return out;
}

int64_t DeviceSet::At(int64_t index) const {
  int64_t out = first;
  for (const Digit& digit : digits) {
    out += index % digit.size * digit.stride;
    index /= digit.size;
  }
  return out;
}

std::optional<int64_t> DeviceSet::Step() const {
  for (size_t i = 1; i < digits.size(); ++i) {
    if (digits[i].stride != digits[i - 1].stride * digits[i - 1].size) {
      return std::nullopt;
    }
  }
  return digits.empty() ? 1 : digits.front().stride;
}

MeshDigits::MeshDigits(const Mesh& mesh) : axes_(mesh.axes.size()) {
  const bool sliced = mesh.dcn.size() == mesh.axes.size();
  int64_t stride = 1;
  for (size_t i = axes_.size(); i > 0;) {
    --i;
    const int64_t slices = sliced ? std::max<int64_t>(1, mesh.dcn[i]) : 1;
    axes_[i].inner = std::max<int64_t>(1, mesh.axes[i].size / slices);
    axes_[i].near = {stride, axes_[i].inner};
    stride *= axes_[i].inner;
  }
  for (size_t i = axes_.size(); i > 0;) {
    --i;
    const int64_t slices = mesh.axes[i].size / axes_[i].inner;
    axes_[i].far = {stride, slices};
    stride *= slices;
  }
}

int64_t MeshDigits::Offset(size_t axis, int64_t coordinate) const {
  const Axis& of = axes_[axis];
  return coordinate % of.inner * of.near.stride +
         coordinate / of.inner * of.far.stride;
}

DeviceSet MeshDigits::Along(const std::vector<bool>& free,
                            int64_t first) const {
  DeviceSet out{first, {}};
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (!free[i]) continue;
    for (const DeviceSet::Digit& digit : {axes_[i].near, axes_[i].far}) {
      if (digit.size > 1) out.digits.push_back(digit);
    }
  }
  std::sort(out.digits.begin(), out.digits.end(),
            [](const DeviceSet::Digit& a, const DeviceSet::Digit& b) {
              return a.stride < b.stride;
            });
  return out;
}

std::vector<int64_t> CoordinatesAlong(const Mesh& mesh, const AxisGroup& axes,
                                      int64_t piece) {
  std::vector<int64_t> out(axes.size());
  for (size_t i = axes.size(); i > 0;) {
    --i;
    const int64_t size = mesh.SizeOf(axes[i]);
    out[i] = piece % size;
    piece /= size;
  }
  return out;
}

namespace {

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
      // Hosts have this form if each cell is on the host of its first cell.
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
