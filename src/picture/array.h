// Computes what a drawing of an array that is sharded over a mesh shows: two
// dimensions are its rows and columns, and there is a panel for each
// combination of shard indices of the other sharded dimensions.
#ifndef SHARDC_PICTURE_ARRAY_H_
#define SHARDC_PICTURE_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/mesh.h"
#include "model/spec.h"
#include "picture/device_set.h"
#include "plan/read.h"

namespace shardc::picture {

struct ArrayDim {
  std::string name;             // "dim 0", "batch"
  std::optional<int64_t> size;  // nullopt: unknown
  AxisGroup axes;               // only mesh axes of size above 1
  int64_t parts = 1;

  // Returns the length of the largest shard; nullopt if the size is unknown.
  std::optional<int64_t> Piece() const;
  // Returns the first index and the end (exclusive) of the shard number
  // `piece`; nullopt if the size is unknown.
  std::optional<std::pair<int64_t, int64_t>> Range(int64_t piece) const;
};

struct ArrayInput {
  Mesh mesh;
  Spec spec;
  std::vector<ArrayDim> dims;  // the caller sets only names and sizes
  std::optional<ReadPlacement> placement;
  // The drawn rank of a pipeline, if its ranks hold different parameters.
  std::optional<ReadPlacement> rank;
  // The dimensions drawn as rows and columns. If they are not given or out of
  // range, the last two sharded dimensions are drawn. A single sharded
  // dimension is drawn as columns if it is the last dimension, else as rows.
  std::optional<std::pair<size_t, size_t>> drawn;
};

class ArrayPicture {
 public:
  explicit ArrayPicture(ArrayInput input);

  const Mesh& mesh() const { return mesh_; }
  const std::vector<ArrayDim>& dims() const { return dims_; }
  // The dimensions drawn as rows, as columns, and as panels.
  std::optional<size_t> rows() const { return rows_; }
  std::optional<size_t> columns() const { return columns_; }
  const std::vector<size_t>& panels() const { return panels_; }
  int64_t RowCount() const { return rows_ ? dims_[*rows_].parts : 1; }
  int64_t ColumnCount() const { return columns_ ? dims_[*columns_].parts : 1; }
  int64_t PanelCount() const;
  // Returns the panel's shard index in each of the dimensions `panels()`.
  std::vector<int64_t> PanelPieces(int64_t panel) const;

  // The axes along which shards are replicated, and the number of devices that
  // hold a copy of each shard.
  const AxisGroup& copy_axes() const { return copy_axes_; }
  int64_t copies() const { return copies_; }
  bool whole() const { return whole_; }  // neither sharded nor placed
  const std::optional<ReadPlacement>& placement() const { return placement_; }
  const std::optional<ReadPlacement>& rank() const { return rank_; }

  DeviceSet At(int64_t panel, int64_t row, int64_t column) const;

 private:
  // Returns the offset that a shard's index along a dimension adds to the
  // numbers of its devices.
  int64_t Offset(size_t dim, int64_t piece) const;
  void Choose(const std::optional<std::pair<size_t, size_t>>& drawn);

  Mesh mesh_;
  MeshDigits digits_;
  std::vector<ArrayDim> dims_;
  std::optional<ReadPlacement> placement_, rank_;
  std::optional<size_t> rows_, columns_;
  std::vector<size_t> panels_;
  AxisGroup copy_axes_;
  // Indexed by axis of the mesh: whether the axis shards no dimension and is
  // not fixed to a coordinate by the placement or by the rank.
  std::vector<bool> free_;
  int64_t copies_ = 1;
  bool whole_ = true;
};

// Returns a dimension with the name `dim 0`, `dim 1` and so on for each
// dimension of the shape, or for each entry of the spec if the shape is
// unknown.
std::vector<ArrayDim> DimsOf(const std::optional<std::vector<int64_t>>& shape,
                             const Spec& spec);

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_ARRAY_H_
