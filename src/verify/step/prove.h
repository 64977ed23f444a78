// Runs a step's program, usually at reduced sizes, and compares all values with
// the dense reference.
#ifndef SHARDC_VERIFY_STEP_PROVE_H_
#define SHARDC_VERIFY_STEP_PROVE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dense/step.h"
#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"
#include "exec/step/run.h"
#include "model/dtype.h"
#include "model/mesh.h"
#include "model/step_graph.h"
#include "step/program.h"

namespace shardc::verify {

// The inputs on which a step is run: parameters, moments, tokens and caches.

// The inputs of the devices, in `dtype`, and the same numbers for the dense
// reference.
struct StepData {
  exec::StepInputs inputs = {};
  dense::StepValues<double> values = {};
};
// Creates the inputs of a step. They are chosen so that mistakes change
// results. Weights of norms are not 1 and biases are not 0. Rows have different
// numbers of tokens, so that the mean of the rows' means differs from the mean
// over all tokens. Unused cache rows hold large numbers. Second moments have a
// lower bound, so that updates are well conditioned.
StepData MakeStepData(const step::Graph& graph, const step::Sizes& sizes,
                      Dtype dtype, uint64_t seed);

// Returns the largest absolute difference of two elements. It is infinity if a
// number is not finite and differs from the other number.
double Difference(const exec::Buffer& got, const std::vector<double>& want);
// Returns the largest absolute difference on the devices of this rank
// (process). Only one replica is compared, since another check compares
// replicas with each other.
double DifferenceHere(const exec::SimMesh& mesh,
                      const exec::ShardedTensor& tensor,
                      const std::vector<double>& want);
// Gathers a tensor on every rank, even if replicas differ: the last replica is
// then used. `transport` is null if this process holds all devices.
exec::Buffer GatherAnyway(const exec::SimMesh& mesh, exec::Transport* transport,
                          const exec::ShardedTensor& tensor);

// Returns random inputs, and all values that the dense reference computes from
// these inputs.
StepData MakeReference(const step::Graph& graph, const step::Sizes& sizes,
                       Dtype dtype, uint64_t seed);

struct StepProblem;

struct StepCase {
  const step::Graph* graph = nullptr;
  const step::Program* program = nullptr;
  // The same graph lowered for one device, or null. The difference of its
  // results from the reference is used as the rounding error of the dtype,
  // which determines the tolerances. Float64 uses it only if values narrowly
  // miss the tolerance.
  const step::Program* alone = nullptr;
  Mesh mesh = {};
  step::Sizes sizes = {};
  Dtype dtype = Dtype::kF64;
  uint64_t seed = 0;
  int threads = 1;
  // The communication between the ranks (processes) that hold the devices. Null
  // if this process holds all devices.
  exec::Transport* transport = nullptr;
  // The number of further random inputs on which the error of one device is
  // measured. They are used only if a value in a narrow dtype narrowly misses
  // its tolerance.
  uint64_t more_sets = 4;
  exec::Seams seams = {};
  // A program with an injected fault, which is run in place of `program`.
  const step::Program* run = nullptr;
  // If set, this function runs the program on the ranks of a pipeline, and
  // checks the bytes sent. If not set, the program runs without a pipeline. The
  // function returns nullopt after it has appended problems.
  std::function<std::optional<exec::StepRun>(
      const exec::SimMesh&, const exec::Seams&, const exec::StepInputs&,
      std::vector<StepProblem>&)>
      execute = {};
  // The inputs and reference of an earlier case with the same graph, sizes,
  // dtype and seed, or null.
  const StepData* reference = nullptr;
  // A function that changes the devices' inputs, to inject a fault.
  std::function<void(exec::StepInputs&)> spoil = {};
  // A function that is called with each input and each compared value. Its
  // arguments are the value's op, the result gathered from the devices, and the
  // reference.
  std::function<void(int32_t, const exec::Buffer&, const std::vector<double>&)>
      compared = {};
  // A function that is called after the run with its slots (values in one
  // sharding) and its ledger (the bytes sent).
  std::function<void(const exec::StepRun&, const exec::Ledger&)> watch = {};
};

// The error and the tolerance of a value, relative to the largest element of
// its reference. Values of the backward pass and of the optimizer are measured
// relative to at least 1% of the largest gradient, unless they are
// rematerialised. The tolerance of integers is 0.
struct ValueError {
  bool judged = false;
  double error = 0;
  double allowed = 0;
};

enum class StepCheck : uint8_t {
  kForm,
  kStatic,
  kConstraints,
  kReplicas,
  kResults,
  kLedger,
  // In a pipeline, each instruction runs once, on a rank that holds the values
  // that the instruction reads. No rank waits for ever.
  kStages,
};
std::string_view StepCheckName(StepCheck check);  // "form"

struct StepProblem {
  StepCheck check = StepCheck::kForm;
  int32_t op = -1;
  std::string message = {};
};

struct StepProof {
  std::vector<ValueError> values = {};  // indexed by ValueId
  // The first problem names the op that causes the failure.
  std::vector<StepProblem> problems = {};
  int64_t gradients = 0, updates = 0, caches = 0;
  // The op whose result overflows the dtype even on one device, or -1. If an op
  // overflows, no value is checked.
  int32_t overflow = -1;
  // For each collective, the bytes that devices send by the formula of the
  // collective. Also has the bytes that ranks (processes) really exchanged.
  exec::Ledger ledger = {};
  bool Holds() const { return problems.empty() && overflow < 0; }
  bool Failed(StepCheck check) const;
};
StepProof ProveStep(const StepCase& test);

// Returns true if the run of a case frees each value after its last reader.
// Returns false if a caller reads the values, or if a fault is injected, since
// a fault may change the order of readers.
bool FreesSlots(const StepCase& test);

// Returns the most bytes that a proof holds at the same time, on the rank that
// holds most, or INT64_MAX if they overflow. A value is freed after its last
// reader, and its bytes no longer count.
int64_t ProofBytes(const StepCase& test);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_PROVE_H_
