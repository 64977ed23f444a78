// The definitions of the ops of expert routing, dropout and the optimizer. A
// choice of experts is 0 or 1 and has no gradient:
//
//   top_k, two of four experts:  a token's scores .1 .4 .2 .3  ->  0 1 0 1
#include "step/backward.h"
#include "step/op_def.h"

namespace shardc::step {
namespace {

// The backward pass drops and scales the same elements as the forward pass,
// because in both passes the random numbers depend only on the key and on the
// index in the unsharded value.
void DropoutVjp(Backward& backward, const Op& op, ValueId g) {
  const ValueId x = op.in[0];
  backward.Give(x, backward.Like(op, OpKind::kDropout, {g}, x));
}

// Counts the operations of AdamW's formulas, each of which is evaluated once.
// b1, b2, rate, epsilon and decay are AdamW's settings; c1 and c2 correct the
// bias of the first steps:
//   m' = b1 m + (1 - b1) clip g;  v' = b2 v + (1 - b2) (clip g)^2
//   p' = p - rate (m' / c1 / (sqrt(v' / c2) + epsilon) + decay p)
double AdamWFlops(const Op& op, const OpExtent& extent) {
  switch (As<AdamWAttributes>(op).result) {
    case AdamWResult::kParameter:
      return 9 * extent.result;
    case AdamWResult::kFirstMoment:
      return 4 * extent.result;
    case AdamWResult::kSecondMoment:
      return 4 * extent.result;
  }
  return 0;
}

std::array<LabelId, 2> GroupedLabel(const Graph&, const Op& op) {
  return {As<TopGroupsAttributes>(op).experts, kNoLabel};
}

std::array<LabelId, 2> RankedLabel(const Graph&, const Op& op) {
  return {As<TopKAttributes>(op).experts, kNoLabel};
}

// A token's slot in an expert's queue depends on all tokens before it, so the
// tokens must be unsharded.
std::array<LabelId, 2> QueuedLabel(const Graph& graph, const Op&) {
  return {graph.common.query, kNoLabel};
}

}  // namespace

constinit const OpDef kTopGroupsDef{
    .kind = OpKind::kTopGroups,
    .text =
        "scores [b, t, e] -> 1 along `experts` for those of the `chosen` best "
        "`groups`; a group's score by `score`",
    .attributes = kTypeOf<TopGroupsAttributes>,
    .unsharded = GroupedLabel,
    .stops_gradient = StopsAlways,
};

constinit const OpDef kTopKDef{
    .kind = OpKind::kTopK,
    .text = "scores [b, t, e] -> 1 along `experts` for the `chosen` best",
    .attributes = kTypeOf<TopKAttributes>,
    .unsharded = RankedLabel,
    .stops_gradient = StopsAlways,
};

constinit const OpDef kSlotsDef{
    .kind = OpKind::kSlots,
    .text =
        "choice [b, t, e] -> 1 along `slots` at the token's place in the queue "
        "of each chosen one of `experts`; tokens without a place are dropped",
    .attributes = kTypeOf<SlotsAttributes>,
    .unsharded = QueuedLabel,
    .stops_gradient = StopsAlways,
};

constinit const OpDef kDropoutDef{
    .kind = OpKind::kDropout,
    .text =
        "elements dropped at the `rate`, the others scaled; drawn by `key` and "
        "the global index",
    .attributes = kTypeOf<DropoutAttributes>,
    .linear = Linearity::kFirst,
    .passes_preference = true,
    .vjp = DropoutVjp,
    .flops = OnePerResult,
    .storage = Storage::kOverwrites,
};

constinit const OpDef kAdamWDef{
    .kind = OpKind::kAdamW,
    .text =
        "(p, g, m, v, clip) -> the new p, m or v, by `result`; weight decay "
        "`decay`",
    .attributes = kTypeOf<AdamWAttributes>,
    .flops = AdamWFlops,
    .storage = Storage::kUpdated,
};

}  // namespace shardc::step
