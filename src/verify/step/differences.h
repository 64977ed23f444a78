// Compares the values of a run with those of the dense reference.
#ifndef SHARDC_VERIFY_STEP_DIFFERENCES_H_
#define SHARDC_VERIFY_STEP_DIFFERENCES_H_

#include <vector>

#include "exec/machine/sharded.h"
#include "exec/machine/transport.h"

namespace shardc::verify {

// Returns the largest absolute difference of two elements. It is infinity if a
// number is not finite and differs from the other number.
double Difference(const exec::Buffer& got, const std::vector<double>& want);
// Returns the largest absolute difference on the devices of this rank
// (process). Only one replica is compared, since another check compares
// replicas with each other.
double DifferenceHere(const exec::SimMesh& mesh,
                      const exec::ShardedTensor& tensor,
                      const std::vector<double>& want);
// Gathers a tensor on every rank, even if replicas differ: the last replica is
// then used. `transport` is null if this process holds all devices.
exec::Buffer GatherAnyway(const exec::SimMesh& mesh, exec::Transport* transport,
                          const exec::ShardedTensor& tensor);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_DIFFERENCES_H_
