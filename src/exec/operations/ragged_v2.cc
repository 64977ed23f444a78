// ragged_page_attention_v2: q [N, H, D]; P pages of ps tokens, [P, ps, 2K, D],
// with head k's keys at row 2k and its values at 2k + 1; for R requests kv_lens
// [R], table [R, pages], cu_q_lens [R + 1], num_seqs. The kernel only reads
// pages: the new keys and values have been written before.
//
// Heads can be sharded over n devices iff n divides K. The weaker condition
// that n divides 2K, which some systems use, lets a device hold a key without
// its value.
#include "exec/operations/paged_operation.h"

namespace shardc::exec {

extern const Operation kRaggedV2;

constinit const Operation kRaggedV2 = {
    .name = "ragged_page_attention_v2",
    .summary = "ragged queries over interleaved pages",
    .supports = kPagedSupports,
    .pages = PagedKernel{.format = PageFormat::kInterleaved},
    .trace = StateTrace::kPages,
    .settings = {Setting::kBlocksizeK, Setting::kPageSize},
    .inputs = {Input::kSinksByKeyHead},
    .bytes = BytesOfPages<kRaggedV2>,
    .run = RunOnPages<kRaggedV2>,
};

}  // namespace shardc::exec
