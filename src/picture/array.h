// How an array lies on a mesh, to be drawn: two of its dimensions are rows and
// columns, and other dimensions that are cut make a panel for each piece.
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
  std::optional<int64_t> size;  // nothing where it is not known
  AxisGroup axes;               // of more than one device
  int64_t parts = 1;

  // Of the largest piece.
  std::optional<int64_t> Piece() const;
  // Of one: where it begins, and where it ends.
  std::optional<std::pair<int64_t, int64_t>> Range(int64_t piece) const;
};

struct ArrayInput {
  Mesh mesh;
  Spec spec;
  std::vector<ArrayDim> dims;  // name and size are given, the rest is found
  std::optional<ReadPlacement> placement;
  // Dimensions to draw as rows and columns; nothing: the last two that are cut.
  std::optional<std::pair<size_t, size_t>> drawn;
};

class ArrayPicture {
 public:
  explicit ArrayPicture(ArrayInput input);

  const Mesh& mesh() const { return mesh_; }
  const std::vector<ArrayDim>& dims() const { return dims_; }
  std::optional<size_t> rows() const { return rows_; }  // dimensions
  std::optional<size_t> columns() const { return columns_; }
  const std::vector<size_t>& panels() const { return panels_; }
  int64_t RowCount() const { return rows_ ? dims_[*rows_].parts : 1; }
  int64_t ColumnCount() const { return columns_ ? dims_[*columns_].parts : 1; }
  int64_t PanelCount() const;
  // The pieces of `panels()` in a panel.
  std::vector<int64_t> PanelPieces(int64_t panel) const;

  // Axes along which each piece is held again, and how often.
  const AxisGroup& copy_axes() const { return copy_axes_; }
  int64_t copies() const { return copies_; }
  bool whole() const { return whole_; }  // nothing is cut or placed
  const std::optional<ReadPlacement>& placement() const { return placement_; }

  DeviceSet At(int64_t panel, int64_t row, int64_t column) const;

 private:
  // What a piece of a dimension adds to its devices' numbers.
  int64_t Offset(size_t dim, int64_t piece) const;
  void Choose(const std::optional<std::pair<size_t, size_t>>& drawn);

  Mesh mesh_;
  MeshDigits digits_;
  std::vector<ArrayDim> dims_;
  std::optional<ReadPlacement> placement_;
  std::optional<size_t> rows_, columns_;
  std::vector<size_t> panels_;
  AxisGroup copy_axes_;
  std::vector<bool> free_;  // by axis of the mesh
  int64_t copies_ = 1;
  bool whole_ = true;
};

// `dim 0`, `dim 1` of a shape, or of as many as a spec has.
std::vector<ArrayDim> DimsOf(const std::optional<std::vector<int64_t>>& shape,
                             const Spec& spec);

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_ARRAY_H_
