#include "importers/eformer.h"

#include <doctest/doctest.h>

namespace shardc {
namespace {

std::optional<AxisRules> Import(std::string text, Findings& findings) {
  auto document =
      JsonDocument::Parse(MakeSource("axes.json", std::move(text)), findings);
  REQUIRE(document);
  auto rules = ImportEformerAxes(*document, findings);
  if (rules) CHECK(IsEformerAxes(*document));
  return rules;
}

TEST_CASE("fields come in as they are given") {
  Findings findings;
  auto rules = Import(
      R"({"head_axis": "model", "batch_axis": ["fsdp", "dp"],
          "vocab_axis": null, "decode_head_axis": [], "expert_axis": ""})",
      findings);
  REQUIRE(rules);
  CHECK(findings.empty());
  auto given = [&](AxisRule rule) { return rules->Given(rule); };
  CHECK(given(AxisRule::kHead)->axes == AxisGroup{"model"});
  CHECK(given(AxisRule::kBatch)->axes == AxisGroup{"fsdp", "dp"});
  CHECK(given(AxisRule::kVocab)->is_null);
  CHECK_FALSE(given(AxisRule::kDecodeHead)->is_null);
  CHECK(given(AxisRule::kDecodeHead)->axes.empty());
  CHECK(given(AxisRule::kExpert)->axes.empty());
  CHECK_FALSE(given(AxisRule::kKvHead));
}

TEST_CASE("a field derived from fields of several axes or none is flattened") {
  // As PartitionManager.to_json writes data_parallel_axis=("dp", "x") and
  // fully_sharded_data_parallel_axis=None.
  Findings findings;
  auto rules =
      Import(R"({"batch_axis": [null, ["dp", "x"]], "head_axis": [["tp"]]})",
             findings);
  REQUIRE(rules);
  CHECK(findings.empty());
  CHECK(rules->Given(AxisRule::kBatch)->axes == AxisGroup{"dp", "x"});
  CHECK(rules->Given(AxisRule::kHead)->axes == AxisGroup{"tp"});
  CHECK_FALSE(Import(R"({"batch_axis": ["fsdp", [1]]})", findings));
}

TEST_CASE("a manager's JSON holds the fields one level down") {
  Findings findings;
  auto rules = Import(R"({"paxis": {"tensor_parallel_axis": "m"}})", findings);
  REQUIRE(rules);
  CHECK(rules->Value(AxisRule::kKvHead).axes == AxisGroup{"m"});
}

TEST_CASE("unknown fields are left out and reported") {
  Findings findings;
  auto rules = Import(R"({"head_axis": "tp", "hed_axis": "tp"})", findings);
  REQUIRE(rules);
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all()[0].level == Level::kWarning);
  CHECK(findings.all()[0].help == "did you mean `head_axis`?");
}

TEST_CASE("the axes inside a record of operations are found") {
  for (const char* text :
       {R"({"runtime_dtype": "bfloat16", "softmax_scale": null,
            "partition_manager": {"paxis": {"head_axis": "m"}}})",
        R"({"_stored": [{"partition_axis": {"head_axis": "m"}}], "tp": 2})",
        R"({"a": {"paxis": {"head_axis": "m"}},
            "b": {"paxis": {"head_axis": "m"}}})"}) {
    CAPTURE(text);
    Findings findings;
    auto rules = Import(text, findings);
    REQUIRE(rules);
    CHECK(findings.empty());
    CHECK(rules->Value(AxisRule::kHead).axes == AxisGroup{"m"});
  }
}

TEST_CASE("a file without one known field, or with two answers, is refused") {
  for (const char* text :
       {"{}", R"({"hed_axis": "tp"})", R"({"paxis": null})", R"({"paxis": {}})",
        R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 4096})",
        R"({"a": {"head_axis": "x"}, "b": {"head_axis": "y"}})"}) {
    CAPTURE(text);
    Findings findings;
    CHECK_FALSE(Import(text, findings));
    REQUIRE(findings.errors() == 1);
    CHECK(findings.all().size() == 1);
    CHECK(findings.all()[0].code->Id() == "SHD022");
  }
}

TEST_CASE("values of another kind are errors") {
  for (const char* text :
       {R"({"head_axis": 4})", R"({"head_axis": [["a", 4]]})",
        R"({"head_axis": [true]})", R"({"head_axis": {"a": "b"}})"}) {
    Findings findings;
    CHECK_FALSE(Import(text, findings));
    REQUIRE(findings.errors() == 1);
    CHECK(findings.all()[0].code->Id() == "SHD022");
  }
  Findings findings;
  CHECK_FALSE(Import("[]", findings));
}

}  // namespace
}  // namespace shardc
