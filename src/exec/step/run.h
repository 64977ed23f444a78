// A step's program, run.
#ifndef SHARDC_EXEC_STEP_RUN_H_
#define SHARDC_EXEC_STEP_RUN_H_

#include <cstdint>
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
  // Global, by ValueId; those that are no inputs are empty.
  std::vector<Buffer> values = {};
};

enum class KeepSlots : uint8_t {
  kAll,
  kResults,  // a slot that nothing reads any more is let go
};

struct StepRun {
  std::vector<PerDevice> slots;  // of the program
};
// Every dimension divides at these sizes. The run asks the machine's seams for
// collectives and for local ops.
StepRun RunStep(Machine& machine, const step::Graph& graph,
                const step::Program& program, const StepInputs& inputs,
                KeepSlots keep);

// A slot as a tensor over the mesh.
Shape LocalStartOf(const SimMesh& mesh, const step::Program& program,
                   const step::Slot& slot, const Shape& local, int device);

// What each device sends for an instruction by the formulas of comm.
std::vector<int64_t> PredictedSent(const SimMesh& mesh,
                                   const step::Graph& graph,
                                   const step::Program& program,
                                   const step::Instruction& instruction,
                                   const step::Sizes& sizes, Dtype dtype);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_STEP_RUN_H_
