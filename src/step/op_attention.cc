// Records of what attention needs next to products and sums: rotary embeddings,
// masks, and KV heads repeated for groups of query heads.
//
//   repeat k [b, s, 2, h] for n 8 heads: head n has KV head n / 4; its
//   derivative sums the four heads of each group
#include <utility>

#include "step/backward.h"
#include "step/op_def.h"

namespace shardc::step {
namespace {

// The inverse of a rotation rotates by the negative angle.
void RopeVjp(Backward& backward, const Op& op, ValueId g) {
  const ValueId x = op.in[0];
  const ValueId rotated = backward.Like(op, OpKind::kRope, {g, op.in[1]}, x);
  backward.write().Producer(rotated).sign = static_cast<int8_t>(-op.sign);
  backward.Give(x, rotated);
}

// Scores that are masked contribute nothing to the softmax, so that their
// cotangents are zero already.
void MaskVjp(Backward& backward, const Op& op, ValueId g) {
  backward.Give(op.in[0], g);
}

void RepeatVjp(Backward& backward, const Op& op, ValueId g) {
  const ValueId x = op.in[0];
  const ValueId summed = backward.Like(op, OpKind::kGroupSum, {g}, x);
  Op& made = backward.write().Producer(summed);
  std::swap(made.label, made.to);
  backward.Give(x, summed);
}

}  // namespace

constinit const OpDef kRopeDef{
    .kind = OpKind::kRope,
    .text =
        "(x, positions): pairs of `label` rotated by ropes[`index`], times "
        "`sign`",
    .attributes = kLabel | kIndex | kSign,
    .linear = Linearity::kFirst,
    .needs_unsharded = true,
    .passes_preference = true,
    .vjp = RopeVjp,
    .storage = Storage::kOverwrites,
};

constinit const OpDef kMaskDef{
    .kind = OpKind::kMask,
    .text =
        "(scores, positions of queries, of keys): minus infinity where `fn` "
        "hides a key, \"causal\", \"chunked\" or \"all\" that hides none; "
        "`counts` {window}; slopes of the heads `label` times `scale`",
    .attributes = kFnName | kCounts | kLabel | kScaleOf,
    .vjp = MaskVjp,
    .storage = Storage::kOverwrites,
};

constinit const OpDef kRepeatDef{
    .kind = OpKind::kRepeat,
    .text =
        "KV heads `label` for the query heads `to`: KV head n / (|n| / "
        "|k|); with `fn` \"slices\" each device counts its own heads",
    .attributes = kLabel | kTo | kFnName,
    .linear = Linearity::kFirst,
    .structural = true,
    .passes_preference = true,
    .vjp = RepeatVjp,
};

constinit const OpDef kGroupSumDef{
    .kind = OpKind::kGroupSum,
    .text = "heads `label` summed by group to the KV heads `to`",
    .attributes = kLabel | kTo,
    .linear = Linearity::kFirst,
    .structural = true,
    .passes_preference = true,
};

}  // namespace shardc::step
