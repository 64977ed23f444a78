// Computes which part of a tensor each device holds.
#ifndef SHARDC_CHECKPOINT_BOX_H_
#define SHARDC_CHECKPOINT_BOX_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "model/dim_parts.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/spec.h"
#include "stored/box.h"

namespace shardc {

// Returns the position of a box in SplitShape(shape, to), if it is given as a
// position in SplitShape(shape, from). Returns nullopt if it is not a box
// there: a range of rows of each of two parts is no range of all rows. For
// example, with the shape [8]:
//
//   from [2], to []: {offset [1, 0], shape [1, 4]} -> {offset [4], shape [4]}
//   from [2], to []: {offset [0, 0], shape [2, 2]} -> nullopt
std::optional<Box> BoxInParts(const Box& box, const Shape& shape,
                              const DimParts& from, const DimParts& to);

// The distinct parts into which a spec divides a tensor, and the devices that
// hold them. Parts are numbered in row-major order. For example, an axis `a` of
// size 2 shards the first dimension and `b` of size 3 the second. The devices
// at a=1 b=2 then hold part 1 * 3 + 2 = 5.
class Partition {
 public:
  // Returns nullopt if the spec is illegal for the shape. A spec is illegal if
  // an axis occurs twice or is not in the mesh, if it has more entries than the
  // tensor has dimensions, or if its axes do not divide a size, unless `uneven`
  // permits parts that are shorter than others or empty.
  static std::optional<Partition> Make(const Spec& spec, const Shape& shape,
                                       const Mesh& mesh, bool uneven = false);

  int64_t parts() const { return parts_; }
  // Returns the number of the part that a device with these coordinates holds.
  int64_t PartOf(const std::vector<int64_t>& coordinates) const;
  Box BoxOf(int64_t part) const;

 private:
  struct Step {
    Mesh::Digit digit;   // the axis or sub-axis
    int64_t weight = 0;  // weight of the digit in a part's number
  };
  std::vector<Step> steps_;
  Shape shape_;  // shape of the tensor
  // The sizes of the axes that divide each dimension, first to last.
  std::vector<std::vector<int64_t>> divisions_;
  int64_t parts_ = 1;
};

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_BOX_H_
