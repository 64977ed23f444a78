// Directory: emit/step_programs. Writes the step of a `model:` section as a
// traced program, so that what reads the program of a user's function reads the
// step.
// Its files include headers of these directories: source, model, program,
// exec/step.
#ifndef SHARDC_EMIT_STEP_PROGRAMS_TRANSLATE_H_
#define SHARDC_EMIT_STEP_PROGRAMS_TRANSLATE_H_

#include <optional>
#include <string>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"
#include "model/step_graph.h"
#include "program/program.h"

namespace shardc::program {

struct StepSource {
  const step::Graph& graph;
  const step::Sizes& sizes;
  // The tensors of the graph's parameters, for their names and dtypes.
  const Manifest& manifest;
  std::string function;  // The name of the step, such as "train".
  std::string file;      // The file of the `model:` section.
  // The dtype in which the step computes.
  Dtype dtype = Dtype::kF32;
  // True if the tokens of each row are at the positions 0, 1, 2 and so on. The
  // program then computes the positions, so that masks are seen to be causal.
  // Otherwise the positions are inputs.
  bool counts_positions = true;
  // True if the program's results are all values of the graph, for tests.
  bool keeps_all = false;
};

struct StepProgram {
  Program program;
  // Indexed by the graph's ValueId: the value of the program, or nullopt if no
  // result depends on it.
  std::vector<std::optional<ValueId>> values;
};

// Returns the program of a step. Its parameters are the manifest's tensors that
// the step uses. Its results are the updated parameters and moments and the
// loss, or the gradients and the loss if the step has no optimizer, or the
// logits and the caches if it does not train. An op for which the program has
// no counterpart is opaque.
StepProgram ProgramOfStep(const StepSource& source);

}  // namespace shardc::program

#endif  // SHARDC_EMIT_STEP_PROGRAMS_TRANSLATE_H_
