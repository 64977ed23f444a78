// Directory: exec/program. A traced program on the simulated mesh: its ops on
// shards, and the collectives between them.
// Its files include headers of these directories: source, program, comm,
// exec/kernels, exec/machine.
//
// Runs a traced program on the simulated mesh.
#ifndef SHARDC_EXEC_PROGRAM_RUN_H_
#define SHARDC_EXEC_PROGRAM_RUN_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/collective.h"
#include "exec/machine/buffer.h"
#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"
#include "program/program.h"
#include "program/sharding.h"

namespace shardc::exec {

// This header declares an op on the shards of one device. All buffers are F64,
// whatever the dtypes of the program: integers wrap at their dtype's range, and
// floats are not rounded.

// Returns the elements of a value that the program does not determine: of a
// random op, or of a constant whose elements the program does not state.
using DrawnElements = std::function<std::vector<double>(program::ValueId)>;

struct ProgramOperand {
  const Buffer* buffer = nullptr;
  // The index of the shard's first element in the operand.
  Shape start;
};

struct ProgramOp {
  const program::Program* program = nullptr;
  const program::Op* op = nullptr;
  std::vector<ProgramOperand> in;
  std::vector<Buffer>* out = nullptr;  // of the results' local shapes, zeros
  // Whether the device adds what is counted once to a partial result, such as
  // the operand of a scatter.
  bool first = true;
  const DrawnElements* drawn = nullptr;
};

// Computes the results of an op without a body. Tests replace it to inject
// faults.
void RunProgramOp(const ProgramOp& op);
struct ProgramOpSeam {
  std::function<void(const ProgramOp&)> run = RunProgramOp;
};

struct ProgramInputs {
  const program::Program* program = nullptr;
  // The sharding of each value on the machine's mesh (ShardProgram).
  const program::Sharding* sharding = nullptr;
  // Returns an unsharded input by its number. Called when an op first reads it.
  std::function<Buffer(size_t input)> input;
  DrawnElements drawn;
  // If not null, the same program at the sizes whose traffic is reported
  // (ReduceProgram). Its loops may have more turns, and all of them send what
  // the first turn sends.
  const program::Program* traced = nullptr;
  // How many ops each op outside of bodies stands for: the traffic is that of
  // all of them. One each if the list is empty (program::FoldRepeated).
  std::vector<int64_t> times = {};
};

struct ProgramError {
  const program::Op* op = nullptr;
  std::string message;  // starts in lower case, without a period
};

// The collectives of one op that have the same kind and axes.
struct ProgramTraffic {
  const program::Op* op = nullptr;
  Collective kind = Collective::kAllGather;
  AxisGroup axes;
  int64_t count = 0;
  // The bytes that the busiest device sends in all of them, in the dtype that
  // the program gives the value.
  int64_t bytes = 0;
};

// A value of a program on the mesh. In the body of a manual region it has no
// spec, and its shape is that of a device.
using ProgramValues = std::vector<ShardedTensor>;

// A function that is called after each op outside of bodies, before the values
// that no later op reads are freed. Returns whether the run goes on.
using AfterProgramOp =
    std::function<bool(const program::Op& op, const ProgramValues& values)>;

struct ProgramRun {
  // Indexed by ValueId; only the program's results are kept.
  ProgramValues values;
  std::vector<ProgramTraffic> traffic;  // in the order of the program
  std::optional<ProgramError> error;    // why the run ended early
};

// Runs a program. RunFault() must be empty for it, and the mesh must have the
// axes of its manual regions (RegionMismatch).
ProgramRun RunProgram(Machine& machine, const ProgramInputs& inputs,
                      const AfterProgramOp& after = {});

// Returns the first manual region with an axis that the mesh lacks or has in
// another size; nullopt if there is none.
std::optional<ProgramError> RegionMismatch(const program::Program& program,
                                           const SimMesh& mesh);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_PROGRAM_RUN_H_
