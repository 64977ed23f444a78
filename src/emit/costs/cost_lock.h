// Writes the figures of a step that are committed next to a plan
// (`shardc.cost-lock/v1`), one figure per line.
#ifndef SHARDC_EMIT_COSTS_COST_LOCK_H_
#define SHARDC_EMIT_COSTS_COST_LOCK_H_

#include "cost/figures.h"
#include "source/sink.h"

namespace shardc {

void WriteCostLock(const cost::CostLock& lock, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_COST_LOCK_H_
