// Directory: exec/step. Runs a step's program on the simulated mesh: each op on
// the shards of its operands, every collective through the machine.
// Its files include headers of these directories: source, model, comm, step,
// exec/kernels, exec/machine, exec/attention, exec/operations.
#ifndef SHARDC_EXEC_STEP_LOCAL_OP_H_
#define SHARDC_EXEC_STEP_LOCAL_OP_H_

#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include "exec/machine/buffer.h"
#include "model/step_graph.h"

namespace shardc::exec {

// The part of a value that one device holds. `start` is the index of its first
// element in the unsharded value.
struct Part {
  const std::vector<step::LabelId>* labels = nullptr;
  const Buffer* buffer = nullptr;
  Shape start = {};
};

// One op on one device. `out` already has the shape of the device's part and
// the dtype of the result.
struct LocalOp {
  const step::Graph* graph = nullptr;
  const step::Op* op = nullptr;
  const step::Sizes* sizes = nullptr;  // sizes of the unsharded values
  int device = 0;
  std::vector<Part> in = {};
  // Dimension labels of the result.
  const std::vector<step::LabelId>* labels = nullptr;
  // The position of the first element of `out` in the unsharded result, by
  // dimension.
  Shape start = {};
  Buffer* out = nullptr;
};

// Computes the op in float64 if the result or an operand is F64, otherwise in
// float32. Results of narrower dtypes are rounded once, at the end.
void RunLocalOp(const LocalOp& local);

struct LocalOpSeam {
  std::function<void(const LocalOp&)> run = RunLocalOp;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_STEP_LOCAL_OP_H_
