// What ranks that hold one mesh find out together, so that each goes on with
// the same answer. In one process each of these is the answer at hand.
#ifndef SHARDC_EXEC_MACHINE_AGREEMENT_H_
#define SHARDC_EXEC_MACHINE_AGREEMENT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "exec/machine/ledger.h"
#include "exec/machine/sharded.h"
#include "exec/machine/transport.h"

namespace shardc::exec {

// Number by number; every rank gives as many.
std::vector<int64_t> SumOverRanks(Transport* transport,
                                  std::vector<int64_t> own);
// Of the same entries: what all devices sent.
Ledger SumOverRanks(Transport* transport, const Ledger& own);

// The complaint of the lowest `order`, then of the lowest rank, which holds
// the first devices.
std::optional<Complaint> FirstComplaint(const SimMesh& mesh,
                                        std::optional<Complaint> own,
                                        int64_t order = 0);

// The arrays of devices that are held elsewhere, in their shape.
void ShapeElsewhere(const SimMesh& mesh, ShardedTensor& tensor);
void ShapeElsewhere(const SimMesh& mesh, const Shape& extent, Dtype dtype,
                    PerDevice& local);

// `local` on every device, cut from `shape` by `spec`.
ShardedTensor OnEveryDevice(const SimMesh& mesh, const Shape& shape,
                            const Spec& spec, const Buffer& local);

// Of two devices whose arrays should be the same, the first that are not:
// where they differ (-1: in shape).
struct Differing {
  int first = 0, other = 0;
  int64_t at = -1;
  Shape shape = {};  // the other's, where it is not the layout's
};
// `groups` are devices that hold the same shard. Arrays are compared by
// 128 bits that follow from theirs, and where these differ by their bits.
std::optional<Differing> FirstDiffering(
    const SimMesh& mesh, const ShardedTensor& tensor, const Shape& extent,
    const std::vector<const std::vector<int>*>& groups);

// The array of each device listed, for every rank.
std::vector<Buffer> ShareArrays(const SimMesh& mesh,
                                const ShardedTensor& tensor,
                                const std::vector<int>& devices);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_AGREEMENT_H_
