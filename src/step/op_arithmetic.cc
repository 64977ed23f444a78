// The definitions of arithmetic ops: products, sums, functions of one number,
// maxima. For example, the definition of y = scale(x) states that the op is
// linear (a partial x results in a partial y), that the cotangent of x is
// scale(g) for the cotangent g of y, and that the result may overwrite x.
#include "step/backward.h"
#include "step/functions.h"
#include "step/op_def.h"

namespace shardc::step {
namespace {

void EinsumVjp(Backward& backward, const Op& op, ValueId g) {
  GraphWriter& write = backward.write();
  const ValueId a = op.in[0], b = op.in[1];
  if (a == b) {
    if (!backward.Needs(a)) return;
    const ValueId half =
        write.Einsum(g, backward.Forward(a), backward.LabelsOf(a));
    return backward.Give(a, write.Scaled(half, {2, {}}));
  }
  if (backward.Needs(a)) {
    backward.Give(a,
                  write.Einsum(g, backward.Forward(b), backward.LabelsOf(a)));
  }
  if (backward.Needs(b)) {
    backward.Give(b,
                  write.Einsum(g, backward.Forward(a), backward.LabelsOf(b)));
  }
}

// A term may have been broadcast over labels that it lacks. Its cotangent is
// therefore summed over these labels.
void AddVjp(Backward& backward, const Op& op, ValueId g) {
  GraphWriter& write = backward.write();
  for (const ValueId term : op.in) {
    if (!backward.Needs(term)) continue;
    ValueId own = g;
    const Labels wide = backward.LabelsOf(g);
    for (const LabelId label : wide) {
      if (!write.Has(term, label)) own = write.Sum(own, label);
    }
    backward.Give(term, own);
  }
}

void ScaleVjp(Backward& backward, const Op& op, ValueId g) {
  backward.Give(op.in[0],
                backward.write().Scaled(g, As<ScaleAttributes>(op).factor));
}

void FnVjp(Backward& backward, const Op& op, ValueId g) {
  GraphWriter& write = backward.write();
  const ValueId x = op.in[0];
  const FnAttributes& attributes = As<FnAttributes>(op);
  const Function* const function = FindFunction(attributes.fn);
  if (function == nullptr || !backward.Needs(x)) return;
  if (function->derivative == "one") return backward.Give(x, g);
  const ValueId slope =
      function->derivative == "="
          ? backward.Forward(op.out)
          : write.Fn(function->derivative, backward.Forward(x),
                     attributes.constant);
  backward.Give(x, write.Times(g, slope));
}

void SumVjp(Backward& backward, const Op& op, ValueId g) {
  const LabelId label = As<LabelAttributes>(op).label;
  const ValueId x = op.in[0];
  backward.Give(x, backward.write().Broadcast(g, label, backward.LabelsOf(x)));
}

void BroadcastVjp(Backward& backward, const Op& op, ValueId g) {
  const LabelId label = As<LabelAttributes>(op).label;
  backward.Give(op.in[0], backward.write().Sum(g, label));
}

void IdentityVjp(Backward& backward, const Op& op, ValueId g) {
  backward.Give(op.in[0], g);
}

// An einsum has one multiplication for each combination of its labels' indices
// and, if a dimension is summed, one addition.
double EinsumFlops(const Op&, const OpExtent& extent) {
  const bool sums = extent.combinations > extent.result;
  return (sums ? 2 : 1) * extent.combinations;
}

double AddFlops(const Op&, const OpExtent& extent) {
  return (extent.operands - 1) * extent.result;
}

// Returns whether no gradient passes through the op's function
// (Function::derivative).
bool IsFlat(const Op& op) {
  const Function* const function = FindFunction(As<FnAttributes>(op).fn);
  return function == nullptr || function->derivative.empty();
}

}  // namespace

constinit const OpDef kInputDef{
    .kind = OpKind::kInput,
    .text = "a parameter, a moment, or data",
};

constinit const OpDef kEinsumDef{
    .kind = OpKind::kEinsum,
    .text = "product of two operands, summed over labels that the result lacks",
    .linear = Linearity::kEach,
    .vjp = EinsumVjp,
    .flops = EinsumFlops,
    .storage = Storage::kIfNothingSums,
};

constinit const OpDef kAddDef{
    .kind = OpKind::kAdd,
    .text = "sum of two or more; those with fewer labels are broadcast",
    .linear = Linearity::kTogether,
    .passes_preference = true,
    .vjp = AddVjp,
    .flops = AddFlops,
    .storage = Storage::kOverwrites,
};

constinit const OpDef kScaleDef{
    .kind = OpKind::kScale,
    .text = "the operand times `factor`",
    .attributes = kTypeOf<ScaleAttributes>,
    .linear = Linearity::kFirst,
    .passes_preference = true,
    .vjp = ScaleVjp,
    .flops = OnePerResult,
    .storage = Storage::kOverwrites,
};

constinit const OpDef kFnDef{
    .kind = OpKind::kFn,
    .text =
        "elementwise `fn`, with a `constant`; of two operands broadcast as "
        "by add",
    .attributes = kTypeOf<FnAttributes>,
    .passes_preference = true,
    .vjp = FnVjp,
    .stops_gradient = IsFlat,
    .flops = OnePerResult,
    .storage = Storage::kOverwrites,
};

constinit const OpDef kSumDef{
    .kind = OpKind::kSum,
    .text = "sum over `label`",
    .attributes = kTypeOf<LabelAttributes>,
    .linear = Linearity::kFirst,
    .vjp = SumVjp,
    .flops = OnePerOperand,
};

constinit const OpDef kMaxDef{
    .kind = OpKind::kMax,
    .text = "maximum over `label`",
    .attributes = kTypeOf<LabelAttributes>,
    .dropped = LabelKind::kMax,
    .stops_gradient = StopsAlways,
    .flops = OnePerOperand,
};

constinit const OpDef kBroadcastDef{
    .kind = OpKind::kBroadcast,
    .text = "the operand, the same along `label`",
    .attributes = kTypeOf<LabelAttributes>,
    .linear = Linearity::kFirst,
    .vjp = BroadcastVjp,
};

constinit const OpDef kIdentityDef{
    .kind = OpKind::kIdentity,
    .text = "the operand, under another sharding constraint",
    .linear = Linearity::kFirst,
    .vjp = IdentityVjp,
    .storage = Storage::kFirstOperand,
    .keeps_name = true,
};

}  // namespace shardc::step
