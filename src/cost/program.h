// The communication of a step's program (step/program.h), in the parts that
// `cost` reports.
#ifndef SHARDC_COST_PROGRAM_H_
#define SHARDC_COST_PROGRAM_H_

#include <cstdint>
#include <string>

#include "cost/communication.h"
#include "cost/inputs.h"
#include "cost/settings.h"
#include "step/program.h"

namespace shardc::cost {

// The reason why no program describes a step under these settings; empty if
// there is none.
std::string AgainstProgram(const CostInputs& work, const Settings& settings);

// Groups the collectives by part, phase, kind and axes. The bytes are those of
// the busiest device, by the formula that tests compare with the executor's
// ledger.
Communication CommunicationOf(const step::Graph& graph,
                              const step::Program& program,
                              const step::Sizes& sizes, int64_t element_bytes);

}  // namespace shardc::cost

#endif  // SHARDC_COST_PROGRAM_H_
