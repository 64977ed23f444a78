// Writes the functions of single elements that a step applies.
#ifndef SHARDC_PROGRAM_OF_STEP_FUNCTIONS_H_
#define SHARDC_PROGRAM_OF_STEP_FUNCTIONS_H_

#include <optional>
#include <string_view>

#include "program/of_step/writer.h"
#include "program/program.h"

namespace shardc::program {

// Returns the function `fn` of each element of x, by its formula in
// step/op_def.h. `constant` is the number c of the formula. Returns nullopt if
// there is no such function.
std::optional<ValueId> WriteFunction(ProgramWriter& write, std::string_view fn,
                                     ValueId x, double constant);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_OF_STEP_FUNCTIONS_H_
