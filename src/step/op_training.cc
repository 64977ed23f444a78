// Records of expert routing, dropout and the optimizer. Choices are 0 or 1,
// with no gradient:
//
//   top_k of scores [b, t, e], counts {2}: 1 for the two best experts of a
//   token
#include "step/backward.h"
#include "step/op_def.h"

namespace shardc::step {
namespace {

// The backward pass drops the same elements as the forward pass and scales the
// others as it does, because both draw by the key and the global index.
void DropoutVjp(Backward& backward, const Op& op, ValueId g) {
  const ValueId x = op.in[0];
  backward.Give(x, backward.Like(op, OpKind::kDropout, {g}, x));
}

}  // namespace

constinit const OpDef kTopGroupsDef{
    .kind = OpKind::kTopGroups,
    .text =
        "scores [b, t, e] -> 1 along `label` for experts of the best "
        "groups; `counts` {groups, chosen}; a group's score by `fn`: its "
        "\"max\", or the sum of its \"top2\"",
    .attributes = kLabel | kCounts | kFnName,
    .needs_unsharded = true,
    .stops_gradient = StopsAlways,
};

constinit const OpDef kTopKDef{
    .kind = OpKind::kTopK,
    .text =
        "scores [b, t, e] -> 1 along `label` for the best; `counts` "
        "{chosen}",
    .attributes = kLabel | kCounts,
    .needs_unsharded = true,
    .stops_gradient = StopsAlways,
};

constinit const OpDef kSlotsDef{
    .kind = OpKind::kSlots,
    .text =
        "choice [b, t, e] -> 1 along `to` at the token's place in the queue "
        "of each chosen expert of `label`; tokens without a place are "
        "dropped",
    .attributes = kLabel | kTo,
    .needs_unsharded = true,
    .stops_gradient = StopsAlways,
};

constinit const OpDef kDropoutDef{
    .kind = OpKind::kDropout,
    .text =
        "elements dropped at the rate `scale.constant`, the others scaled; "
        "drawn by the key `index` and the global index",
    .attributes = kIndex | kScaleOf,
    .linear = Linearity::kFirst,
    .passes_preference = true,
    .vjp = DropoutVjp,
    .storage = Storage::kOverwrites,
};

constinit const OpDef kAdamWDef{
    .kind = OpKind::kAdamW,
    .text =
        "(p, g, m, v, clip) -> the new p, m or v, by `index` 0, 1 or 2; "
        "weight decay `scale.constant`",
    .attributes = kIndex | kScaleOf,
    .storage = Storage::kUpdated,
};

}  // namespace shardc::step
