// What a step's program (step/program.h) sends, told as `cost` tells it.
#ifndef SHARDC_COST_PROGRAM_H_
#define SHARDC_COST_PROGRAM_H_

#include <cstdint>
#include <string>

#include "cost/communication.h"
#include "cost/settings.h"
#include "cost/work.h"
#include "step/program.h"

namespace shardc::cost {

// Why no program says what a step under these settings sends; empty: one may.
std::string AgainstProgram(const Work& work, const Settings& settings);

// By part, phase, collective and axes; of each collective the bytes of the
// busiest device, by the formula that the executor's ledger is held to.
Communication CommunicationOf(const step::Graph& graph,
                              const step::Program& program,
                              const step::Sizes& sizes, int64_t element_bytes);

}  // namespace shardc::cost

#endif  // SHARDC_COST_PROGRAM_H_
