// The definitions of ops that split, merge, index, rename or roll dimensions,
// or extract a part of one. The derivative of each op is the inverse op, with
// zeros for elements that the op did not read (g is the cotangent of the
// result):
//
//   part c of (c+r)  ->  unpart: g at c, zeros at r
#include "step/backward.h"
#include "step/op_def.h"

namespace shardc::step {
namespace {

void SplitVjp(Backward& backward, const Op& op, ValueId g) {
  backward.Give(op.in[0],
                backward.write().Merge(g, As<LabelAttributes>(op).label));
}

void MergeVjp(Backward& backward, const Op& op, ValueId g) {
  backward.Give(op.in[0],
                backward.write().Split(g, As<LabelAttributes>(op).label));
}

void PartVjp(Backward& backward, const Op& op, ValueId g) {
  const ValueId x = op.in[0];
  backward.Give(x, backward.Like(op, OpKind::kUnpart, {g}, x));
}

void IndexVjp(Backward& backward, const Op& op, ValueId g) {
  const ValueId x = op.in[0];
  backward.Give(x, backward.Like(op, OpKind::kUnindex, {g}, x));
}

void RenameVjp(Backward& backward, const Op& op, ValueId g) {
  const auto& [from, to] = As<RenameAttributes>(op);
  backward.Give(op.in[0], backward.write().Rename(g, to, from));
}

void RollVjp(Backward& backward, const Op& op, ValueId g) {
  const ValueId x = op.in[0];
  const ValueId back = backward.Like(op, OpKind::kRoll, {g}, x);
  RollAttributes& roll = As<RollAttributes>(backward.write().Producer(back));
  roll.sign = static_cast<int8_t>(-roll.sign);
  backward.Give(x, back);
}

std::array<LabelId, 2> PartLabels(const Graph&, const Op& op) {
  const PartAttributes& part = As<PartAttributes>(op);
  return {part.whole, part.part};
}

std::array<LabelId, 2> IndexedLabel(const Graph&, const Op& op) {
  return {As<IndexAttributes>(op).label, kNoLabel};
}

std::array<LabelId, 2> RolledLabel(const Graph&, const Op& op) {
  return {As<RollAttributes>(op).label, kNoLabel};
}

}  // namespace

constinit const OpDef kSplitDef{
    .kind = OpKind::kSplit,
    .text = "`label` (n h) becomes all its factors",
    .attributes = kTypeOf<LabelAttributes>,
    .linear = Linearity::kFirst,
    .structural = true,
    .passes_preference = true,
    .vjp = SplitVjp,
    .storage = Storage::kFirstOperand,
    .keeps_name = true,
};

constinit const OpDef kMergeDef{
    .kind = OpKind::kMerge,
    .text = "all factors become `label` (n h)",
    .attributes = kTypeOf<LabelAttributes>,
    .linear = Linearity::kFirst,
    .structural = true,
    .passes_preference = true,
    .vjp = MergeVjp,
    .storage = Storage::kFirstOperand,
    .keeps_name = true,
};

constinit const OpDef kPartDef{
    .kind = OpKind::kPart,
    .text = "part number `number` of `whole`, as `part`",
    .attributes = kTypeOf<PartAttributes>,
    .linear = Linearity::kFirst,
    .unsharded = PartLabels,
    .vjp = PartVjp,
};

constinit const OpDef kUnpartDef{
    .kind = OpKind::kUnpart,
    .text = "`part`, number `number`, in `whole`; zeros elsewhere",
    .attributes = kTypeOf<PartAttributes>,
    .linear = Linearity::kFirst,
    .unsharded = PartLabels,
};

constinit const OpDef kIndexDef{
    .kind = OpKind::kIndex,
    .text = "row `row` of `label`, which is dropped",
    .attributes = kTypeOf<IndexAttributes>,
    .linear = Linearity::kFirst,
    .unsharded = IndexedLabel,
    .vjp = IndexVjp,
};

constinit const OpDef kUnindexDef{
    .kind = OpKind::kUnindex,
    .text = "the operand as row `row` of `label`; zeros elsewhere",
    .attributes = kTypeOf<IndexAttributes>,
    .linear = Linearity::kFirst,
    .unsharded = IndexedLabel,
};

constinit const OpDef kRenameDef{
    .kind = OpKind::kRename,
    .text = "label `from` is called `to`",
    .attributes = kTypeOf<RenameAttributes>,
    .linear = Linearity::kFirst,
    .passes_preference = true,
    .vjp = RenameVjp,
    .storage = Storage::kFirstOperand,
};

constinit const OpDef kRollDef{
    .kind = OpKind::kRoll,
    .text =
        "each row of `label` at the next place, or with `sign` -1 at the "
        "one before; the last row comes first, or zeros if it is `open`",
    .attributes = kTypeOf<RollAttributes>,
    .linear = Linearity::kFirst,
    .unsharded = RolledLabel,
    .passes_preference = true,
    .vjp = RollVjp,
};

}  // namespace shardc::step
