// Runs a step's program at small sizes and compares everything it makes with
// the dense reference.
#ifndef SHARDC_VERIFY_STEP_PROVE_H_
#define SHARDC_VERIFY_STEP_PROVE_H_

#include <cstdint>
#include <functional>
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

// Inputs, and with them everything that the dense model makes of them.
StepData MakeReference(const step::Graph& graph, const step::Sizes& sizes,
                       Dtype dtype, uint64_t seed);

struct StepCase {
  const step::Graph* graph = nullptr;
  const step::Program* program = nullptr;
  // Of the same graph on one device: what the dtype costs by itself.
  const step::Program* alone = nullptr;
  Mesh mesh = {};
  step::Sizes sizes = {};
  Dtype dtype = Dtype::kF64;
  uint64_t seed = 0;
  int threads = 1;
  // Between ranks that hold the devices; null: all are held here.
  exec::Transport* transport = nullptr;
  // Of how many more sets of numbers one device's errors are taken where a
  // value of a narrow dtype is beyond its limit.
  uint64_t more_sets = 4;
  exec::Seams seams = {};
  // What is run where it is not `program`: a fault's.
  const step::Program* run = nullptr;
  // Of an earlier case with the same graph, sizes, dtype and seed.
  const StepData* reference = nullptr;
  // Makes what the devices are given wrong.
  std::function<void(exec::StepInputs&)> spoil = {};
  // Is shown each value that is compared, whole, and each input: its op, what
  // the devices made of it and the reference's.
  std::function<void(int32_t, const exec::Buffer&, const std::vector<double>&)>
      compared = {};
  // Is shown what the run made.
  std::function<void(const exec::StepRun&, const exec::Ledger&)> watch = {};
};

// `error` is relative to the value's scale; a whole number's is 0 or 1.
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
  kLedger
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
  // The op whose numbers the dtype cannot hold on one device either; nothing is
  // judged then.
  int32_t overflow = -1;
  // What all devices sent, and what ranks handed over for it.
  exec::Ledger ledger = {};
  bool Holds() const { return problems.empty() && overflow < 0; }
  bool Failed(StepCheck check) const;
};
StepProof ProveStep(const StepCase& test);

// What a proof holds at once, on the rank that holds most; the largest number
// where that is beyond counting.
int64_t ProofBytes(const StepCase& test);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_PROVE_H_
