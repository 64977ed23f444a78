// paged_flash_attention: q [B, T, H, D], a page table [B, pages] and two pools
// of pages. If each row has one query, `causal` is off, since the row's length
// already hides later keys. The real kernel runs ragged queries as
// unified_attention. Segment ids are not supported.
#include "exec/operations/paged_operation.h"

namespace shardc::exec {

extern const Operation kPagedFlash;

constinit const Operation kPagedFlash = {
    .name = "paged_flash_attention",
    .summary = "rows of queries over pages of keys and of values",
    .supports = kPagedSupports,
    .pages = PagedKernel{.format = PageFormat::kSeparate,
                         .dense_rows = true,
                         .causal_only = false},
    .trace = StateTrace::kPages,
    .settings = {Setting::kBlocksizeK, Setting::kPageSize},
    .inputs = {Input::kSinksByKeyHead},
    .bytes = BytesOfPages<kPagedFlash>,
    .run = RunOnPages<kPagedFlash>,
};

}  // namespace shardc::exec
