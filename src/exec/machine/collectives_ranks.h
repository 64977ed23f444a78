// Collectives whose members are on several ranks.
#ifndef SHARDC_EXEC_MACHINE_COLLECTIVES_RANKS_H_
#define SHARDC_EXEC_MACHINE_COLLECTIVES_RANKS_H_

#include "exec/machine/collectives.h"

namespace shardc::exec {

// Computes the same bits as RunCollective. Each rank sends and receives the
// arrays of its own devices, and records the bytes that its devices send. The
// result's entries for devices of other ranks have a shape and no elements.
PerDevice RunAcrossRanks(Machine& machine, const CollectiveCall& call);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_COLLECTIVES_RANKS_H_
