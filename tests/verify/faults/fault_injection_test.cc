#include "verify/faults/fault_injection.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

#include <vector>
#include "verify/score.h"

#include "exec/machine/collectives.h"

namespace shardc::verify {
namespace {

// The verdicts on the complete catalogue, from one thread.
const SelfTest& AllVerdicts() {
  static const SelfTest all = RunSelfTest({}, 1);
  return all;
}

TEST_CASE("every fault of the catalogue is detected") {
  const SelfTest& result = AllVerdicts();
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
  // Leaves out one check at a time, and injects faults again until one is
  // missed. The faults that this check detected are injected first, because
  // without it they are the most likely to be missed.
  for (size_t i = 0; i < kCheckCount; ++i) {
    const auto check = static_cast<Check>(i);
    std::vector<std::string> first, others;
    for (const FaultVerdict& fault : AllVerdicts().faults) {
      (fault.by == CheckName(check) ? first : others).push_back(fault.name);
    }
    first.insert(first.end(), others.begin(), others.end());
    const bool needed = std::any_of(
        first.begin(), first.end(), [check](const std::string& name) {
          const SelfTest result =
              RunSelfTest(Checks().Without(check), 1, {}, {name});
          REQUIRE(result.faults.size() == 1);
          return !result.faults[0].caught;
        });
    CHECK_MESSAGE(needed, CheckName(check) << " is never needed");
  }
}

TEST_CASE("the self-test's verdict does not depend on threads") {
  if (RunsOnce()) return;
  // Every third fault: enough that each of the threads has several.
  SelfTest one;
  std::set<std::string> names;
  for (size_t i = 0; i < AllVerdicts().faults.size(); i += 3) {
    one.faults.push_back(AllVerdicts().faults[i]);
    names.insert(one.faults.back().name);
  }
  CHECK(names.size() >= 3 * 7);
  CHECK(SelfTestText(RunSelfTest({}, 7, {}, names)) == SelfTestText(one));
}

}  // namespace
}  // namespace shardc::verify
