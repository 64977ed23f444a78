// The catalogue of faults: each is injected in turn, and verification must
// notice it. A fault that nobody notices is a hole in verification itself; one
// that changes nothing was not injected, and shows nothing.
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

// One attempt to show a fault: an attention or a trace, right as it stands,
// and wrong with the fault injected or with wrong specs.
struct Probe {
  Case test;
  // In place of `test`, one of:
  std::optional<CacheTrace> trace;
  std::optional<PagedTrace> paged;
  // Makes the specs or sizes wrong; empty: the fault is in the program.
  std::function<void(Case&)> make_wrong;
  // What is wrong (a trace: as it stands) must be refused: running it at all
  // is the fault.
  bool must_refuse = false;
};

struct InjectedFault {
  std::string_view name;      // "ring-one-step-short"
  std::string_view family;    // "spec", "collective", "index", "cache", ...
  Injection injection;        // nothing: the specs are wrong
  std::vector<Probe> probes;  // tried in order until one shows it
};

// Those of pages and of the latent.
std::vector<InjectedFault> PagedFaults();
// Those of dtypes, quantised matmuls and softmax in 16 bits.
std::vector<InjectedFault> NarrowFaults();
// The whole catalogue; the same on every call.
std::vector<InjectedFault> FaultCatalogue();

struct FaultVerdict {
  std::string name, family;
  bool sound = true;      // the probes pass without the fault
  bool injected = false;  // a buffer, a table or the ledger is not as without
  bool caught = false;
  std::string by;  // the check that caught it
};

struct SelfTest {
  std::vector<FaultVerdict> faults;
  int64_t Injected() const;
  int64_t Caught() const;
  // Every fault was injected into a program that is right, and caught.
  bool Holds() const;
};

// Injects one fault into its probes.
FaultVerdict TryFault(const InjectedFault& fault, const Checks& checks = {});

using SelfTestProgress = std::function<void(size_t done, size_t all)>;

// With `checks` left out, faults that only those notice are missed. `only`
// names the faults to inject; empty: all of them.
SelfTest RunSelfTest(const Checks& checks, int threads,
                     const SelfTestProgress& progress = {},
                     const std::set<std::string>& only = {});

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_FAULTS_FAULT_INJECTION_H_
