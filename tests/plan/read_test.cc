#include "plan/read.h"

#include <doctest/doctest.h>

#include <memory>

namespace shardc {
namespace {

std::optional<ReadPlan> Parse(const std::string& text, Findings& findings) {
  const auto document = JsonDocument::Parse(MakeSource("p", text), findings);
  REQUIRE(document != nullptr);
  return ParsePlan(*document, EditedPlan::kAllowed, findings);
}

std::string Plan(const std::string& params, const std::string& mesh =
                                                R"({"axes": [
    {"name": "dp", "size": 2, "type": "auto"},
    {"name": "tp", "size": 4, "type": "manual"}],
    "devices": 8, "processes": 2})") {
  return R"({"schema": "shardc.plan/v1", "fingerprint": "sha256:ab", "mesh": )" +
         mesh +
         R"(, "modes": ["train", "decode"], "rules": [{"match": "a"}], "params": )" +
         params + R"(, "attention": {}, "summary": {}})";
}

TEST_CASE("plan: shapes, specs, modes and placements are read") {
  Findings findings;
  const auto plan = Parse(Plan(R"({
        "a/b": {"shape": [8, 16], "dtype": "BF16", "spec": [["dp", "tp"], null],
          "rule": 0, "shard_shape": [1, 16], "bytes_per_device": 32,
          "modes": {"decode": {"spec": [null, "tp"], "shard_shape": [8, 4],
                               "bytes_per_device": 64}}},
        "c": {"shape": null, "dtype": null, "spec": [], "rule": null},
        "e": {"shape": [], "dtype": "F32", "spec": [],
              "placement": {"axis": "tp", "coordinate": 3}}})"),
                          findings);
  REQUIRE(plan);
  CHECK(plan->fingerprint == "sha256:ab");
  CHECK(MeshText(plan->mesh) == "dp=2 tp=4");
  CHECK(plan->mesh.devices == 8);
  CHECK(plan->mesh.processes == 2);
  CHECK(plan->mesh.axes[1].type == AxisType::kManual);
  CHECK(plan->modes == std::vector<Mode>{Mode::kTrain, Mode::kDecode});
  REQUIRE(plan->params.size() == 3);
  const ReadParam& first = plan->params[0];
  CHECK(first.name == "a/b");
  CHECK(first.type.shape == Shape{8, 16});
  CHECK(first.type.dtype == Dtype::kBF16);
  CHECK(SpecText(first.SpecOf(Mode::kTrain)) == R"([["dp", "tp"], null])");
  CHECK(SpecText(first.SpecOf(Mode::kDecode)) == R"([null, "tp"])");
  CHECK(SpecText(first.SpecOf(Mode::kInsert)) == R"([["dp", "tp"], null])");
  CHECK_FALSE(plan->params[1].type.shape);
  CHECK(plan->params[2].placement == ReadPlacement{"tp", 3});
}

TEST_CASE("plan: malformed plans are refused") {
  const struct {
    std::string text;
    std::string_view code;
  } cases[] = {
      {R"({"schema": "shardc.manifest/v1"})", "schema"},
      {"[]", "schema"},
      {Plan("[]"), "schema"},
      {Plan(R"({"a": 1})"), "schema"},
      {Plan(R"({"a": {"shape": [1]}})"), "schema"},
      {Plan(R"({"a": {"shape": [-1], "spec": []}})"), "number"},
      {Plan(R"({"a": {"shape": [1.0], "spec": []}})"), "number"},
      {Plan(R"({"a": {"shape": [4294967296, 4294967296], "spec": []}})"),
       "overflow"},
      {Plan(R"({"a": {"dtype": "Q4", "spec": []}})"), "dtype"},
      {Plan(R"({"a": {"spec": ["fsdp"]}})"), "unknown-name"},
      {Plan(R"({"a": {"spec": [[["tp"]]]}})"), "schema"},
      {Plan(R"({"a": {"spec": [], "modes": {"x": {"spec": []}}}})"), "schema"},
      {Plan(R"({"a": {"spec": [], "placement": {"axis": "tp",
                "coordinate": 4}}})"),
       "schema"},
      {Plan("{}", R"({"axes": [{"name": "a", "size": 0}], "devices": 0})"),
       "number"},
      {Plan("{}", R"({"axes": [{"name": "a", "size": 2}], "devices": 3})"),
       "device-count"},
      {Plan("{}", R"({"axes": [{"name": "a", "size": 2},
                              {"name": "a", "size": 2}], "devices": 4})"),
       "schema"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.text);
    Findings findings;
    CHECK_FALSE(Parse(c.text, findings));
    REQUIRE(findings.HasErrors());
    CHECK(findings.all()[0].code->name == c.code);
    CHECK(findings.all()[0].place.HasPosition());
  }
}

}  // namespace
}  // namespace shardc
