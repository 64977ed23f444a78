// Computes the memory that a proof needs on one rank (process). It has three
// parts. The first is all slots of the program (values, each in one sharding)
// on the rank's devices. The second, in dtypes narrower than float64, is the
// slots of the same step on one device. The third is the values of the dense
// reference in double. Each input has one more copy in double and one in the
// devices' dtype:
//
//   [4, 8] sharded over 2 of 4 devices, float64, one rank: 4 * 16 * 8 bytes for
//   the slot, and 32 * 8 for the reference
#include <cstdint>

#include "exec/machine/mesh_sim.h"
#include "source/checked.h"
#include "source/index.h"
#include "verify/step/prove.h"

namespace shardc::verify {

int64_t ProofBytes(const StepCase& test) {
  const step::Graph& graph = *test.graph;
  // Dtypes narrower than float32 are stored as float32.
  const int64_t width = test.dtype == Dtype::kF64 ? 8 : 4;
  int64_t out = 0;
  const auto add = [&](const step::Axes& axes, const step::Slot& slot,
                       int64_t devices, int64_t element) {
    int64_t bytes = CheckedMul(element, devices).value_or(INT64_MAX);
    const auto& labels = graph.values[AsIndex(slot.value)].labels;
    for (size_t d = 0; d < labels.size(); ++d) {
      const int64_t size =
          test.sizes[AsIndex(labels[d])] / axes.Parts(slot.sharding.dims[d]);
      bytes = CheckedMul(bytes, size).value_or(INT64_MAX);
    }
    out = CheckedAdd(out, bytes).value_or(INT64_MAX);
  };
  const int64_t ranks = test.transport == nullptr ? 1 : test.transport->ranks();
  const int64_t devices =
      (exec::SimMesh(test.mesh).devices() + ranks - 1) / ranks;
  for (const step::Slot& slot : test.program->slots) {
    add(test.program->axes, slot, devices, width);
  }
  if (test.alone != nullptr) {
    for (const step::Slot& slot : test.alone->slots) {
      add(test.alone->axes, slot, 1, width);
    }
  }
  // The dense reference keeps each value in double, 8 bytes per element. An
  // input has one more copy in double and one in the devices' dtype. If values
  // are recorded, every value has these two copies.
  for (const step::Op& op : graph.ops) {
    const bool input = op.kind == step::OpKind::kInput;
    const bool twice = input || test.compared != nullptr;
    add({}, {op.out, {}}, 1, twice ? 16 + width : 8);
  }
  return out;
}

}  // namespace shardc::verify
