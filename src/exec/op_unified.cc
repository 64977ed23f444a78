// unified_attention: ragged queries [N, H, D] over two pools of pages
// [P, ps, K, D], one for keys and one for values.
#include "exec/operation.h"
#include "exec/paged_program.h"

namespace shardc::exec {

OperationOutcome RunUnified(Machine& machine, const AttentionProblem& problem,
                            const AttentionSpecs& specs,
                            const OperationSettings& settings) {
  return RunPaged(
      machine, problem, specs, settings,
      {"unified_attention", PageFormat::kSeparate, false, false, true});
}

}  // namespace shardc::exec
