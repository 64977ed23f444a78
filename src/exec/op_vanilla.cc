// Plain attention over whole rows of logits.
//
// As a compiler's global view runs it: batch, query length and heads stay
// where the query has them; keys are gathered over their length, and over
// their heads where the query's heads do not nest in them. Where the head
// dimension of query and key is split, partial logits are added (all_reduce)
// before anything that is not linear. A split of the value's dimension goes
// through to the output, free.
//
// Example that needs nothing: q heads on tp, 8 key heads on tp = 8.
// Example that is gathered: q heads on [tp2, tp1], key heads on [tp1]: tp1 is
// no prefix, and a device's key heads are not those its query heads read.
//
// Softmax in 16 bits and products by bits: narrow.h.
//
// sdpa is the same arithmetic as a local kernel: its wrapper keeps batch and
// head axes and gathers the rest, and its group map trusts the slices.
#include <utility>

#include "exec/narrow.h"
#include "exec/operation.h"
#include "exec/staging.h"

namespace shardc::exec {
namespace {

size_t At(int device) { return static_cast<size_t>(device); }

// Whole rows of logits are at hand, so softmax and products can be narrow.
constexpr StageOptions kOptions = {false, true, true, false};

// Layouts of key and value that a device's queries can be answered from.
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

// Logits of all devices, added over `dim_axes`.
PerDevice Logits(Machine& machine, const Staged& staged, const Slices& slices,
                 bool early, const AxisGroup& dim_axes) {
  const SimMesh& mesh = machine.mesh();
  PerDevice scores(At(mesh.devices()));
  machine.Local([&](int device) {
    scores[At(device)] = DotScores(slices.at[At(device)]);
    if (early) FinishScores(slices.at[At(device)], scores[At(device)]);
  });
  if (mesh.Parts(dim_axes) > 1 && !machine.Planted(Fault::kCollectiveSkipped)) {
    AxisGroup axes = dim_axes;
    if (machine.Planted(Fault::kReduceOverReplicas)) {
      for (const MeshAxis& axis : mesh.mesh().axes) {
        bool used = false;
        for (const AxisGroup& group : staged.query.spec) {
          used = used || !Disjoint({axis.name}, group);
        }
        if (!used) axes.push_back(axis.name);
      }
    }
    scores = AllReduce(machine, axes, scores, Reduce::kSum, "logits");
  }
  return scores;
}

// Logits, softmax, output.
ShardedTensor RowSoftmax(Machine& machine, const Staged& staged, GroupMap map,
                         const OperationSettings& settings,
                         const AxisGroup& dim_axes) {
  const SimMesh& mesh = machine.mesh();
  Slices slices;
  MakeSlices(machine, staged, map, slices);
  PerDevice scores;
  Narrow narrow;
  narrow.bits = settings.dot_bits;
  narrow.softmax_dtype = settings.softmax_dtype;
  const bool early = machine.Planted(Fault::kReduceAfterExp);
  if (narrow.bits > 0) {
    scores = ScoresByBits(machine, slices, dim_axes, narrow.bits);
  } else {
    scores = Logits(machine, staged, slices, early, dim_axes);
  }
  ShardedTensor out;
  out.shape = staged.query.shape;
  out.shape[3] = staged.value.shape[3];
  out.dtype = staged.dtype;
  out.spec = {staged.query.spec[0], staged.query.spec[1], staged.query.spec[2],
              staged.value.spec[3]};
  out.local.resize(At(mesh.devices()));
  machine.Local([&](int device) {
    const LocalSlice& slice = slices.at[At(device)];
    if (!early) FinishScores(slice, scores[At(device)]);
    SoftmaxState state = EmptyState(slice);
    if (narrow.bits == 0 && narrow.softmax_dtype == Dtype::kF32) {
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

OperationOutcome RunVanilla(Machine& machine, const AttentionProblem& problem,
                            const AttentionSpecs& specs,
                            const OperationSettings& settings) {
  OperationOutcome outcome;
  Complaint why;
  auto staged =
      Stage(machine, problem, specs, settings, kOptions, why, outcome.remarks);
  if (!staged) {
    outcome.unsupported = std::move(why);
    return outcome;
  }
  MoveKeys(machine, *staged);
  MoveExtras(machine, *staged);
  const AxisGroup dim = staged->query.spec[3];
  // Integers add up to the same sum in any order.
  outcome.exact = machine.mesh().Parts(dim) == 1 || settings.dot_bits > 0;
  outcome.output = FinishOutput(
      machine, *staged,
      RowSoftmax(machine, *staged, GroupMap::kGlobal, settings, dim));
  return outcome;
}

OperationOutcome RunSdpa(Machine& machine, const AttentionProblem& problem,
                         const AttentionSpecs& specs,
                         const OperationSettings& settings) {
  OperationOutcome outcome;
  auto staged =
      StageLocal(machine, problem, specs, settings, kOptions, outcome);
  if (!staged) return outcome;
  outcome.output = FinishOutput(
      machine, *staged,
      RowSoftmax(machine, *staged, GroupMap::kNaive, settings, {}));
  return outcome;
}

}  // namespace shardc::exec
