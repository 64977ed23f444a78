// Directory: picture. Computes, as values, what pictures of a plan show: which
// devices hold a shard, grids, bars, a treemap, and folded parameters.
// Its files include headers of these directories: source, model, roles, comm,
// facts, plan.
//
// This header represents a set of devices without listing the devices. A device
// number is written with digits, which are coordinates on the mesh axes. An
// axis is one digit, or two digits if several slices divide the axis. A set
// consists of its first device and of the digits that may have any value.
#ifndef SHARDC_PICTURE_ARRAY_H_
#define SHARDC_PICTURE_ARRAY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/legal_sizes.h"
#include "model/mesh.h"
#include "plan/read.h"

namespace shardc::picture {

// The device numbers `first` + k1 * stride1 + k2 * stride2 + ..., where each k
// ranges from 0 to the size of its digit, exclusive.
struct DeviceSet {
  struct Digit {
    int64_t stride = 1;
    int64_t size = 1;
    bool operator==(const Digit&) const = default;
  };
  int64_t first = 0;
  std::vector<Digit> digits;  // sorted by stride; all sizes are above 1

  int64_t count() const;
  int64_t At(int64_t index) const;  // the number at `index` in ascending order
  int64_t last() const { return At(count() - 1); }
  // Returns the difference between neighbouring numbers; 1 if there is a single
  // device, and nullopt if the difference is not constant.
  std::optional<int64_t> Step() const;
};

// Computes device numbers from coordinates on a mesh.
class MeshDigits {
 public:
  explicit MeshDigits(const Mesh& mesh);

  // Returns the offset that a coordinate on an axis adds to a device number.
  int64_t Offset(size_t axis, int64_t coordinate) const;
  // Returns the devices that differ from `first` only along free axes; `first`
  // is one of them. `free` is indexed by mesh axis. The coordinates of `first`
  // along free axes must be 0.
  DeviceSet Along(const std::vector<bool>& free, int64_t first) const;

 private:
  struct Axis {
    int64_t inner = 1;  // number of devices along the axis inside a slice
    // The digit inside a slice, and the digit across slices.
    DeviceSet::Digit near, far;
  };
  std::vector<Axis> axes_;
};

// Returns the coordinates of the shard with index `piece` along a list of axes.
// The first axis is the most significant.
std::vector<int64_t> CoordinatesAlong(const Mesh& mesh, const AxisGroup& axes,
                                      int64_t piece);

// Computes what the drawing of a sharded array shows. Two dimensions are drawn
// as rows and columns. The other sharded dimensions are drawn as panels: one
// for each combination of their shard indices.

struct ArrayDim {
  std::string name;             // such as "dim 0" or "batch"
  std::optional<int64_t> size;  // nullopt if unknown
  AxisGroup axes;  // the mesh axes of size above 1 that shard the dimension
  std::vector<int64_t> axis_sizes = {};  // indexed like `axes`
  // The number of shards along the dimension.
  int64_t parts = 1;

  // Returns the length of the largest shard; nullopt if the size is unknown.
  std::optional<int64_t> Piece() const;
  // Returns the first index of shard number `piece`, and the index after its
  // last one; nullopt if the size is unknown.
  std::optional<std::pair<int64_t, int64_t>> Range(int64_t piece) const;
};

struct ArrayInput {
  Mesh mesh;
  Spec spec;
  std::vector<ArrayDim> dims;  // the caller sets only names and sizes
  std::optional<ReadPlacement> placement;
  // If the drawing shows what one rank of a pipeline holds, the coordinate of
  // this rank on the axis of stages. nullopt if the drawing is for all ranks.
  std::optional<ReadPlacement> rank;
  // The dimensions that are drawn as rows and as columns. If it is nullopt or
  // out of range, the last two sharded dimensions are drawn. A single sharded
  // dimension is drawn as columns if it is the last dimension, and as rows
  // otherwise.
  std::optional<std::pair<size_t, size_t>> drawn;
};

class ArrayPicture {
 public:
  explicit ArrayPicture(ArrayInput input);

  const Mesh& mesh() const { return mesh_; }
  const std::vector<ArrayDim>& dims() const { return dims_; }
  // The dimensions that are drawn as rows, as columns, and as panels.
  std::optional<size_t> rows() const { return rows_; }
  std::optional<size_t> columns() const { return columns_; }
  const std::vector<size_t>& panels() const { return panels_; }
  int64_t RowCount() const { return rows_ ? dims_[*rows_].parts : 1; }
  int64_t ColumnCount() const { return columns_ ? dims_[*columns_].parts : 1; }
  int64_t PanelCount() const;
  // Returns the shard indices of a panel, one for each dimension in panels().
  std::vector<int64_t> PanelPieces(int64_t panel) const;

  // The axes along which every shard is replicated, and the number of devices
  // that hold a copy of each shard.
  const AxisGroup& copy_axes() const { return copy_axes_; }
  int64_t copies() const { return copies_; }
  // Whether every device holds the complete array.
  bool whole() const { return whole_; }
  const std::optional<ReadPlacement>& placement() const { return placement_; }
  const std::optional<ReadPlacement>& rank() const { return rank_; }

  // Returns the index of a cell's shard along each dimension.
  std::vector<int64_t> IndexOf(int64_t panel, int64_t row,
                               int64_t column) const;
  // Returns the devices that hold the shard of a cell.
  DeviceSet At(int64_t panel, int64_t row, int64_t column) const;

