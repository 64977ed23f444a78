// Directory: dense/program. Runs a traced program on one device, in plain loops
// of doubles. It is the reference for sharded runs of the program.
// Its files include headers of these directories: source, program, dense.
//
// All numbers are doubles: floats are not rounded to their dtypes, and integers
// wrap at their dtype's range. The body of a manual region runs for all devices
// of the region's mesh, one op after the other.
#ifndef SHARDC_DENSE_PROGRAM_RUN_H_
#define SHARDC_DENSE_PROGRAM_RUN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dense/array.h"
#include "program/program.h"

namespace shardc::dense {

// Returns the elements of a value that the program does not determine: of a
// random op, or of a constant whose elements the program does not state.
using Drawn = std::function<std::vector<double>(program::ValueId)>;

struct ProgramFault {
  const program::Op* op = nullptr;
  std::string message;  // starts in lower case, without a period
};

// A value: one array, or in the body of a manual region one of each device.
using ProgramValue = std::vector<Array>;

struct ProgramRun {
  // Indexed by ValueId. Values of a loop's body are those of the last turn.
  std::vector<ProgramValue> values;
  std::optional<ProgramFault> fault;  // why the run ended early
};

// Runs a program op by op, so that values need not be kept that no later op
// reads. RunFault() must be empty for the program (program/read.h), which must
// outlive the object.
class ProgramSteps {
 public:
  // Returns an input by its number. Called when an op first reads it.
  using InputOf = std::function<Array(size_t)>;

  ProgramSteps(const program::Program& program, InputOf input, Drawn drawn);
  ~ProgramSteps();

  // Runs an op outside of bodies. Those before it must have run.
  void Run(const program::Op& op);
  // Frees the values that no op after this one reads and that are no results.
  void Free(const program::Op& op);
  // Runs all ops, and returns all values, or the results only.
  enum class Kept : uint8_t { kAll, kResults };
  ProgramRun RunAll(Kept kept);

  // Results that are inputs are in it after LoadResults() only.
  const ProgramRun& run() const;
  void LoadResults();

 private:
  class Runner;
  std::unique_ptr<Runner> runner_;
};

// Runs a program, and keeps all values. `inputs` has an array for each input.
// RunFault() must be empty for the program (program/read.h).
ProgramRun RunProgram(const program::Program& program,
                      const std::vector<Array>& inputs, const Drawn& drawn);

// Computes the results of an op without a body on one device. `out` has the
// shapes of the results, and its elements are set.
void RunProgramOp(const program::Program& program, const program::Op& op,
                  const std::vector<const Array*>& in, const Drawn& drawn,
                  std::vector<Array>& out);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_PROGRAM_RUN_H_
