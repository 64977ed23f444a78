// Room: exec/step. Runs a step's program on the simulated mesh: each op on the
// shards of its operands, every collective through the machine.
// Includes: source, model, comm, step, exec/kernels, exec/machine,
// exec/attention, exec/operations.
#ifndef SHARDC_EXEC_STEP_LOCAL_OP_H_
#define SHARDC_EXEC_STEP_LOCAL_OP_H_

#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include "exec/machine/buffer.h"
#include "model/step_graph.h"

namespace shardc::exec {

// A device's part of a value, and the global index at which it starts.
struct Part {
  const std::vector<step::LabelId>* labels = nullptr;
  const Buffer* buffer = nullptr;
  Shape start = {};
};

// One op on one device. `out` has the local shape and dtype.
struct LocalOp {
  const step::Graph* graph = nullptr;
  const step::Op* op = nullptr;
  const step::Sizes* sizes = nullptr;  // global
  int device = 0;
  std::vector<Part> in = {};
  const std::vector<step::LabelId>* labels = nullptr;  // of the result
  Shape start = {};                                    // of the result
  Buffer* out = nullptr;
};

// Computes in float64 for F64, else in float32; results of narrower dtypes are
// rounded once.
void RunLocalOp(const LocalOp& local);

struct LocalOpSeam {
  std::function<void(const LocalOp&)> run = RunLocalOp;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_STEP_LOCAL_OP_H_