 private:
  // Returns the offset that shard index `piece` of a dimension adds to the
  // numbers of the devices that hold the shard.
  int64_t Offset(size_t dim, int64_t piece) const;
  void Choose(const std::optional<std::pair<size_t, size_t>>& drawn);

  Mesh mesh_;
  MeshDigits digits_;
  std::vector<ArrayDim> dims_;
  std::optional<ReadPlacement> placement_, rank_;
  std::optional<size_t> rows_, columns_;
  std::vector<size_t> panels_;
  AxisGroup copy_axes_;
  // Indexed by mesh axis: true if the devices along the axis hold equal shards.
  // The axis then shards no dimension, and neither `placement_` nor `rank_` is
  // a coordinate on it.
  std::vector<bool> free_;
  int64_t copies_ = 1;
  bool whole_ = true;
};

// Returns dimensions with the names `dim 0`, `dim 1` and so on: one for each
// dimension of the shape, or for each entry of the spec if the shape is
// unknown. A dimension with several parts (model/legal_sizes.h) is two, as in
// SplitSpec(): `dim 0 parts` and `dim 0 of a part`.
std::vector<ArrayDim> DimsOf(const std::optional<std::vector<int64_t>>& shape,
                             const Spec& spec, const EqualParts& parts = {});

// Computes what the drawing of a mesh shows. Of the axes with more than one
// device, the last is drawn as columns and the one before it as rows. Each
// combination of coordinates on the other axes is drawn as a panel. This header
// also finds the axes whose devices are on several hosts.

// The form in which the cells of one host's devices are arranged in a panel.
enum class HostForm : uint8_t {
  // Another form, or the form is unknown: the hosts are unknown, or the panel
  // is too large to be checked.
  kNone,
  kRows,   // `host_cells` full rows, one below the other
  kInRow,  // `host_cells` neighbours in one row
};

struct AxisLine {
  size_t axis = 0;  // index of the axis in the mesh
  // The devices that differ only along this axis and have coordinate 0 on all
  // other axes.
  DeviceSet group;
  // The number of the group's devices on each host, and the number of these
  // hosts. They are nullopt if the hosts have different numbers of devices, if
  // the hosts are unknown, or if the axis is too long to search.
  std::optional<int64_t> per_host, hosts;
};

class MeshPicture {
 public:
  explicit MeshPicture(const Mesh& mesh);

  const Mesh& mesh() const { return mesh_; }
  // The indices of the axes that are drawn as rows, as columns and as panels.
  // Axes of size 1 are not drawn.
  std::optional<size_t> rows() const { return rows_; }
  std::optional<size_t> columns() const { return columns_; }
  const std::vector<size_t>& panels() const { return panels_; }
  int64_t RowCount() const;
  int64_t ColumnCount() const;
  int64_t PanelCount() const;
  // Returns the coordinates of a panel, one for each axis in panels().
  std::vector<int64_t> PanelCoordinates(int64_t panel) const;

  // Returns the number of the device in a cell.
  int64_t At(int64_t panel, int64_t row, int64_t column) const;
  bool knows_hosts() const { return mesh_.processes > 1; }
  int64_t PerHost() const { return mesh_.devices / mesh_.processes; }
  int64_t HostOf(int64_t device) const { return device / PerHost(); }
  HostForm host_form() const { return host_form_; }
  // The number of rows that a host fills (kRows), or the number of cells that
  // it has in a row (kInRow); 0 for kNone.
  int64_t host_cells() const { return host_cells_; }
  const std::vector<AxisLine>& axes() const { return axes_; }

 private:
  int64_t SizeAt(const std::optional<size_t>& axis) const {
    return axis ? mesh_.axes[*axis].size : 1;
  }
  void FindHosts();
  AxisLine LineOf(size_t axis) const;

  Mesh mesh_;
  MeshDigits digits_;
  std::optional<size_t> rows_, columns_;
  std::vector<size_t> panels_;
  HostForm host_form_ = HostForm::kNone;
  int64_t host_cells_ = 0;
  std::vector<AxisLine> axes_;
};

// The number of colours.
inline constexpr uint8_t kAxisColors = 8;

// Returns the colour of each axis of the mesh. dp, fsdp, tp, ep and sp always
// have the colours 0 to 4. The other axes get the remaining colours in the
// order of the mesh. If there are too few colours, all further axes have the
// last one.
inline std::vector<uint8_t> AxisColorsOf(const Mesh& mesh) {
  constexpr std::array<std::string_view, 5> kKnown = {"dp", "fsdp", "tp", "ep",
                                                      "sp"};
  std::vector<uint8_t> out(mesh.axes.size(), kAxisColors);
  std::array<bool, kAxisColors> taken = {};
  for (size_t i = 0; i < out.size(); ++i) {
    for (uint8_t k = 0; k < kKnown.size(); ++k) {
      if (mesh.axes[i].name != kKnown[k]) continue;
      out[i] = k;
      taken[k] = true;
    }
  }
  for (uint8_t& color : out) {
    if (color < kAxisColors) continue;
    // Colours from 5 on belong to no known axis, and are used first. Then the
    // colours of known axes that this mesh lacks are used.
    uint8_t free = kKnown.size();
    while (free < kAxisColors && taken[free]) ++free;
    if (free == kAxisColors) {
      free = 0;
      while (free + 1 < kAxisColors && taken[free]) ++free;
    }
    taken[free] = true;
    color = free;
  }
  return out;
}

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_ARRAY_H_
