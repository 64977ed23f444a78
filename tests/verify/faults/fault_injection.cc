// Injects the faults of the catalogue, to test that verification detects them.
// A fault has one or more probes. A probe is a small case or trace that should
// reveal the fault. It runs twice: without the fault and with it. The fault is
// detected if some probe passes without it and fails with it. For example, a
// probe passes, and with the fault its check `replicas` fails.
//
// If a probe fails without the fault, it proves nothing. The verdict is then
// unsound.
//
// Some probes expect that the operation refuses to run (`must_refuse`). A case
// of this kind must pass without the fault, and be refused with it. A trace of
// this kind must be refused without the fault. With the fault, the trace must
// run, and a check must then fail.
#include "verify/faults/fault_injection.h"

#include <algorithm>
#include <mutex>

#include "source/process.h"
#include "source/size.h"
#include "source/wording.h"
#include "verify/faults/evidence.h"

namespace shardc::verify {
namespace {

struct Outcome {
  Status status = Status::kPass;
  std::optional<Check> failed;
  std::string reason;
  Evidence evidence;
};

template <class Result>
void TakeDown(const Result& result, Outcome& out) {
  out.status = result.status;
  out.failed = result.failed;
  out.reason = result.reason;
  out.evidence.Add(static_cast<uint64_t>(result.status));
  out.evidence.Add(result.reason);
  out.evidence.Add(result.ledger);
}

// Runs a probe. Injects `fault` if it is not null.
Outcome RunProbe(const Probe& probe, const Checks& checks,
                 const InjectedFault* fault) {
  Outcome out;
  RunOptions options;
  options.checks = checks;
  if (fault != nullptr) Inject(fault->injection, options);
  options.seams = Watched(options.seams, out.evidence);
  if (probe.trace) {
    TakeDown(RunCacheTrace(*probe.trace, options), out);
  } else if (probe.paged) {
    TakeDown(RunPagedTrace(*probe.paged, options), out);
  } else {
    Case test = probe.test;
    if (fault != nullptr && probe.make_wrong) probe.make_wrong(test);
    TakeDown(RunCase(test, options), out);
  }
  return out;
}

// Returns true if verification detects the fault and reports a reason. Sets
// `by` to the check that detected it.
bool Detects(const Probe& probe, const Outcome& outcome, std::string& by) {
  if (outcome.reason.empty()) return false;
  by = CheckName(outcome.failed.value_or(Check::kUnsupported));
  if (probe.trace) {
    return outcome.status !=
           (probe.must_refuse ? Status::kUnsupported : Status::kPass);
  }
  if (probe.must_refuse) return outcome.status == Status::kUnsupported;
  return outcome.status != Status::kPass;
}

}  // namespace

FaultVerdict TryFault(const InjectedFault& fault, const Checks& checks) {
  FaultVerdict out;
  out.name = fault.name;
  out.family = fault.family;
  for (const Probe& probe : fault.probes) {
    const Status clean =
        probe.trace && probe.must_refuse ? Status::kUnsupported : Status::kPass;
    if (RunProbe(probe, {}, nullptr).status != clean) {
      out.sound = false;
      return out;
    }
    // Both runs use the same checks. A run ends at the first check that fails.
    // With different checks, the runs and their evidence would therefore differ
    // even without a fault.
    const Outcome right = RunProbe(probe, checks, nullptr);
    const Outcome wrong = RunProbe(probe, checks, &fault);
    out.injected = out.injected || !(wrong.evidence == right.evidence);
    if (out.injected && Detects(probe, wrong, out.by)) {
      out.caught = true;
      return out;
    }
  }
  out.by.clear();
  return out;
}

int64_t SelfTest::Caught() const {
  return std::count_if(faults.begin(), faults.end(),
                       [](const FaultVerdict& f) { return f.caught; });
}

int64_t SelfTest::Injected() const {
  return std::count_if(faults.begin(), faults.end(),
                       [](const FaultVerdict& f) { return f.injected; });
}

bool SelfTest::Holds() const {
  return std::all_of(faults.begin(), faults.end(), [](const FaultVerdict& f) {
    return f.sound && f.injected && f.caught;
  });
}

SelfTest RunSelfTest(const Checks& checks, int threads,
                     const SelfTestProgress& progress,
                     const std::set<std::string>& only) {
  std::vector<InjectedFault> catalogue = FaultCatalogue();
  std::erase_if(catalogue, [&](const InjectedFault& fault) {
    return !only.empty() && !only.contains(std::string(fault.name));
  });
  SelfTest out;
  out.faults.resize(catalogue.size());
  std::mutex lock;
  size_t done = 0;
  ParallelFor(static_cast<int64_t>(catalogue.size()), threads,
              [&](int64_t task) {
                const auto i = AsIndex(task);
                out.faults[i] = TryFault(catalogue[i], checks);
                const std::lock_guard<std::mutex> guard(lock);
                if (progress) progress(++done, catalogue.size());
              });
  return out;
}

}  // namespace shardc::verify
