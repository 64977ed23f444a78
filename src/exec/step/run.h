// Directory: exec/step. Runs a step's program on the simulated mesh: each op on
// the shards of its operands, every collective through the machine.
// Its files include headers of these directories: source, model, comm, step,
// exec/kernels, exec/machine, exec/attention, exec/operations.
#ifndef SHARDC_EXEC_STEP_RUN_H_
#define SHARDC_EXEC_STEP_RUN_H_

#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include "exec/machine/buffer.h"
#include "exec/machine/collectives.h"
#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"
#include "exec/operations/operation.h"
#include "model/step_graph.h"
#include "step/constraints.h"
#include "step/macros.h"
#include "step/program.h"

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

struct StepInputs {
  step::Sizes sizes = {};
  Dtype dtype = Dtype::kF64;
  // The unsharded values, indexed by ValueId. Values that are not inputs are
  // empty.
  std::vector<Buffer> values = {};
};

enum class KeepSlots : uint8_t {
  kAll,
  // A slot of the program stores a value in one sharding. Keeps the slots of
  // the step's results, such as loss, gradients and updated parameters, and
  // slots that no instruction reads. All other slots are freed after the last
  // instruction that reads them.
  kResults,
};
// A function that is called with each slot before the slot is freed.
using BeforeFree =
    std::function<void(int32_t slot, const PerDevice& per_device)>;

// Returns, for each slot, the index of the instruction after which
// KeepSlots::kResults frees it: its last reader. Slots that are not freed have
// -1.
std::vector<int64_t> LastReaders(const step::Graph& graph,
                                 const step::Program& program);

struct StepRun {
  // Indexed by slot of the program: the value's part on each device.
  std::vector<PerDevice> slots;
};
// Runs a program and returns its slots. Each dimension must be divisible by its
// number of shards. Tests can replace collectives and ops (Seams).
StepRun RunStep(Machine& machine, const step::Graph& graph,
                const step::Program& program, const StepInputs& inputs,
                KeepSlots keep, const BeforeFree& before_free = {});

// Runs one instruction of a program. `slots` has one entry for each slot of the
// program. The operands are read from `slots`, and the result is stored there.
void RunInstruction(Machine& machine, const step::Graph& graph,
                    const step::Program& program, const StepInputs& inputs,
                    const step::Instruction& instruction,
                    std::vector<PerDevice>& slots);

// Returns the index, in the unsharded value, of the first element of a device's
// part of a slot.
Shape LocalStartOf(const SimMesh& mesh, const step::Program& program,
                   const step::Slot& slot, const Shape& local, int device);

// Returns the bytes that each device sends for an instruction, by the formulas
// of src/comm. Returns zeros if the instruction is not a collective.
std::vector<int64_t> PredictedSent(const SimMesh& mesh,
                                   const step::Graph& graph,
                                   const step::Program& program,
                                   const step::Instruction& instruction,
                                   const step::Sizes& sizes, Dtype dtype);

// Returns the form of the operation's program: the compiler's global view, a
// kernel on slices, or a ring. `length_parts` is the number of shards of the
// query length, and `key_heads` the number of KV heads of one device. If an
// all_to_all changes the sharding of the length to one of the heads, and
// `length_parts` does not divide `key_heads`, each KV head is copied
// length_parts / key_heads times.
step::AttentionForm StepForm(const Operation& operation, int64_t length_parts,
                             int64_t key_heads);

// `constraints` has the sharding constraints of a mode, such as decode. Adds
// the shardings that the operation requires of its query, key and output.
void AddStepOverrides(const Operation& operation,
                      step::ShardingConstraints& constraints);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_STEP_RUN_H_
