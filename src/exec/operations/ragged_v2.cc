// The operation ragged_page_attention_v2: queries [N, H, D] of R requests
// attend to keys and values in P pages of ps tokens. The pages are [P, ps, 2K,
// D], where row 2k holds the keys of head k and row 2k + 1 its values. The
// kernel also reads kv_lens [R], table [R, pages], cu_q_lens [R + 1] and
// num_seqs. It does not write pages: its caller has written the new keys and
// values before.
//
// Heads can be sharded over n devices if and only if n divides K. Some systems
// only require that n divides 2K, but then a device may hold a key without its
// value.
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
