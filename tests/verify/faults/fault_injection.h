// Injects the faults of the catalogue one after the other. Verification must
// detect each of them. A fault that is missed reveals a gap in verification. A
// fault that has no effect on the run was not really injected, and proves
// nothing.
#ifndef SHARDC_TESTS_VERIFY_FAULTS_FAULT_INJECTION_H_
#define SHARDC_TESTS_VERIFY_FAULTS_FAULT_INJECTION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "verify/cases/case.h"
#include "verify/faults/injection.h"
#include "verify/judge/run_case.h"
#include "verify/traces/cache_trace.h"

namespace shardc::verify {

// A case or trace that should reveal a fault: it passes without the fault, and
// fails with the fault injected or with wrong specs.
struct Probe {
  Case test;
  // A trace over a KV cache, or over pages. If one is set, it runs in place of
  // `test`.
  std::optional<CacheTrace> trace;
  std::optional<PagedTrace> paged;
  // A function that makes the specs or sizes of the case wrong. If empty, the
  // fault is in the program.
  std::function<void(Case&)> make_wrong;
  // True if a refusal is expected. A case must be refused with the fault, which
  // shows that the fault is detected. A trace must be refused without the
  // fault. With the fault the trace must run, and a check must then fail.
  bool must_refuse = false;
};

struct InjectedFault {
  std::string_view name;    // such as "ring-one-step-short"
  std::string_view family;  // such as "spec", "collective" or "cache"
  // Empty if the fault is wrong specs or sizes of the probes.
  Injection injection;
  std::vector<Probe> probes;  // run in order, until one reveals the fault
};

// Returns the faults of pages and of latent attention.
std::vector<InjectedFault> PagedFaults();
// Returns the faults of dtypes, quantised matmuls and softmax in 16 bits.
std::vector<InjectedFault> NarrowFaults();
// Returns the complete catalogue, the same on every call.
std::vector<InjectedFault> FaultCatalogue();

struct FaultVerdict {
  std::string name, family;
  bool sound = true;  // true: all probes pass without the fault
  // Whether the fault changes a buffer, a table or the bytes sent.
  bool injected = false;
  bool caught = false;
  std::string by;  // name of the check that detected the fault
};

struct SelfTest {
  std::vector<FaultVerdict> faults;
  int64_t Injected() const;
  int64_t Caught() const;
  // Returns true if every fault was injected into a correct program and was
  // detected.
  bool Holds() const;
};

// Runs the probes of a fault with and without the fault.
FaultVerdict TryFault(const InjectedFault& fault, const Checks& checks = {});

using SelfTestProgress = std::function<void(size_t done, size_t all)>;

// Injects all faults, or only the faults named in `only` if it is not empty. If
// `checks` lacks a check, faults that only this check detects are missed.
SelfTest RunSelfTest(const Checks& checks, int threads,
                     const SelfTestProgress& progress = {},
                     const std::set<std::string>& only = {});

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_FAULTS_FAULT_INJECTION_H_
