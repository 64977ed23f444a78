// ragged_page_attention_v2: q [N, H, D]; pages [P, ps, 2K, D] with head k's
// keys at row 2k and its values at 2k + 1; kv_lens [R], table [R, pages],
// cu_q_lens [R + 1], num_seqs. It only reads: a slot mapping wrote before.
//
// Heads are split over n devices iff n divides K. That n divides 2K, which is
// sometimes asked instead, lets a device hold a key without its value.
#include "exec/operation.h"
#include "exec/paged_program.h"

namespace shardc::exec {

OperationOutcome RunRaggedV2(Machine& machine, const AttentionProblem& problem,
                             const AttentionSpecs& specs,
                             const OperationSettings& settings) {
  return RunPaged(machine, problem, specs, settings,
                  {"ragged_page_attention_v2", PageFormat::kInterleaved, false,
                   false, true});
}

}  // namespace shardc::exec
