#include "verify/faults/fault_injection.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <set>
#include <string>

#include <vector>
#include "verify/score.h"

#include "exec/machine/collectives.h"

namespace shardc::verify {
namespace {

TEST_CASE("every fault of the catalogue is detected") {
  const SelfTest result = RunSelfTest({}, 2);
  std::set<std::string> names;
  for (const FaultVerdict& fault : result.faults) {
    CHECK_MESSAGE(fault.sound, fault.name << ": fails without the fault");
    CHECK_MESSAGE(fault.injected, fault.name << " is not injected");
    CHECK_MESSAGE(fault.caught, fault.name << " is missed");
    CHECK(names.insert(fault.name).second);
  }
  CHECK(result.faults.size() >= 60);
  MESSAGE(SelfTestText(result));
}

Probe RingProbe() {
  for (InjectedFault& fault : FaultCatalogue()) {
    if (fault.name == "value-not-shifted") return fault.probes.front();
  }
  FAIL("no such fault");
  return {};
}

TEST_CASE("a decorator that changes nothing is not injected") {
  InjectedFault idle{"idle", "collective", {}, {RingProbe()}};
  idle.injection.seams.Set(exec::CollectiveSeam{
      [](exec::Machine& machine, const exec::CollectiveCall& call) {
        return exec::RunCollective(machine, call);
      }});
  SelfTest result;
  result.faults.push_back(TryFault(idle));
  CHECK(result.faults[0].sound);
  CHECK_FALSE(result.faults[0].injected);
  CHECK_FALSE(result.faults[0].caught);
  CHECK_FALSE(result.Holds());
  CHECK(SelfTestText(result) ==
        "idle  not injected\n\n0 faults injected, 0 detected\n");
}

TEST_CASE("an injected fault that no check detects is missed") {
  InjectedFault fault{"unseen", "collective", {}, {RingProbe()}};
  // The fault adds an entry of zero bytes to the ledger, which changes no
  // total.
  fault.injection.seams.Set(exec::CollectiveSeam{
      [](exec::Machine& machine, const exec::CollectiveCall& call) {
        machine.ledger().Record(call.kind, call.axes, 2,
                                std::vector<int64_t>(call.in->size(), 0),
                                call.what);
        return exec::RunCollective(machine, call);
      }});
  SelfTest result;
  result.faults.push_back(TryFault(fault));
  CHECK(result.faults[0].injected);
  CHECK_FALSE(result.faults[0].caught);
  CHECK_FALSE(result.Holds());
  CHECK(SelfTestText(result) ==
        "unseen  MISSED\n\n1 fault injected, 0 detected\n");
}

// Under sanitizers the catalogue runs only once: more runs reach no other code,
// and the ordinary build checks their results.
bool RunsOnce() { return std::getenv("SHARDC_VERIFY_ONCE") != nullptr; }

TEST_CASE("each check is the only one to detect some fault") {
  if (RunsOnce()) return;
  // A fault that is missed without a check was detected by that check, so only
  // these faults are injected again. If a check has detected none, all faults
  // are injected.
  const SelfTest all = RunSelfTest({}, 2);
  for (size_t i = 0; i < kCheckCount; ++i) {
    const auto check = static_cast<Check>(i);
    std::set<std::string> caught;
    for (const FaultVerdict& fault : all.faults) {
      if (fault.by == CheckName(check)) caught.insert(fault.name);
    }
    const SelfTest result = RunSelfTest(Checks().Without(check), 2, {}, caught);
    int missed = 0;
    for (const FaultVerdict& fault : result.faults) missed += !fault.caught;
    CHECK_MESSAGE(missed > 0, CheckName(check) << " is never needed");
  }
}

TEST_CASE("the self-test's verdict does not depend on threads") {
  if (RunsOnce()) return;
  const std::string one = SelfTestText(RunSelfTest({}, 1));
  CHECK(SelfTestText(RunSelfTest({}, 7)) == one);
}

}  // namespace
}  // namespace shardc::verify
