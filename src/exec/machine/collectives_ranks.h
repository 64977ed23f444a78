// Collectives whose members are held by several ranks.
#ifndef SHARDC_EXEC_MACHINE_COLLECTIVES_RANKS_H_
#define SHARDC_EXEC_MACHINE_COLLECTIVES_RANKS_H_

#include "exec/machine/collectives.h"

namespace shardc::exec {

// As RunCollective, in the same bits: each rank gives and gets the arrays of
// its own devices, and records what these send. The other entries of the
// result have a shape and no elements.
PerDevice RunAcrossRanks(Machine& machine, const CollectiveCall& call);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_COLLECTIVES_RANKS_H_
