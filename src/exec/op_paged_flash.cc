// paged_flash_attention: q [B, T, H, D], table [B, pages], two pools. With
// one query a row `causal` is off and the row's length bounds what it sees,
// which is the same. Ragged queries fall back to unified_attention. No
// segment ids.
#include "exec/operation.h"
#include "exec/paged_program.h"

namespace shardc::exec {

OperationOutcome RunPagedFlash(Machine& machine,
                               const AttentionProblem& problem,
                               const AttentionSpecs& specs,
                               const OperationSettings& settings) {
  return RunPaged(
      machine, problem, specs, settings,
      {"paged_flash_attention", PageFormat::kSeparate, false, true, false});
}

}  // namespace shardc::exec
