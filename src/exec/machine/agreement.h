// Results that the ranks of one mesh compute together, so that each continues
// with the same value. In one process each function returns its argument's
// value.
#ifndef SHARDC_EXEC_MACHINE_AGREEMENT_H_
#define SHARDC_EXEC_MACHINE_AGREEMENT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "exec/machine/ledger.h"
#include "exec/machine/sharded.h"
#include "exec/machine/transport.h"

namespace shardc::exec {

// Returns the sum over ranks of each number. All ranks must pass equally many
// numbers.
std::vector<int64_t> SumOverRanks(Transport* transport,
                                  std::vector<int64_t> own);
// Returns the ledger of all devices; the ranks' entries must correspond.
Ledger SumOverRanks(Transport* transport, const Ledger& own);

// Returns the error with the lowest `order`. If several ranks have such an
// error, returns that of the lowest rank, which has the first devices.
std::optional<LayoutError> FirstError(const SimMesh& mesh,
                                      std::optional<LayoutError> own,
                                      int64_t order = 0);

// Sets the shapes of the arrays of devices on other ranks, which have no
// elements here.
void ShapeElsewhere(const SimMesh& mesh, ShardedTensor& tensor);
void ShapeElsewhere(const SimMesh& mesh, const Shape& extent, Dtype dtype,
                    PerDevice& local);

// Returns `local` on every device, as the shard of `shape` by `spec`.
ShardedTensor OnEveryDevice(const SimMesh& mesh, const Shape& shape,
                            const Spec& spec, const Buffer& local);

// Two devices whose arrays should be equal but are not, and the offset of the
// first difference (-1: their shapes differ).
struct Differing {
  int first = 0, other = 0;
  int64_t at = -1;
  Shape shape = {};  // the other array's shape, if it is not the layout's
};
// Returns the first difference within `groups`, lists of devices that hold the
// same shard. Compares digests of 128 bits, and the bits of arrays whose
// digests differ.
std::optional<Differing> FirstDiffering(
    const SimMesh& mesh, const ShardedTensor& tensor, const Shape& extent,
    const std::vector<const std::vector<int>*>& groups);

// Returns the array of each listed device, on every rank.
std::vector<Buffer> ShareArrays(const SimMesh& mesh,
                                const ShardedTensor& tensor,
                                const std::vector<int>& devices);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_AGREEMENT_H_
