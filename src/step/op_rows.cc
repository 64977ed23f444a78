// The definitions of ops that find rows by ids or positions. Ids are integers
// and have no gradient:
//
//   lookup(table [v, d], ids [b, t])      ->  [b, t, d]
//   its derivative adds up rows: scatter(ids, g [b, t, d])  ->  [v, d]
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

}  // namespace shardc::step
