// Functions with which all ranks (processes) of a mesh agree on a result, so
// that each rank continues with the same value. Without a transport, one
// process holds all devices. FirstDiffering and ShareArrays may then not be
// called, and the other functions need no other rank.
#ifndef SHARDC_EXEC_MACHINE_AGREEMENT_H_
#define SHARDC_EXEC_MACHINE_AGREEMENT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"

namespace shardc::exec {

// Returns, for each number, its sum over all ranks. All ranks must pass equally
// many numbers.
std::vector<int64_t> SumOverRanks(Transport* transport,
                                  std::vector<int64_t> own);
// Returns a ledger (record of bytes sent) with the bytes of all ranks' devices.
// All ranks must have recorded the same collectives in the same order.
Ledger SumOverRanks(Transport* transport, const Ledger& own);

// Each rank passes its own error, if it has one, and its `order`, for example
// the row of the wrong element. Returns on all ranks the error with the lowest
// `order`, or nullopt if no rank passed an error. If several errors have this
// `order`, the error of the lowest rank is returned.
std::optional<LayoutError> FirstError(const SimMesh& mesh,
                                      std::optional<LayoutError> own,
                                      int64_t order = 0);

// A rank has the elements of its own devices' arrays. For the arrays of all
// other devices, these functions set the shape and leave the elements empty.
// They do nothing without a transport.
void ShapeElsewhere(const SimMesh& mesh, ShardedTensor& tensor);
void ShapeElsewhere(const SimMesh& mesh, const Shape& extent, Dtype dtype,
                    PerDevice& local);

// Returns a tensor of `shape`, sharded by `spec`, in which every device of this
// rank has the shard `local`. The arrays of other devices have no elements.
ShardedTensor OnEveryDevice(const SimMesh& mesh, const Shape& shape,
                            const Spec& spec, const Buffer& local);

// The first difference among the arrays of a group of devices, which should be
// equal. `other` is the device whose array differs from the array of the
// group's first device, `first`. `at` is the offset of the first element that
// differs. If the array of `other` has a wrong shape, `at` is -1. In this case
// `other` may be the group's first device, so that `other` equals `first`.
struct Differing {
  int first = 0, other = 0;
  int64_t at = -1;
  Shape shape = {};  // shape of the array of `other`, if `at` is -1
};
// Returns the first difference between devices of one group, or nullopt if
// there is no difference. The devices of a group should hold the same shard, of
// shape `extent`. Digests of 128 bits are compared first, and the arrays only
// if digests differ.
std::optional<Differing> FirstDiffering(
    const SimMesh& mesh, const ShardedTensor& tensor, const Shape& extent,
    const std::vector<const std::vector<int>*>& groups);

// Returns the array of each listed device. All ranks get all of these arrays.
std::vector<Buffer> ShareArrays(const SimMesh& mesh,
                                const ShardedTensor& tensor,
                                const std::vector<int>& devices);

// Appends the bytes of all elements of a contiguous range to `out`.
template <class Range>
void PutAll(const Range& all, Packet& out) {
  const auto bytes = std::as_bytes(std::span(all));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// Fills `all` with elements from the front of `left`, and removes these
// elements from `left`. Returns false if `left` has too few elements.
template <class Range>
bool TakeAll(std::span<const std::byte>& left, Range&& all) {
  const auto to = std::as_writable_bytes(std::span(all));
  if (to.size() > left.size()) return false;
  std::copy_n(left.begin(), to.size(), to.begin());
  left = left.subspan(to.size());
  return true;
}

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_AGREEMENT_H_
