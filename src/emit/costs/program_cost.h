// Writes the cost of a traced program, as text and as JSON
// (`shardc.program-cost/v1`).
#ifndef SHARDC_EMIT_COSTS_PROGRAM_COST_H_
#define SHARDC_EMIT_COSTS_PROGRAM_COST_H_

#include <string>
#include <vector>

#include "cost/traced_program.h"
#include "model/mesh.h"
#include "source/sink.h"

namespace shardc {

struct ProgramCostTexts {
  std::string function;
  Mesh mesh;
  std::string profile;             // its name; empty without one
  std::vector<std::string> notes;  // inputs whose specs could not be used
  bool explain = false;  // whether the text also lists the assumptions
};

std::string ProgramCostText(const ProgramCostTexts& texts,
                            const cost::ProgramCost& cost);
void WriteProgramCostJson(const ProgramCostTexts& texts,
                          const cost::ProgramCost& cost, Sink& out);

// Returns "421.6 TFLOP".
std::string FlopsText(double flops);

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_PROGRAM_COST_H_
