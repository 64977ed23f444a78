// The native resolver against the reference, over random axis rules,
// registrations and lists of axes. They agree wherever both give an answer:
// nested groups flattened, nulls inside groups left out.
#include <doctest/doctest.h>

#include "reference/resolve.h"
#include "reference/setting.h"
#include "resolve/resolve.h"

namespace shardc {
namespace {

using reference::Setting;
using reference::Value;

void Compare(Setting& setting) {
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
      const auto* raw = reference::Get<std::vector<Value>>(theirs);
      REQUIRE(raw != nullptr);
      CHECK(SpecText(ours->spec) == SpecText(reference::AxesOf(*raw)));
    }
  }
}

TEST_CASE("the native resolver agrees with the reference") {
  const uint64_t first = reference::FirstSeed();
  for (uint64_t seed = first; seed < first + 1000; ++seed) {
    INFO("SHARDC_SEED=", seed);
    Setting setting(Draws{seed});
    CHECK(setting.ours().registrations.size() ==
          setting.registry().entries().size());
    Compare(setting);
  }
}

}  // namespace
}  // namespace shardc
