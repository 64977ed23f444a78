// ragged_page_attention_v3: writes the new k, v [N, K, D] to their pages, then
// attends. P pages of ps tokens are [P, ps, g, p, pad128(D)]: the 2K keys and
// values of a token are packed in g words of p = 32/bits elements.
//
// distribution [decode_end, prefill_end, total]: requests of one query come
// first, then requests whose keys are all new, then mixed requests. The kernel
// has a separate program for each of the three.
//
// Heads can be sharded over n > 1 devices if and only if n divides g and K.
// With D = 64, a head's keys and values share a row, and n p must divide K.
// Otherwise padding would shift the slices of pages against the slices of
// queries, so heads are replicated.
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
