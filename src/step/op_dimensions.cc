// Records of ops that reshape: dimensions are split, merged, divided into
// parts, indexed, renamed and rolled. The derivative of each is the inverse op,
// which writes zeros where it has no element:
//
//   part c of (c+r)  ->  unpart: g at c, zeros at r
#include <utility>

#include "step/backward.h"
#include "step/op_def.h"

namespace shardc::step {
namespace {

void SplitVjp(Backward& backward, const Op& op, ValueId g) {
  backward.Give(op.in[0], backward.write().Merge(g, op.label));
}

void MergeVjp(Backward& backward, const Op& op, ValueId g) {
  backward.Give(op.in[0], backward.write().Split(g, op.label));
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
  backward.Give(op.in[0], backward.write().Rename(g, op.to, op.label));
}

void RollVjp(Backward& backward, const Op& op, ValueId g) {
  const ValueId x = op.in[0];
  const ValueId back = backward.Like(op, OpKind::kRoll, {g}, x);
  Op& made = backward.write().Producer(back);
  made.sign = static_cast<int8_t>(-op.sign);
  made.fn = op.fn;
  backward.Give(x, back);
}

}  // namespace

constinit const OpDef kSplitDef{
    .kind = OpKind::kSplit,
    .text = "`label` (n h) becomes all its factors",
    .attributes = kLabel,
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
    .attributes = kLabel,
    .linear = Linearity::kFirst,
    .structural = true,
    .passes_preference = true,
    .vjp = MergeVjp,
    .storage = Storage::kFirstOperand,
    .keeps_name = true,
};

constinit const OpDef kPartDef{
    .kind = OpKind::kPart,
    .text = "part number `index` of `label`, as `to`",
    .attributes = kLabel | kTo | kIndex,
    .linear = Linearity::kFirst,
    .needs_unsharded = true,
    .vjp = PartVjp,
};

constinit const OpDef kUnpartDef{
    .kind = OpKind::kUnpart,
    .text = "part `to`, number `index`, in `label`; zeros elsewhere",
    .attributes = kLabel | kTo | kIndex,
    .linear = Linearity::kFirst,
    .needs_unsharded = true,
};

constinit const OpDef kIndexDef{
    .kind = OpKind::kIndex,
    .text = "row `index` of `label`, which is dropped",
    .attributes = kLabel | kIndex,
    .linear = Linearity::kFirst,
    .needs_unsharded = true,
    .vjp = IndexVjp,
};

constinit const OpDef kUnindexDef{
    .kind = OpKind::kUnindex,
    .text = "the operand as row `index` of `label`; zeros elsewhere",
    .attributes = kLabel | kIndex,
    .linear = Linearity::kFirst,
    .needs_unsharded = true,
};

constinit const OpDef kRenameDef{
    .kind = OpKind::kRename,
    .text = "`label` is called `to`",
    .attributes = kLabel | kTo,
    .linear = Linearity::kFirst,
    .passes_preference = true,
    .vjp = RenameVjp,
    .storage = Storage::kFirstOperand,
};

constinit const OpDef kRollDef{
    .kind = OpKind::kRoll,
    .text =
        "each row of `label` at the next place, or with `sign` -1 at the "
        "one before; the last row comes first, or zeros if `fn` is \"open\"",
    .attributes = kLabel | kSign | kFnName,
    .linear = Linearity::kFirst,
    .needs_unsharded = true,
    .passes_preference = true,
    .vjp = RollVjp,
};

}  // namespace shardc::step
