// Directory: exec/program. A traced program on the simulated mesh: its ops on
// shards, and the collectives between them.
// Its files include headers of these directories: source, program, comm,
// exec/machine.
//
// This header declares an op on the shards of one device. All buffers are F64,
// whatever the dtypes of the program: integers wrap at their dtype's range, and
// floats are not rounded.
#ifndef SHARDC_EXEC_PROGRAM_LOCAL_H_
#define SHARDC_EXEC_PROGRAM_LOCAL_H_

#include <functional>
#include <vector>

#include "exec/machine/buffer.h"
#include "program/program.h"

namespace shardc::exec {

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

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_PROGRAM_LOCAL_H_
