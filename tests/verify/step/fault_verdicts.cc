// Tests that the proof of steps detects faults. Correct cases are built and
// proved once. Each fault is then injected into a run of one case. The fault
// was injected if it changes a digest of the run's values and of the bytes
// sent. It was detected if the expected check reports it. For example, the
// fault no-row-ar skips an all_reduce in the case `tensor`:
//
//   injected, detected by the check of the sharding constraints at `linear o`
#include "verify/step/fault_verdicts.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "source/process.h"
#include "source/size.h"
#include "verify/faults/evidence.h"

namespace shardc::verify {
namespace {

struct Proved {
  std::unique_ptr<SoundCase> of;
  Evidence evidence;
  bool sound = false;
};

StepProof Run(const SoundCase& of, StepCase test, Evidence& evidence) {
  const size_t slots = of.program.slots.size();
  test.watch = [&](const exec::StepRun& run, const exec::Ledger& ledger) {
    for (size_t i = 0; i < slots; ++i) {
      evidence.Add(std::span<const exec::Buffer>(run.slots[i]));
    }
    evidence.Add(ledger);
  };
  return ProveStep(test);
}

Proved Prove(SoundStep which) {
  Proved out;
  out.of = MakeSoundCase(which);
  if (out.of == nullptr) return out;
  out.sound = Run(*out.of, out.of->Case(), out.evidence).Holds();
  return out;
}

void Take(const SoundCase& of, const StepFault& fault, const StepProof& proof,
          StepFaultVerdict& out) {
  out.caught = proof.Failed(fault.by);
  for (const StepProblem& problem : proof.problems) {
    if (out.caught && problem.check != fault.by) continue;
    out.by = StepCheckName(problem.check);
    if (problem.op >= 0) {
      out.at = of.graph.ops[AsIndex(problem.op)].name;
    }
    return;
  }
}

StepFaultVerdict Try(const StepFault& fault, const Proved& sound) {
  StepFaultVerdict out{.name = fault.name,
                       .family = fault.family,
                       .breaks = fault.breaks,
                       .on = SoundStepName(fault.on),
                       .seam = FaultSeamName(fault.seam),
                       .injected = false,
                       .caught = false,
                       .by = {},
                       .at = {}};
  Wrong wrong;
  if (!sound.sound || !fault.inject(*sound.of, wrong)) return out;
  StepCase test = sound.of->Case();
  test.seams = wrong.seams;
  test.spoil = wrong.inputs;
  if (wrong.declared) test.program = &*wrong.declared;
  if (wrong.run) test.run = &*wrong.run;
  Evidence evidence;
  const StepProof proof = Run(*sound.of, test, evidence);
  out.injected = !(evidence == sound.evidence);
  if (out.injected) Take(*sound.of, fault, proof, out);
  return out;
}

}  // namespace

int64_t StepSelfTest::Injected() const {
  return std::count_if(faults.begin(), faults.end(),
                       [](const auto& fault) { return fault.injected; });
}
int64_t StepSelfTest::Caught() const {
  return std::count_if(faults.begin(), faults.end(),
                       [](const auto& fault) { return fault.caught; });
}
bool StepSelfTest::Holds() const {
  const auto all = static_cast<int64_t>(faults.size());
  return unsound.empty() && Injected() == all && Caught() == all;
}

StepSelfTest RunStepSelfTest(const std::vector<StepFault>& faults, int threads,
                             const StepSelfTestProgress& progress) {
  std::array<Proved, kSoundSteps> cases;
  ParallelFor(kSoundSteps, threads, [&](int64_t i) {
    cases[AsIndex(i)] = Prove(static_cast<SoundStep>(i));
  });
  StepSelfTest out;
  for (int i = 0; i < kSoundSteps; ++i) {
    if (cases[AsIndex(i)].sound) {
      ++out.sound;
    } else {
      out.unsound.push_back(SoundStepName(static_cast<SoundStep>(i)));
    }
  }
  out.faults.resize(faults.size());
  std::mutex lock;
  size_t done = 0;
  ParallelFor(static_cast<int64_t>(faults.size()), threads, [&](int64_t task) {
    const StepFault& fault = faults[AsIndex(task)];
    out.faults[AsIndex(task)] =
        Try(fault, cases[static_cast<size_t>(fault.on)]);
    const std::lock_guard<std::mutex> guard(lock);
    if (progress) progress(++done, faults.size());
  });
  return out;
}

}  // namespace shardc::verify
