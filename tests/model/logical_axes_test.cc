#include "model/rules.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace shardc {
namespace {

// Returns the spec to which the rules map the names, on a mesh of dp and tp.
std::string Resolved(const std::vector<LogicalRule>& rules,
                     const std::vector<AxisGroup>& names) {
  Mesh mesh;
  mesh.axes = {{"dp", 2}, {"tp", 4}};
  mesh.devices = 8;
  return SpecText(LogicalRules(rules).Resolve(names, mesh));
}

TEST_CASE("logical names take the axes of the first rule that is free") {
  const std::vector<AxisGroup> names = {{"batch"}, {"heads"}, {}, {"other"}};
  CHECK(Resolved({{"batch", {"dp"}}, {"heads", {"tp"}}}, names) ==
        R"(["dp", "tp", null, null])");
  CHECK(Resolved({{"batch", {"dp", "tp"}}}, names) ==
        R"([["dp", "tp"], null, null, null])");
  // An axis that the mesh lacks is left out.
  CHECK(Resolved({{"batch", {"dp", "ep"}}}, names) ==
        R"(["dp", null, null, null])");
  // No other dimension can use that axis either, as if its size were 1.
  CHECK(Resolved({{"batch", {"dp", "ep"}}, {"heads", {"ep", "tp"}}}, names) ==
        R"(["dp", null, null, null])");
  // An axis is used only once. If it is taken, the next rule for the name is
  // tried.
  CHECK(Resolved({{"batch", {"tp"}}, {"heads", {"tp"}}, {"heads", {"dp"}}},
                 names) == R"(["tp", "dp", null, null])");
  // The first rule of a name wins, even if it gives no axes.
  CHECK(Resolved({{"batch", {}}, {"batch", {"dp"}}}, names) ==
        "[null, null, null, null]");
  CHECK(Resolved({{"nothing", {"dp"}}}, names) == "[null, null, null, null]");
}

}  // namespace
}  // namespace shardc
