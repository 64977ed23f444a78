// Tests that a rule set is the same after it was written as a YAML file and
// read from that file.
#include "emit/plans/rules_file.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "parse/rules.h"
#include "source/sink.h"

namespace shardc {
namespace {

// Reads the text as a rules file, through a file on disk.
std::optional<RuleSet> Read(const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("rules_file_test." + std::to_string(std::rand()));
  Findings findings;
  REQUIRE(WriteToFile(path, text, findings));
  const std::string name = path;
  auto rules = ReadRules(std::span(&name, 1), {}, findings);
  std::filesystem::remove(path);
  for (const Finding& finding : findings.all()) MESSAGE(finding.message);
  return rules;
}

std::string JsonOf(const RuleSet& rules) {
  return TextOf([&](Sink& out) { WriteRulesFileJson(rules, out); });
}

constexpr std::string_view kRich = R"(version: 1
separator: "."
axes: {tensor_parallel: model, head: [model, sp], decode_head: [],
       decode_query_sequence: null, vocab: null}
register:
  KV_GROUP: {rule: kv_head, generation: [tp, {axis: expert}]}
  __X__: {rule: null}
  EMPTY_GEN: {rule: [head], generation: null}
  NONE: {rule: [], generation: []}
  HEAD: {rule: {axis: model}, override: true}
bundles:
  Ours: [[FSDP, SP], TP, null]
  Timed: {axes: [BATCH, HEAD], mode: 1}
  Gen: {axes: [BATCH], mode: decode}
rules:
  - match: 'q_proj\.weight$'
    spec: [[FSDP, SP], HEAD]
    modes: {decode: [HEAD], insert: Ours}
    illegal: shrink
    min_size: 7
    note: 'a "quoted" note'
  - {match: 'experts\.(\d+)\.w$', spec: [TP, null],
     place: {axis: ep, index: 'experts\.(\d+)\.', count: 8}}
  - {match: '(.*)\.scale$', spec: {like: '\1.weight'}}
  - {match: 'norm', spec: []}
  - {match: '.*', spec: Replicated}
policy: {unmatched: replicate, illegal: drop, min_size: 3, compat: fjformer}
weight_decay: {exclude: ['norm', 'bias$']}
)";

TEST_CASE("a rule set survives its own file") {
  auto first = Read(std::string(kRich));
  REQUIRE(first);
  const std::string text = JsonOf(*first);
  auto second = Read(text);
  REQUIRE(second);
  CHECK(JsonOf(*second) == text);
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const auto rule = static_cast<AxisRule>(i);
    CAPTURE(AxisRuleName(rule));
    CHECK(second->axes.Value(rule) == first->axes.Value(rule));
  }
  REQUIRE(second->registrations.size() == 5);
  for (size_t i = 0; i < 5; ++i) {
    const Registration& a = first->registrations[i];
    const Registration& b = second->registrations[i];
    CAPTURE(a.name);
    CHECK(a.name == b.name);
    CHECK(a.rule == b.rule);
    CHECK(a.generation == b.generation);
    CHECK(a.override_existing == b.override_existing);
  }
  REQUIRE(second->bundles.size() == 3);
  CHECK(second->bundles[1].mode == first->bundles[1].mode);
  CHECK(second->bundles[2].mode == first->bundles[2].mode);
  REQUIRE(second->rules.size() == 5);
  CHECK(second->rules[0].separator == '.');
  CHECK(second->rules[0].note == R"(a "quoted" note)");
  CHECK(second->rules[1].placement->count == 8);
  CHECK(second->policy.compat == Compat::kFjformer);
  REQUIRE(second->weight_decay_exclude);
  REQUIRE(second->weight_decay_exclude->size() == 2);
  CHECK((*second->weight_decay_exclude)[1].match == "bias$");
}

TEST_CASE("an axis rule that names an axis twice is derived again") {
  auto first = Read(
      "axes: {fully_sharded_data_parallel: data, "
      "data_parallel: data}\nrules: []\n");
  REQUIRE(first);
  auto second = Read(JsonOf(*first));
  REQUIRE(second);
  CHECK(second->axes.Value(AxisRule::kDecodeBatch).axes ==
        AxisGroup{"data", "data"});
  CHECK_FALSE(second->weight_decay_exclude);
}

TEST_CASE("an empty rule set has every axis rule") {
  auto rules = Read(JsonOf({}));
  REQUIRE(rules);
  CHECK(rules->rules.empty());
  CHECK(rules->axes.Value(AxisRule::kBatch).axes == AxisGroup{"fsdp", "dp"});
}

TEST_CASE("both separators do not fit in one file") {
  RuleSet rules;
  rules.rules.resize(2);
  CHECK_FALSE(HasMixedSeparators(rules));
  rules.rules[1].separator = '.';
  CHECK(HasMixedSeparators(rules));
}

TEST_CASE("axis rules as a file of their own") {
  AxisRules axes;
  axes.Set(AxisRule::kHead, {.is_null = false, .axes = {"tp"}});
  axes.Set(AxisRule::kBatch, {.is_null = false, .axes = {"true", "d p", "9"}});
  axes.Set(AxisRule::kVocab, {});
  axes.Set(AxisRule::kDecodeHead, {.is_null = false, .axes = {}});
  Imported given;
  given.axes = axes;
  CHECK(ImportedFileYaml(given) ==
        "version: 1\n"
        "axes:\n"
        "  batch: [\"true\", \"d p\", \"9\"]\n"
        "  head: tp\n"
        "  vocab: null\n"
        "  decode_head: []\n");
  CHECK(ImportedFileYaml({}) == "version: 1\naxes: {}\n");
  AxisRules plain;
  plain.Set(AxisRule::kHead, {.is_null = false, .axes = {"tp"}});
  plain.Set(AxisRule::kDecodeHead, {.is_null = false, .axes = {}});
  plain.Set(AxisRule::kVocab, {});
  given.axes = plain;
  for (const std::string& text :
       {ImportedFileYaml(given),
        TextOf([&](Sink& out) { WriteImportedFileJson(given, out); })}) {
    auto rules = Read(text);
    REQUIRE(rules);
    CHECK(rules->axes == plain);
  }
}

TEST_CASE("names that YAML 1.1 reads as booleans are quoted") {
  const auto mesh_of = [](const std::string& name) {
    Mesh mesh;
    mesh.axes = {{name, 2, AxisType::kAuto}};
    mesh.devices = 2;
    return MeshFileYaml(mesh);
  };
  for (const char* const name :
       {"yes", "no", "on", "off", "NO", "On", "true", "False", "null"}) {
    CAPTURE(name);
    CHECK(mesh_of(name) ==
          "axes: {\"" + std::string(name) + "\": 2}\ndevices: 2\n");
  }
  for (const char* const name : {"x", "y", "N", "yes_", "only", "tp"}) {
    CAPTURE(name);
    CHECK(mesh_of(name) ==
          "axes: {" + std::string(name) + ": 2}\ndevices: 2\n");
  }
}

}  // namespace
}  // namespace shardc
