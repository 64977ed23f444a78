// The operation ragged_page_attention_v3: writes the new keys and values [N, K,
// D] to their pages, then attends. P pages of ps tokens are [P, ps, g, p,
// pad128(D)]: the 2K keys and values of a token are packed in g words of p =
// 32/bits elements. pad128 rounds up to a multiple of 128.
//
// The kernel has three programs, and requests are sorted by the program that
// they need. Requests of one query come first. Then come requests whose keys
// are all new, and then all others. `distribution` [decode_end, prefill_end,
// total] has the ends of these three parts.
//
// Heads can be sharded over n > 1 devices if and only if n divides g and K.
// With D = 64, the key and value of a head share one row of 128 elements, and n
// times p must divide K. In all other cases heads are replicated, because a
// device's slice of the pages would not have the keys and values of its own
// heads. For example, int8 has p = 4. With K = 2 and D = 128, one word has the
// keys and values of both heads, and cannot be split over 2 devices.
#include "exec/operations/paged_operation.h"

namespace shardc::exec {

extern const Operation kRaggedV3;

constinit const Operation kRaggedV3 = {
    .name = "ragged_page_attention_v3",
    .summary = "writes new tokens to packed pages, then attends",
    .supports = kPagedSupports,
    .pages =
        PagedKernel{
            .format = PageFormat::kPacked, .writes = true, .distributed = true},
    .trace = StateTrace::kPages,
    .settings = {Setting::kBlocksizeK, Setting::kPageSize},
    .inputs = {Input::kSinksByKeyHead},
    .bytes = BytesOfPages<kRaggedV3>,
    .run = RunOnPages<kRaggedV3>,
};

}  // namespace shardc::exec
