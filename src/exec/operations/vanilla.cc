// The operation vanilla: attention from all logits of a row at once, as a
// compiler partitions it from a global view of the tensors.
//
// Batch, query length and heads keep the query's sharding. Keys and values are
// gathered over their length. They are also gathered over their heads, unless
// their head axes are a prefix of the query's. For example, if query heads and
// 8 key heads are sharded over tp=8, nothing is sent. But if query heads are
// sharded over [tp2, tp1] and key heads over [tp1], then [tp1] is not a prefix
// of [tp2, tp1]. A device's query heads then read other key heads than the
// device has, so the key heads are gathered.
//
// If the query's head dimension is sharded, the key's is sharded in the same
// way, and partial logits are all-reduced before any non-linear step. The head
// dimension of value and output stays sharded over the value's axes, without a
// collective. If one of these axes also shards the query's batch, length or
// heads, the value is gathered over its head dimension.
#include <utility>

#include "exec/attention/staging.h"
#include "exec/operations/operation.h"
#include "exec/operations/row_softmax.h"

namespace shardc::exec {

extern const Operation kVanilla;

namespace {

// Reshards key and value so that each device has the keys that its queries
// read.
void MoveKeys(Machine& machine, Staged& staged) {
  const SimMesh& mesh = machine.mesh();
  const Spec& q = staged.query.spec;
  const AxisGroup heads = CommonPrefix(mesh, staged.key.spec[2], q[2]).size() ==
                                  DropTrivial(mesh, staged.key.spec[2]).size()
                              ? staged.key.spec[2]
                              : AxisGroup{};
  Move(machine, staged.key, {q[0], {}, heads, q[3]}, "key");
  AxisGroup dim = staged.value.spec[3];
  for (size_t d = 0; d < 3; ++d) {
    if (!Disjoint(dim, q[d])) dim.clear();
  }
  Move(machine, staged.value, {q[0], {}, heads, dim}, "value");
}

OperationOutcome RunVanilla(Machine& machine, const AttentionProblem& problem,
                            const AttentionSpecs& specs,
                            const OperationSettings& settings) {
  OperationOutcome outcome;
  LayoutError why;
  auto staged = Stage(machine, problem, specs, settings, kVanilla.Staging(),
                      why, outcome.remarks);
  if (!staged) {
    outcome.unsupported = std::move(why);
    return outcome;
  }
  if (problem.IsHollow()) return outcome;
  MoveKeys(machine, *staged);
  MoveExtras(machine, *staged);
  const AxisGroup dim = staged->query.spec[3];
  // The sum of partial logits is exact for quantised products: sums of integers
  // do not depend on the order.
  outcome.exact = machine.mesh().Parts(dim) == 1 || settings.dot_bits > 0;
  outcome.output = FinishOutput(
      machine, *staged,
      RowSoftmax(machine, *staged, GroupMap::kGlobal, settings, dim));
  return outcome;
}

void VanillaBytes(Traffic& traffic) {
  const Spec q = traffic.query.spec;
  TensorSharding &key = traffic.key, &value = traffic.value;
  const AxisGroup heads =
      IsPrefix(traffic.mesh(), key.spec[2], q[2]) ? key.spec[2] : AxisGroup{};
  AxisGroup dim = value.spec[3];
  for (size_t d = 0; d < 3; ++d) {
    if (!Disjoint(dim, q[d])) dim.clear();
  }
  traffic.MoveTo(key, {q[0], {}, heads, q[3]}, traffic.element_bytes());
  traffic.MoveTo(value, {q[0], {}, heads, dim}, traffic.element_bytes());
  traffic.MoveExtras();
  traffic.ReduceLogits();
  traffic.FinishAs({q[0], q[1], q[2], dim});
}

}  // namespace

constinit const Operation kVanilla = {
    .name = "vanilla",
    .summary = "full rows of logits, in the global view",
    .supports = {.batch = "local",
                 .query_length = "local",
                 .key_length = "all_gather k, v",
                 .heads = "local, all_gather",
                 .dim = "all_reduce logits"},
    .global_view = true,
    .adds_logits = true,
    .narrow_softmax = true,
    .masked_rows = MaskedRows::kMean,
    .settings = {Setting::kDropout, Setting::kDotBits},
    .bytes = VanillaBytes,
    .run = RunVanilla,
};

}  // namespace shardc::exec
