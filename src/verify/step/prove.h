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

#include "exec/machine/ledger.h"
#include "exec/machine/seams.h"
#include "exec/machine/transport.h"
#include "exec/step/run.h"
#include "model/dtype.h"
#include "model/mesh.h"
#include "step/program.h"
#include "verify/step/data.h"

namespace shardc::verify {

// Returns inputs and all values that the dense reference computes from them.
StepData MakeReference(const step::Graph& graph, const step::Sizes& sizes,
                       Dtype dtype, uint64_t seed);

struct StepProblem;

struct StepCase {
  const step::Graph* graph = nullptr;
  const step::Program* program = nullptr;
  // The same graph lowered for one device: its error is that of the dtype.
  const step::Program* alone = nullptr;
  Mesh mesh = {};
  step::Sizes sizes = {};
  Dtype dtype = Dtype::kF64;
  uint64_t seed = 0;
  int threads = 1;
  // Between ranks that hold the devices; null: this process holds all.
  exec::Transport* transport = nullptr;
  // The number of further random inputs on which one device's error is measured
  // if a value of a narrow dtype narrowly misses its tolerance.
  uint64_t more_sets = 4;
  exec::Seams seams = {};
  // The program that is run in place of `program`, with an injected fault.
  const step::Program* run = nullptr;
  // If set, runs the program on the ranks of a pipeline in place of one
  // machine, and checks the bytes sent. Returns nothing after problems.
  std::function<std::optional<exec::StepRun>(
      const exec::SimMesh&, const exec::Seams&, const exec::StepInputs&,
      std::vector<StepProblem>&)>
      execute = {};
  // The reference of an earlier case with the same graph, sizes, dtype and
  // seed.
  const StepData* reference = nullptr;
  // Changes the devices' inputs, for an injected fault.
  std::function<void(exec::StepInputs&)> spoil = {};
  // Called with each compared value, gathered, and each input: its op, the
  // devices' result and the reference.
  std::function<void(int32_t, const exec::Buffer&, const std::vector<double>&)>
      compared = {};
  // Called with the slots and the ledger of the run.
  std::function<void(const exec::StepRun&, const exec::Ledger&)> watch = {};
};

// `error` is relative to the largest element of the value; for integers it is 0
// or 1.
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
  kStages,  // the tasks of a pipeline
};
std::string_view StepCheckName(StepCheck check);  // "form"

struct StepProblem {
  StepCheck check = StepCheck::kForm;
  int32_t op = -1;
  std::string message = {};
};

struct StepProof {
  std::vector<ValueError> values = {};     // by ValueId
  std::vector<StepProblem> problems = {};  // the first names the op at fault
  int64_t gradients = 0, updates = 0, caches = 0;
  // The op that overflows the dtype on one device too, or -1; no value is
  // judged then.
  int32_t overflow = -1;
  // The bytes that devices sent, and those that ranks exchanged for them.
  exec::Ledger ledger = {};
  bool Holds() const { return problems.empty() && overflow < 0; }
  bool Failed(StepCheck check) const;
};
StepProof ProveStep(const StepCase& test);

// Returns the bytes of a proof on the rank that holds most, or INT64_MAX if
// they overflow.
int64_t ProofBytes(const StepCase& test);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_PROVE_H_
