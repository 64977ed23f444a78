// Collectives whose members are on several ranks.
#ifndef SHARDC_EXEC_MACHINE_COLLECTIVES_RANKS_H_
#define SHARDC_EXEC_MACHINE_COLLECTIVES_RANKS_H_

#include "exec/machine/collectives.h"

namespace shardc::exec {

// Does what RunCollective does, with the same bits: each rank passes and
// receives the arrays of its own devices, and records what these send. The
// other entries of the result have a shape and no elements.
PerDevice RunAcrossRanks(Machine& machine, const CollectiveCall& call);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_COLLECTIVES_RANKS_H_
