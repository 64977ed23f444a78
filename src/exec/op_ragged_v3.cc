// ragged_page_attention_v3: takes the new k, v [N, K, D], writes them to
// their pages, then attends. Pages are [P, ps, g, p, pad128(D)] words of
// p = 32/bits elements.
//
// distribution [decode_end, prefill_end, total]: requests of one query first,
// then those whose keys are all new, then the mixed ones; each kind has a
// program of its own.
//
// Heads are split over n devices iff n divides g and K; with D = 64, where a
// head's keys and values share a row, iff n p divides K: padding would make
// page slices drift off query slices. Otherwise heads are replicated.
#include "exec/operation.h"
#include "exec/paged_program.h"

namespace shardc::exec {

OperationOutcome RunRaggedV3(Machine& machine, const AttentionProblem& problem,
                             const AttentionSpecs& specs,
                             const OperationSettings& settings) {
  return RunPaged(machine, problem, specs, settings,
                  {"ragged_page_attention_v3", PageFormat::kPacked, true, false,
                   true, true});
}

}  // namespace shardc::exec
