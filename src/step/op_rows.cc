// Records of ops that find rows by ids or positions. Ids are integral and get
// no gradient:
//
//   lookup(table [v, d], ids [b, t]) -> [b, t, d]; its derivative adds rows up
//   in scatter(ids, g) -> [v, d]
#include "step/backward.h"
#include "step/op_def.h"

namespace shardc::step {
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
        "(table [v, d], ids [b, t]) -> [b, t, d]: rows of `label` by ids + "
        "`index`",
    .attributes = kLabel | kIndex,
    .linear = Linearity::kFirst,
    .vjp = LookupVjp,
};

constinit const OpDef kScatterDef{
    .kind = OpKind::kScatter,
    .text = "(ids [b, t], g [b, t, d]) -> [v, d]: g added to rows of `label`",
    .attributes = kLabel | kIndex,
    .linear = Linearity::kSecond,
};

constinit const OpDef kPickDef{
    .kind = OpKind::kPick,
    .text = "(logits [b, t, v], ids [b, t]) -> [b, t]: one element of `label`",
    .attributes = kLabel,
    .linear = Linearity::kFirst,
    .vjp = PickVjp,
};

constinit const OpDef kPlaceDef{
    .kind = OpKind::kPlace,
    .text =
        "(ids [b, t], g [b, t]) -> [b, t, v]: g at one element of `label`, "
        "zeros elsewhere",
    .attributes = kLabel,
    .linear = Linearity::kSecond,
};

constinit const OpDef kCacheWriteDef{
    .kind = OpKind::kCacheWrite,
    .text =
        "(cache [b, s, k, h], new [b, t, k, h], positions [b, t]): the cache "
        "with the new rows at their positions in `label`",
    .attributes = kLabel,
    .dropped = LabelKind::kNeed,
    .storage = Storage::kFirstOperand,
};

constinit const OpDef kDistanceDef{
    .kind = OpKind::kDistance,
    .text =
        "(positions of queries, of keys) -> the row, among `label`, of a "
        "table of position biases; `counts` {the distance from which on all "
        "have the last row}; `fn` \"before\" the query or \"both\" sides",
    .attributes = kLabel | kCounts | kFnName,
};

}  // namespace shardc::step
