// Compares the resolver with the reference, an implementation of eformer's
// semantics, over random axis rules, registrations (of tokens, chains,
// one-element lists, null rules, overrides and generation rules) and lists of
// axes. If both return a spec, the specs must be equal after nested groups of
// the reference are flattened and nulls in groups removed. A known difference:
// for the reference, a name that is registered with a null rule is unknown; for
// shardc, it is unsharded.
#include <doctest/doctest.h>

#include <cstdlib>
#include <set>
#include <string>

#include "reference/resolve.h"
#include "reference/setting.h"
#include "resolve/resolve.h"

namespace shardc {
namespace {

using reference::Setting;
using reference::Value;

struct Compared {
  uint64_t specs = 0;
  uint64_t refused = 0;
};

// Returns whether two dimensions have the same axis.
bool Repeats(const Spec& spec) {
  std::set<std::string> seen;
  for (const AxisGroup& group : spec) {
    for (const std::string& axis : std::set(group.begin(), group.end())) {
      if (!seen.insert(axis).second) return true;
    }
  }
  return false;
}

void Compare(Setting& setting, Compared& compared) {
  Mesh mesh;
  for (const std::string& axis : Setting::Axes()) {
    mesh.axes.push_back({axis, 2});
  }
  Findings findings;
  auto resolver = Resolver::Make(setting.ours(), mesh, findings);
  REQUIRE(resolver);
  for (int i = 0; i < 8; ++i) {
    const auto axes = setting.RandomAxes();
    for (Mode mode : kAllModes) {
      auto ours = resolver->Resolve(axes.ours, mode, findings);
      auto theirs = reference::ResolveAxis(setting.axis(), setting.registry(),
                                           axes.theirs, ModeLongName(mode));
      REQUIRE(ours);
      if (const auto* error = reference::Failure(theirs)) {
        REQUIRE_MESSAGE(setting.HasNullNames(), error->message);
        CHECK(error->kind == "unknown_axis");
        ++compared.refused;
        continue;
      }
      auto raw = std::get<std::vector<Value>>(std::move(theirs));
      setting.DropNullNames(raw);
      // Whole experts drop an axis that the reference repeats; it refuses a
      // repetition later.
      const auto spec = reference::AxesOf(raw);
      if (Repeats(spec)) {
        ++compared.specs;
        continue;
      }
      CHECK(SpecText(ours->spec) == SpecText(spec));
      ++compared.specs;
    }
  }
}

// Returns the number of cases: SHARDC_CASES for a long run, else 1000.
uint64_t Cases() {
  const char* text = std::getenv("SHARDC_CASES");
  return text == nullptr ? 1000 : std::strtoull(text, nullptr, 10);
}

TEST_CASE("the resolver agrees with the reference") {
  const uint64_t first = reference::FirstSeed();
  Compared compared;
  for (uint64_t seed = first; seed < first + Cases(); ++seed) {
    INFO("SHARDC_SEED=", seed);
    Setting setting(Draws{seed});
    CHECK(setting.ours().registrations.size() ==
          setting.registry().entries().size());
    Compare(setting, compared);
  }
  MESSAGE(Cases(), " settings: ", compared.specs, " specs agree, ",
          compared.refused, " that the reference refuses");
  CHECK(compared.specs > 20 * Cases());
  CHECK(compared.refused > 0);
}

}  // namespace
}  // namespace shardc
