// The operation paged_flash_attention: queries [B, T, H, D] attend to keys and
// values in two pools of pages. A table [B, pages] lists the pages of each row
// of the batch. Unlike the other operations on pages, it also supports several
// queries without a causal mask. Segment ids are supported only for packed
// tokens. For packed tokens, the real kernel runs unified_attention, and this
// operation adds a remark about this.
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
