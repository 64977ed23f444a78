#include "reference/logical_rules.h"

#include <doctest/doctest.h>

namespace shardc::reference {
namespace {

TEST_CASE("rules are tried in order, and no axis serves twice") {
  Mesh mesh;
  mesh.axes = {{"fsdp", 4}, {"tensor", 2}, {"expert", 2}};
  const std::vector<LogicalRule> rules = {
      {"mlp", {"tensor", "absent"}}, {"embed", {"fsdp", "tensor"}},
      {"embed", {"fsdp", "expert"}}, {"norm", {"tensor"}},
      {"layers", {"stage"}},         {"vocab", {}}};
  auto spec = [&](std::vector<std::optional<std::string>> names) {
    return SpecText(ResolveLogicalAxes(rules, names, mesh));
  };
  CHECK(spec({}) == "[]");
  CHECK(spec({"embed"}) == R"([["fsdp", "tensor"]])");
  CHECK(spec({"embed", "mlp"}) == R"([["fsdp", "expert"], "tensor"])");
  CHECK(spec({"mlp", std::nullopt, "norm"}) == R"(["tensor", null, null])");
  CHECK(spec({"layers", "vocab", "unheard"}) == "[null, null, null]");
  CHECK(spec({"mlp", "mlp"}) == R"(["tensor", null])");
}

}  // namespace
}  // namespace shardc::reference
