// The definitions of attention's ops other than products and sums: rotary
// embeddings, masks, and KV heads that are repeated for groups of query heads.
//
//   repeat k [b, s, 2, h] for 8 query heads: query head i has KV head i / 4.
//   Its derivative sums the four query heads of each group.
#include "step/backward.h"
#include "step/op_def.h"

namespace shardc::step {
namespace {

// The derivative of a rotation rotates the cotangent by the negative angle.
void RopeVjp(Backward& backward, const Op& op, ValueId g) {
  const ValueId x = op.in[0];
  const ValueId rotated = backward.Like(op, OpKind::kRope, {g, op.in[1]}, x);
  RopeAttributes& back = As<RopeAttributes>(backward.write().Producer(rotated));
  back.sign = static_cast<int8_t>(-back.sign);
  backward.Give(x, rotated);
}

// Masked scores contribute nothing to the softmax, so their cotangents are
// already zero.
void MaskVjp(Backward& backward, const Op& op, ValueId g) {
  backward.Give(op.in[0], g);
}

void RepeatVjp(Backward& backward, const Op& op, ValueId g) {
  const ValueId x = op.in[0];
  const ValueId summed = backward.Like(op, OpKind::kGroupSum, {g}, x);
  // The repeat may number the heads of each shard from 0 (`in_slices`). The sum
  // always groups query heads by their index in the unsharded tensor.
  As<HeadGroupAttributes>(backward.write().Producer(summed)).in_slices = false;
  backward.Give(x, summed);
}

// Each rotated element is the sum of two products, which takes three
// operations.
double RopeFlops(const Op&, const OpExtent& extent) {
  return 3 * extent.result;
}

// With ALiBi, the product of a slope and a key's position is added to each
// score.
double MaskFlops(const Op& op, const OpExtent& extent) {
  return As<MaskAttributes>(op).heads == kNoLabel ? 0 : 2 * extent.result;
}

std::array<LabelId, 2> RotatedLabel(const Graph&, const Op& op) {
  return {As<RopeAttributes>(op).label, kNoLabel};
}

}  // namespace

constinit const OpDef kRopeDef{
    .kind = OpKind::kRope,
    .text =
        "(x, positions): pairs of `label` rotated by ropes[`rope`], times "
        "`sign`",
    .attributes = kTypeOf<RopeAttributes>,
    .linear = Linearity::kFirst,
    .unsharded = RotatedLabel,
    .passes_preference = true,
    .vjp = RopeVjp,
    .flops = RopeFlops,
    .storage = Storage::kOverwrites,
};

constinit const OpDef kMaskDef{
    .kind = OpKind::kMask,
    .text =
        "(scores, positions of queries, of keys): minus infinity where `rule` "
        "and `window` hide a key; slopes of the `heads` times `slope_scale`",
    .attributes = kTypeOf<MaskAttributes>,
    .vjp = MaskVjp,
    .flops = MaskFlops,
    .storage = Storage::kOverwrites,
};

constinit const OpDef kRepeatDef{
    .kind = OpKind::kRepeat,
    .text =
        "`kv_heads` for the `query_heads`: KV head n / (|n| / |k|); with "
        "`in_slices` each device counts its own heads",
    .attributes = kTypeOf<HeadGroupAttributes>,
    .linear = Linearity::kFirst,
    .structural = true,
    .passes_preference = true,
    .vjp = RepeatVjp,
};

constinit const OpDef kGroupSumDef{
    .kind = OpKind::kGroupSum,
    .text = "`query_heads` summed by group to `kv_heads`",
    .attributes = kTypeOf<HeadGroupAttributes>,
    .linear = Linearity::kFirst,
    .structural = true,
    .passes_preference = true,
    .flops = OnePerOperand,
};

}  // namespace shardc::step
