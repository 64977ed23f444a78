// The operation sdpa: attention from all logits of a row at once, as a local
// kernel. It computes the same as vanilla, but the wrapper around the kernel
// keeps the axes of batch and heads and gathers all other dimensions. Query
// head t of a device reads the device's key head t / g, where g is the device's
// number of query heads for each key head.
//
// Some layouts lead to wrong results, which verification detects. For example,
// query heads are sharded over tp=2 and two key heads are replicated. All query
// heads of a device then belong to one key head, but half of them read the
// other key head.
#include <algorithm>
#include <optional>
#include <utility>

#include "exec/attention/attention_problem.h"
#include "exec/attention/narrow.h"
#include "exec/attention/staging.h"
#include "exec/machine/machine.h"
#include "exec/operations/operation.h"
#include "source/size.h"

namespace shardc::exec {
namespace {

// Computes attention from all logits of a row at once. Some features need this:
// softmax in 16 bits, quantised matmuls (narrow.h), dropout, and a sharded head
// dimension. Attention without these features runs in the fast kernels, if the
// kernels support the slices (InKernels). If the head dimension is sharded, the
// products on each device are partial logits. They must be added before the
// exponential, since e^(a+b) is not e^a + e^b. For example:
//
//   D = 128 over tp=2: q[0:64] . k[0:64] on one, q[64:128] . k[64:128] on
//   the other, all_reduce, then caps, bias, masks and softmax on both

size_t At(int device) { return AsIndex(device); }

// Returns each device's logits. Partial logits are all-reduced over `dim_axes`.
PerDevice Logits(Machine& machine, const Slices& slices,
                 const AxisGroup& dim_axes) {
  const SimMesh& mesh = machine.mesh();
  PerDevice scores(At(mesh.devices()));
  machine.Local([&](int device) {
    scores[At(device)] = DotScores(slices.at[At(device)]);
  });
  if (mesh.Parts(dim_axes) > 1) {
    scores = AllReduce(machine, dim_axes, scores, Reduce::kSum, "logits");
  }
  return scores;
}

ShardedTensor ByKernels(Machine& machine, const Staged& staged,
                        const Slices& slices) {
  ShardedTensor out = EmptyOutput(machine, staged);
  out.spec[3] = staged.value.spec[3];
  machine.Local([&](int device) {
    const LocalSlice& slice = slices.at[At(device)];
    SoftmaxState state = EmptyState(slice);
    AttendRows(slice, state);
    out.local[At(device)] =
        FinishRows(machine, staged, device, slice, state, out.dtype);
  });
  return out;
}

// Returns the output of softmax over full rows of logits. If `dim_axes` shard
// the head dimension, the logits are all-reduced over these axes. The output
// has the query's axes for batch, length and heads, and the value's axes for
// its dim.
ShardedTensor RowSoftmax(Machine& machine, const Staged& staged, GroupMap map,
                         const OperationSettings& settings,
                         const AxisGroup& dim_axes) {
  Slices slices;
  MakeSlices(machine, staged, map, slices);
  PerDevice scores;
  Narrow narrow;
  narrow.bits = settings.dot_bits;
  narrow.softmax_dtype = settings.softmax_dtype;
  const bool plain = narrow.bits == 0 && narrow.softmax_dtype == Dtype::kF32;
  if (plain && machine.mesh().Parts(dim_axes) == 1 &&
      std::all_of(slices.at.begin(), slices.at.end(), InKernels)) {
    return ByKernels(machine, staged, slices);
  }
  if (narrow.bits > 0) {
    scores = QuantisedScores(machine, slices, dim_axes, narrow.bits);
  } else {
    scores = Logits(machine, slices, dim_axes);
  }
  ShardedTensor out = EmptyOutput(machine, staged);
  out.spec[3] = staged.value.spec[3];
  machine.Local([&](int device) {
    const LocalSlice& slice = slices.at[At(device)];
    FinishScores(slice, scores[At(device)]);
    SoftmaxState state = EmptyState(slice);
    if (plain) {
      AttendScores(slice, scores[At(device)], state);
      out.local[At(device)] =
          FinishRows(machine, staged, device, slice, state, out.dtype);
      return;
    }
    std::optional<Buffer> sinks;
    if (staged.sinks) sinks = LocalSinks(machine, staged, device, slice);
    const bool absorbed = AttendNarrow(slice, scores[At(device)], narrow,
                                       sinks ? &*sinks : nullptr, state);
    if (sinks && !absorbed) AddSinks(*sinks, state);
    out.local[At(device)] = FinishState(state, out.dtype);
  });
  return out;
}

}  // namespace

extern const Operation kSdpa;

namespace {

OperationOutcome RunSdpa(Machine& machine, const AttentionProblem& problem,
                         const AttentionSpecs& specs,
                         const OperationSettings& settings) {
  OperationOutcome outcome;
  auto staged =
      StageLocal(machine, problem, specs, settings, kSdpa.Staging(), outcome);
  if (!staged) return outcome;
  outcome.output = FinishOutput(
      machine, *staged,
      RowSoftmax(machine, *staged, GroupMap::kNaive, settings, {}));
  return outcome;
}

}  // namespace

constinit const Operation kSdpa = {
    .name = "sdpa",
    .summary = "full rows of logits, in local slices",
    .supports = kLocalSupports,
    .narrow_softmax = true,
    .masked_rows = MaskedRows::kMean,
    .settings = {Setting::kDropout, Setting::kDotBits},
    .bytes = LocalBytes,
    .run = RunSdpa,
};

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
