// The table of the faults of pipelines, and their self-test. A fault changes a
// copy of the schedule's table, of the programs of sends and receives, or of
// the division of the layers, or it changes the run. Three proofs then use the
// changed copies: of the order of tasks, of the channels, and of the values
// (called `algebra`). The table lists which proofs must detect a fault. For
// example, the fault weight-before-input exchanges `0W0` and `0I0` in zb-h1.
// The proofs of the order and of the values must detect it.
#include "verify/step/staged_faults.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "schedule/order.h"
#include "schedule/schedules.h"
#include "source/process.h"
#include "source/size.h"
#include "verify/step/staged_breaks.h"
#include "verify/step/staged_cases.h"

namespace shardc::verify {
namespace {

// The proofs that must detect a fault, as bits: of the order, of the channels,
// and of the values (algebra).
constexpr unsigned kOrder = 1, kChannels = 2, kAlgebra = 4;

std::string_view ProofNames(unsigned proofs) {
  static constexpr std::array<std::string_view, 8> kNames = {
      "",
      "order",
      "channels",
      "order and channels",
      "algebra",
      "order and algebra",
      "channels and algebra",
      "order, channels and algebra"};
  return kNames[proofs];
}

using BreakAction = bool (*)(const StagedCase&, Broken&);

struct StagedFault {
  std::string_view name, breaks;
  std::string_view schedule;
  std::string_view seam;  // "table"
  unsigned by = 0;
  BreakAction inject = nullptr;
};

constexpr std::array<StagedFault, 26> kFaults = {{
    {"receives-swapped", "two receives expect each other's micro-batch", "1f1b",
     "message", kChannels | kAlgebra, breaks::SwapReceives},
    {"sends-swapped", "messages are sent in another order than received",
     "gpipe", "message", kChannels | kAlgebra, breaks::SwapSends},
    {"no-receive", "a message is never received", "1f1b", "message",
     kChannels | kAlgebra, breaks::NoReceive},
    {"no-send", "a message is never sent", "1f1b", "message",
     kChannels | kAlgebra, breaks::NoSend},
    {"sent-elsewhere", "a message is sent to another rank", "dualpipev",
     "message", kChannels | kAlgebra, breaks::OtherRank},
    {"backward-first", "B runs before F", "1f1b", "table", kOrder | kAlgebra,
     breaks::BackwardFirst},
    {"chunks-exchanged", "a rank runs its two stages in each other's place",
     "interleaved", "table", kOrder, breaks::ExchangeChunks},
    {"weight-dropped", "a W is missing", "zb-h1", "table", kOrder | kAlgebra,
     breaks::DropWeight},
    {"weight-before-input", "W runs before its I", "zb-h1", "table",
     kOrder | kAlgebra, breaks::WeightFirst},
    {"forward-twice", "F runs twice", "1f1b", "table", kOrder | kAlgebra,
     breaks::ForwardTwice},
    {"backward-twice", "B runs twice", "1f1b", "table", kOrder | kAlgebra,
     breaks::BackwardTwice},
    {"never-back", "a micro-batch has no backward tasks", "1f1b", "table",
     kOrder | kAlgebra, breaks::NeverBack},
    {"rank-without-stage", "a task runs on a rank that lacks its stage", "1f1b",
     "table", kOrder | kAlgebra, breaks::WrongRank},
    {"ranks-in-a-cycle", "two ranks wait for each other", "1f1b", "table",
     kOrder, breaks::Cycle},
    {"sends-one-by-one", "sends wait for receives that stand at their use",
     "1f1b", "message", kChannels, breaks::OneByOne},
    {"one-channel", "activations and gradients share a channel", "zbv",
     "message", kChannels | kAlgebra, breaks::OneChannel},
    {"tied-gradient-local", "the gradient of a tied embedding is not reduced",
     "1f1b", "run", kAlgebra, breaks::OwnAlone},
    {"copies-local", "the gradients of a stage's two copies are not reduced",
     "dualpipe", "run", kAlgebra, breaks::OwnAlone},
    {"means-of-micro-batches", "each micro-batch's loss is a mean of its own",
     "1f1b", "run", kAlgebra, breaks::MeanOfMeans},
    {"loss-divided-twice", "the loss is divided by the micro-batches twice",
     "1f1b", "run", kAlgebra, breaks::DividedTwice},
    {"weights-change-within", "weights change before the last micro-batch",
     "1f1b", "run", kAlgebra, breaks::ChangeWeights},
    {"too-few-slots", "activations of a micro-batch overwrite another's",
     "gpipe", "run", kAlgebra, breaks::FewSlots},
    {"norm-counts-copies", "a tied parameter counts twice in the norm", "1f1b",
     "run", kAlgebra, breaks::NormTwice},
    {"data-parallel-twice", "gradients are added over replicas twice", "1f1b",
     "run", kAlgebra, breaks::DataTwice},
    {"layer-in-no-stage", "no stage has the first layer", "1f1b", "division",
     kAlgebra, breaks::InNoStage},
    {"layer-in-two-stages", "two stages have a layer", "1f1b", "division",
     kAlgebra, breaks::InTwoStages},
}};

// Returns the proofs, as bits, that detect the fault. Sets `at` to the op at
// which the comparison of values detects it.
unsigned Detected(const StagedCase& of, Broken& broken, std::string& at) {
  unsigned out = 0;
  const bool orderly = schedule::CheckOrder(broken.table).empty();
  if (!orderly) out |= kOrder;
  if (broken.programs.empty()) broken.programs = LoweredInTurn(broken.table);
  if (orderly &&
      !schedule::RunChannels(broken.programs, broken.capacity, broken.scope)
           .passes) {
    out |= kChannels;
  }
  const StepProof proof = of.Prove({.table = &broken.table,
                                    .programs = &broken.programs,
                                    .step = &broken.step,
                                    .scope = broken.scope,
                                    .seams = broken.seams,
                                    .faults = broken.faults},
                                   nullptr);
  if (proof.Holds()) return out;
  const int32_t op = proof.problems.front().op;
  if (op >= 0) at = of.graph.ops[AsIndex(op)].name;
  return out | kAlgebra;
}

StepFaultVerdict Try(const StagedFault& fault, const StagedCase* of) {
  StepFaultVerdict out{.name = fault.name,
                       .family = "pipeline",
                       .breaks = fault.breaks,
                       .on = fault.schedule,
                       .seam = fault.seam,
                       .injected = false,
                       .caught = false,
                       .by = {},
                       .at = {}};
  if (of == nullptr) return out;
  Broken broken{.table = of->step.table, .step = of->step};
  out.injected = fault.inject(*of, broken);
  if (!out.injected) return out;
  const unsigned found = Detected(*of, broken, out.at);
  out.caught = (found & fault.by) == fault.by;
  out.by = ProofNames(out.caught ? fault.by : found);
  return out;
}

}  // namespace

size_t StagedFaultCount() { return kFaults.size(); }

void AddStagedSelfTest(int threads, const StepSelfTestProgress& progress,
                       StepSelfTest& out) {
  const auto schedules = schedule::Schedules();
  std::vector<std::unique_ptr<StagedCase>> cases(schedules.size());
  std::map<std::string_view, const StagedCase*> sound;
  ParallelFor(static_cast<int64_t>(schedules.size()), threads, [&](int64_t i) {
    cases[AsIndex(i)] =
        MakeStagedCase(SmallStagedCase(schedules[AsIndex(i)].name));
    auto& of = cases[AsIndex(i)];
    if (of != nullptr && !of->Prove({}, nullptr).Holds()) of.reset();
  });
  for (size_t i = 0; i < cases.size(); ++i) {
    sound[schedules[i].name] = cases[i].get();
    if (cases[i] != nullptr) {
      ++out.sound;
    } else {
      out.unsound.push_back(schedules[i].name);
    }
  }
  const size_t before = out.faults.size();
  out.faults.resize(before + kFaults.size());
  std::mutex lock;
  size_t done = before;
  ParallelFor(static_cast<int64_t>(kFaults.size()), threads, [&](int64_t i) {
    const StagedFault& fault = kFaults[AsIndex(i)];
    out.faults[before + AsIndex(i)] = Try(fault, sound.at(fault.schedule));
    const std::lock_guard<std::mutex> guard(lock);
    if (progress) progress(++done, before + kFaults.size());
  });
}

}  // namespace shardc::verify
