// Describes a tensor of a transfer as a grid of units with as few dimensions as
// possible. A unit is a byte, or an element if the tensor is cast. The tensor
// is copied in blocks of limited size.
//
// A dimension that no piece splits is merged into the dimension before it, so
// most tensors have a grid of one or two dimensions. A block has one index
// along each leading dimension, a range of indices along the next dimension,
// and all indices along the remaining dimensions.
#ifndef SHARDC_CHECKPOINT_GRID_H_
#define SHARDC_CHECKPOINT_GRID_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/transfer.h"
#include "stored/region.h"

namespace shardc {

class Grid {
 public:
  // Returns nullopt if a piece starts or ends inside a byte, which is possible
  // with packed dtypes. Then `*why` is an error message that names the tensor.
  static std::optional<Grid> Make(const TransferTensor& tensor,
                                  std::string* why);

  // The bytes of a unit in the source and in the output. A unit is a byte, or
  // an element if the tensor is cast to another dtype.
  int64_t unit_from() const { return unit_from_; }
  int64_t unit_to() const { return unit_to_; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  const std::vector<Region>& sources() const { return sources_; }
  const std::vector<Region>& parts() const { return parts_; }

  // Returns the number of blocks of at most `max_bytes` bytes each, measured in
  // the wider of the source's and the output's dtype. A block has at least one
  // unit.
  int64_t Blocks(int64_t max_bytes) const;
  Region Block(int64_t index, int64_t max_bytes) const;

 private:
  struct Steps {
    size_t dim = 0;    // the dimension that is split into ranges of indices
    int64_t step = 1;  // number of indices of `dim` in a range
    int64_t ranges = 1;
    int64_t prefixes = 1;
  };
  Steps Walk(int64_t max_bytes) const;

  std::vector<int64_t> sizes_;  // at least one dimension
  std::vector<Region> sources_;
  std::vector<Region> parts_;
  int64_t unit_from_ = 1;
  int64_t unit_to_ = 1;
};

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_GRID_H_
