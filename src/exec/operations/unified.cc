// The operation unified_attention: queries [N, H, D] of requests with different
// lengths attend to two pools of pages [P, ps, K, D], one for keys and one for
// values.
#include "exec/operations/paged_operation.h"

namespace shardc::exec {

extern const Operation kUnified;

constinit const Operation kUnified = {
    .name = "unified_attention",
    .summary = "ragged queries over pages of keys and of values",
    .supports = kPagedSupports,
    .pages = PagedKernel{.format = PageFormat::kSeparate},
    .trace = StateTrace::kPages,
    .settings = {Setting::kBlocksizeK, Setting::kPageSize},
    .inputs = {Input::kSinksByKeyHead},
    .bytes = BytesOfPages<kUnified>,
    .run = RunOnPages<kUnified>,
};

}  // namespace shardc::exec
