// Injects the faults of the catalogue one after the other. Verification must
// detect each of them. A fault that is missed reveals a gap in verification. A
// fault that changes nothing was not really injected, and proves nothing.
#ifndef SHARDC_VERIFY_FAULTS_FAULT_INJECTION_H_
#define SHARDC_VERIFY_FAULTS_FAULT_INJECTION_H_

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
#include "verify/traces/paged_trace.h"

namespace shardc::verify {

// A case or trace that should reveal a fault: it passes without the fault, and
// fails with the fault injected or with wrong specs.
struct Probe {
  Case test;
  // A trace of a cache or of pages, which is run in place of `test`.
  std::optional<CacheTrace> trace;
  std::optional<PagedTrace> paged;
  // Makes the specs or sizes of the case wrong. If empty, the fault is in the
  // program.
  std::function<void(Case&)> make_wrong;
  // Whether a refusal is expected. A case must be refused with the fault, which
  // shows that the fault is detected. A trace must be refused without the
  // fault; with it the trace must run, and the fault is detected if a check
  // then fails.
  bool must_refuse = false;
};

struct InjectedFault {
  std::string_view name;      // "ring-one-step-short"
  std::string_view family;    // "spec", "collective", "index", "cache", ...
  Injection injection;        // empty: the specs are wrong
  std::vector<Probe> probes;  // run in order until one shows the fault
};

// Returns the faults of pages and of the latent.
std::vector<InjectedFault> PagedFaults();
// Returns the faults of dtypes, quantised matmuls and softmax in 16 bits.
std::vector<InjectedFault> NarrowFaults();
// Returns the complete catalogue, the same on every call.
std::vector<InjectedFault> FaultCatalogue();

struct FaultVerdict {
  std::string name, family;
  bool sound = true;      // the probes pass without the fault
  bool injected = false;  // a buffer, a table or the ledger differs
  bool caught = false;
  std::string by;  // the check that detected it
};

struct SelfTest {
  std::vector<FaultVerdict> faults;
  int64_t Injected() const;
  int64_t Caught() const;
  // Returns whether every fault was injected into a correct program and was
  // detected.
  bool Holds() const;
};

// Runs the probes of a fault with and without the fault.
FaultVerdict TryFault(const InjectedFault& fault, const Checks& checks = {});

using SelfTestProgress = std::function<void(size_t done, size_t all)>;

// Injects all faults, or only those in `only` if it is not empty. If a check is
// absent from `checks`, faults that only this check detects are missed.
SelfTest RunSelfTest(const Checks& checks, int threads,
                     const SelfTestProgress& progress = {},
                     const std::set<std::string>& only = {});

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_FAULTS_FAULT_INJECTION_H_
