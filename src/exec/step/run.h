// Runs a step's program on the simulated mesh.
#ifndef SHARDC_EXEC_STEP_RUN_H_
#define SHARDC_EXEC_STEP_RUN_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "exec/machine/collectives.h"
#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"
#include "exec/step/local_op.h"
#include "step/program.h"

namespace shardc::exec {

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
// number of shards. Tests can replace collectives and ops (seams.h).
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

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_STEP_RUN_H_
