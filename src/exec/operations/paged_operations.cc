// The operation paged_flash_attention: queries [B, T, H, D] attend to keys and
// values in two pools of pages. A table [B, pages] lists the pages of each row
// of the batch. Unlike the other operations on pages, it also supports several
// queries without a causal mask. Segment ids are supported only for packed
// tokens. For packed tokens, the real kernel runs unified_attention, and this
// operation adds a remark about this.
#include "exec/operations/operation.h"
#include "exec/pages/paged_program.h"

namespace shardc::exec {

// Declares the program that all operations on pages of keys and values share.
// The member `pages` of an operation's record configures this program, for
// example by the format of the pages.

inline constexpr Supports kPagedSupports = {
    .batch = "pages by request, all_reduce outputs",
    .query_length = "-",
    .key_length = "-",
    .heads = "local",
    .dim = "-"};

// RunOnPages and BytesOfPages are the functions `run` and `bytes` in the record
// of a paged operation.
template <const Operation& operation>
OperationOutcome RunOnPages(Machine& machine, const AttentionProblem& problem,
                            const AttentionSpecs& specs,
                            const OperationSettings& settings) {
  return RunPaged(machine, problem, specs, settings, *operation.pages,
                  operation.name);
}

template <const Operation& operation>
void BytesOfPages(Traffic& traffic) {
  PagedBytes(traffic, *operation.pages);
}

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

// The operation unified_attention: queries [N, H, D] of requests with different
// lengths attend to two pools of pages [P, ps, K, D], one for keys and one for
// values.

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
