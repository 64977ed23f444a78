#include "plan/mesh_purposes.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>

namespace shardc {
namespace {

// Returns the axes of KV heads, "tp" or "null", that are chosen for a model on
// tp devices. The axis rules are those of a pack, or of `file`.
std::string KvHead(std::optional<int64_t> kv_heads, int64_t tp,
                   const std::string& file = "builtin:llama/hf") {
  constexpr auto kAt = static_cast<size_t>(AxisRule::kKvHead);
  RuleSet rules;
  rules.axes_places[kAt] = {MakeSource(file, ""), 0, 0};
  rules.axes.given[kAt] = AxisValue{};
  rules.axes.given[kAt]->is_null = true;
  ModelConfig model;
  model.kv_heads = kv_heads;
  Mesh mesh;
  if (tp > 0) mesh.axes = {{"tp", tp}};
  mesh.devices = tp > 0 ? tp : 1;
  ChoosePackAxes(rules, &model, mesh);
  const AxisGroup axes = rules.axes.Value(AxisRule::kKvHead).axes;
  return axes.empty() ? "null" : axes[0];
}

TEST_CASE("a pack shards KV heads where they divide by the axis") {
  const struct {
    std::optional<int64_t> kv_heads;
    int64_t tp;
    std::string axis;
  } cases[] = {
      {8, 4, "tp"},   {8, 8, "tp"},   {8, 16, "null"}, {8, 2, "tp"},
      {1, 2, "null"}, {8, 3, "null"}, {2, 2, "tp"},    {{}, 2, "null"},
      {8, 1, "null"}, {8, 0, "null"},
  };
  for (const auto& one : cases) {
    CAPTURE(one.tp);
    CAPTURE(one.kv_heads.value_or(-1));
    CHECK(KvHead(one.kv_heads, one.tp) == one.axis);
  }
}

TEST_CASE("rules of a file keep their own axis of KV heads") {
  CHECK(KvHead(8, 4, "rules.yaml") == "null");
}

TEST_CASE("without a model nothing is chosen") {
  RuleSet rules;
  rules.axes_places[static_cast<size_t>(AxisRule::kKvHead)] = {
      MakeSource("builtin:llama/hf", ""), 0, 0};
  Mesh mesh;
  mesh.axes = {{"tp", 3}};
  ChoosePackAxes(rules, nullptr, mesh);
  CHECK_FALSE(rules.axes.given[static_cast<size_t>(AxisRule::kKvHead)]);
}

}  // namespace
}  // namespace shardc
