// The table of the definitions of all ops. A graph refers to an op's definition
// by its OpKind, which is the index into the table. For example:
//
//   DefOf(OpKind::kTopK).unsharded  ->  the function that returns the label of
//                                       experts, which must be unsharded
#include "step/op_def.h"

#include <array>

#include "step/graph_writer.h"

namespace shardc::step {
namespace {

constexpr std::array<const OpDef*, kOpKinds> kDefs = {
    &kInputDef,  &kEinsumDef,  &kAddDef,       &kScaleDef,      &kFnDef,
    &kSumDef,    &kMaxDef,     &kBroadcastDef, &kLookupDef,     &kScatterDef,
    &kPickDef,   &kPlaceDef,   &kSplitDef,     &kMergeDef,      &kPartDef,
    &kUnpartDef, &kIndexDef,   &kUnindexDef,   &kRenameDef,     &kIdentityDef,
    &kRopeDef,   &kMaskDef,    &kRepeatDef,    &kGroupSumDef,   &kTopGroupsDef,
    &kTopKDef,   &kSlotsDef,   &kDropoutDef,   &kCacheWriteDef, &kAdamWDef,
    &kRollDef,   &kDistanceDef};

}  // namespace

const OpDef& DefOf(OpKind kind) { return *kDefs[static_cast<size_t>(kind)]; }

bool StopsAlways(const Op&) { return true; }

double OnePerResult(const Op&, const OpExtent& extent) { return extent.result; }

double OnePerOperand(const Op&, const OpExtent& extent) {
  return extent.last_operand;
}

bool IsLinearIn(OpKind kind, size_t operand) {
  switch (DefOf(kind).linear) {
    case Linearity::kNone:
      return false;
    case Linearity::kFirst:
      return operand == 0;
    case Linearity::kSecond:
      return operand == 1;
    case Linearity::kEach:
    case Linearity::kTogether:
      return true;
  }
  return false;
}

// The definitions of arithmetic ops: products, sums, functions of one number,
// maxima. For example, the definition of y = scale(x) states that the op is
// linear (a partial x results in a partial y), that the cotangent of x is
// scale(g) for the cotangent g of y, and that the result may overwrite x.

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

// The definitions of attention's ops other than products and sums: rotary
// embeddings, masks, and KV heads that are repeated for groups of query heads.
//
//   repeat k [b, s, 2, h] for 8 query heads: query head i has KV head i / 4.
//   Its derivative sums the four query heads of each group.

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

// The definitions of ops that split, merge, index, rename or roll dimensions,
// or extract a part of one. The derivative of each op is the inverse op, with
// zeros for elements that the op did not read (g is the cotangent of the
// result):
//
//   part c of (c+r)  ->  unpart: g at c, zeros at r

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

// The last token of a prompt may be read from sharded tokens: the devices that
// do not have it return zeros, so the result is partial.
std::array<LabelId, 2> IndexedLabel(const Graph& graph, const Op& op) {
  const auto& [label, row] = As<IndexAttributes>(op);
  if (row < 0 && label == graph.common.query) return {kNoLabel, kNoLabel};
  return {label, kNoLabel};
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
    .text = "row `row` of `label`, which is dropped; -1 is the last row",
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

// The definitions of ops that find rows by ids or positions. Ids are integers
// and have no gradient:
//
//   lookup(table [v, d], ids [b, t])      ->  [b, t, d]
//   its derivative adds up rows: scatter(ids, g [b, t, d])  ->  [v, d]

namespace {

void LookupVjp(Backward& backward, const Op& op, ValueId g) {
  const ValueId table = op.in[0];
  backward.Give(table,
                backward.Like(op, OpKind::kScatter, {op.in[1], g}, table));
}

void PickVjp(Backward& backward, const Op& op, ValueId g) {
  const ValueId x = op.in[0];
  backward.Give(x, backward.Like(op, OpKind::kPlace, {op.in[1], g}, x));
}

}  // namespace

constinit const OpDef kLookupDef{
    .kind = OpKind::kLookup,
    .text =
        "(table [v, d], ids [b, t]) -> [b, t, d]: the `rows` by ids + "
        "`offset`",
    .attributes = kTypeOf<LookupAttributes>,
    .linear = Linearity::kFirst,
    .vjp = LookupVjp,
};

constinit const OpDef kScatterDef{
    .kind = OpKind::kScatter,
    .text = "(ids [b, t], g [b, t, d]) -> [v, d]: g added to `rows`",
    .attributes = kTypeOf<LookupAttributes>,
    .linear = Linearity::kSecond,
    .flops = OnePerOperand,
};

constinit const OpDef kPickDef{
    .kind = OpKind::kPick,
    .text = "(logits [b, t, v], ids [b, t]) -> [b, t]: one element of `label`",
    .attributes = kTypeOf<LabelAttributes>,
    .linear = Linearity::kFirst,
    .vjp = PickVjp,
};

constinit const OpDef kPlaceDef{
    .kind = OpKind::kPlace,
    .text =
        "(ids [b, t], g [b, t]) -> [b, t, v]: g at one element of `label`, "
        "zeros elsewhere",
    .attributes = kTypeOf<LabelAttributes>,
    .linear = Linearity::kSecond,
};

constinit const OpDef kCacheWriteDef{
    .kind = OpKind::kCacheWrite,
    .text =
        "(cache [b, s, k, h], new [b, t, k, h], positions [b, t]): the cache "
        "with the new rows at their positions in `label`",
    .attributes = kTypeOf<LabelAttributes>,
    .dropped = LabelKind::kNeed,
    .storage = Storage::kFirstOperand,
};

constinit const OpDef kDistanceDef{
    .kind = OpKind::kDistance,
    .text =
        "(positions of queries, of keys) -> the row, among `rows`, of a table "
        "of position biases, the last row from the distance `longest` on",
    .attributes = kTypeOf<DistanceAttributes>,
};

// The definitions of the ops of expert routing, dropout and the optimizer. A
// choice of experts is 0 or 1 and has no gradient:
//
//   top_k, two of four experts:  a token's scores .1 .4 .2 .3  ->  0 1 0 1

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
