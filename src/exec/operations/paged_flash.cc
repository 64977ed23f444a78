// paged_flash_attention: q [B, T, H, D], a page table [B, pages] and two pools
// of pages, for keys and for values. Attention need not be causal: if each row
// has one query, the row's length already hides later keys. Segment ids are
// supported only for packed tokens. The real kernel runs queries of unequal
// lengths as unified_attention.
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
