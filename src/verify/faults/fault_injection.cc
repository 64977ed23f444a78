#include "verify/faults/fault_injection.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "source/wording.h"

namespace shardc::verify {
namespace {

// What a run came to, of a case or of a trace.
struct Outcome {
  Status status = Status::kPass;
  std::optional<Check> failed;
};

Outcome RunProbe(const Probe& probe, const RunOptions& options, bool wrong) {
  if (probe.trace) {
    const CacheTraceResult result = RunCacheTrace(*probe.trace, options);
    return {result.status, result.failed};
  }
  if (probe.paged) {
    const CacheTraceResult result = RunPagedTrace(*probe.paged, options);
    return {result.status, result.failed};
  }
  Case test = probe.test;
  if (wrong && probe.make_wrong) probe.make_wrong(test);
  const CaseResult result = RunCase(test, options);
  return {result.status, result.failed};
}

// Whether verification notices, and by what.
bool Notices(const Probe& probe, const Outcome& outcome, std::string& by) {
  by = CheckName(outcome.failed.value_or(Check::kUnsupported));
  if (probe.trace) {
    return outcome.status !=
           (probe.must_refuse ? Status::kUnsupported : Status::kPass);
  }
  if (probe.must_refuse) return outcome.status == Status::kUnsupported;
  return outcome.status != Status::kPass;
}

FaultVerdict Try(const InjectedFault& injected, const Checks& checks) {
  FaultVerdict out;
  out.name = injected.name;
  out.family = injected.family;
  for (const Probe& probe : injected.probes) {
    const Status clean =
        probe.trace && probe.must_refuse ? Status::kUnsupported : Status::kPass;
    if (RunProbe(probe, {}, false).status != clean) {
      out.sound = false;
      return out;
    }
    RunOptions options;
    options.checks = checks;
    options.fault = injected.fault;
    if (Notices(probe, RunProbe(probe, options, true), out.by)) {
      out.caught = true;
      return out;
    }
  }
  out.by.clear();
  return out;
}

}  // namespace

int64_t SelfTest::Caught() const {
  return std::count_if(faults.begin(), faults.end(),
                       [](const FaultVerdict& f) { return f.caught; });
}

bool SelfTest::Sound() const {
  return std::all_of(faults.begin(), faults.end(),
                     [](const FaultVerdict& f) { return f.sound; });
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
  std::atomic<size_t> next{0};
  std::mutex lock;
  size_t done = 0;
  const auto work = [&] {
    while (true) {
      const size_t i = next.fetch_add(1);
      if (i >= catalogue.size()) return;
      out.faults[i] = Try(catalogue[i], checks);
      const std::lock_guard<std::mutex> guard(lock);
      if (progress) progress(++done, catalogue.size());
    }
  };
  std::vector<std::thread> pool;
  for (int i = 1; i < threads; ++i) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  return out;
}

std::string SelfTestText(const SelfTest& result) {
  size_t widest = 0;
  for (const FaultVerdict& f : result.faults) {
    widest = std::max(widest, f.name.size());
  }
  std::string out;
  for (const FaultVerdict& f : result.faults) {
    out += f.name;
    out.append(widest - f.name.size() + 2, ' ');
    out += !f.sound   ? "its clean run fails"
           : f.caught ? "caught by " + f.by
                      : "MISSED";
    out += '\n';
  }
  out += '\n' + Counted(static_cast<int64_t>(result.faults.size()), "fault") +
         " injected, " + std::to_string(result.Caught()) + " caught\n";
  return out;
}

}  // namespace shardc::verify
