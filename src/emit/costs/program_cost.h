// Writes the cost of a traced program as text and as JSON
// (`shardc.program-cost/v1`), and that of the meshes of a search.
#ifndef SHARDC_EMIT_COSTS_PROGRAM_COST_H_
#define SHARDC_EMIT_COSTS_PROGRAM_COST_H_

#include <cstdint>
#include <optional>
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

// A mesh on which a program could run.
struct ProgramOnMesh {
  Mesh mesh;
  std::string why_not = {};                    // why there is no cost
  std::optional<cost::ProgramCost> cost = {};  // nullopt if it cannot run
};

struct ProgramSearch {
  std::string function;
  int64_t devices = 1;
  std::string profile = {};                // its name; empty without one
  std::vector<ProgramOnMesh> meshes = {};  // the cheapest first
  std::string proof = {};  // of the cheapest: its verdict, or why there is none
};

std::string ProgramSearchText(const ProgramSearch& search);
// Writes `shardc.program-search/v1`.
void WriteProgramSearchJson(const ProgramSearch& search, Sink& out);

// Returns "421.6 TFLOP".
std::string FlopsText(double flops);

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_PROGRAM_COST_H_
