// Computes attention from all logits of a row at once. Some features need this:
// softmax in 16 bits, quantised matmuls (narrow.h), dropout, and a sharded head
// dimension. Attention without these features runs in the fast kernels, if the
// kernels support the slices (InKernels). If the head dimension is sharded, the
// products on each device are partial logits. They must be added before the
// exponential, since e^(a+b) is not e^a + e^b. For example:
//
//   D = 128 over tp=2: q[0:64] . k[0:64] on one, q[64:128] . k[64:128] on
//   the other, all_reduce, then caps, bias, masks and softmax on both
#include "exec/operations/row_softmax.h"

#include <algorithm>
#include <optional>

#include "exec/attention/narrow.h"
#include "source/index.h"

namespace shardc::exec {
namespace {

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

}  // namespace

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

}  // namespace shardc::exec
