#include "lint/run.h"

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "doctest/doctest.h"
#include "emit/emit.h"
#include "lint/rules/lint.h"
#include "lint/target.h"

namespace shardc {
namespace {

LintFinding Make(const char* code, std::string message) {
  LintFinding out;
  out.code = FindCode(code);
  out.level = out.code->level;
  out.message = std::move(message);
  return out;
}

std::vector<Finding> FindingsWith(const LintInputs& inputs,
                                  const LintSettings& settings) {
  Findings usage;
  const auto selection = Selection::Make(settings, /*preview=*/true, usage);
  Facts facts(inputs);
  return RunLints(facts, *selection).findings;
}

// Returns the codes that the example gives if these lints are ignored.
std::set<std::string> CodesWithout(const LintExample& example,
                                   std::vector<std::string> ignored) {
  TestTarget target = Build(example);
  CAPTURE(target.errors);
  REQUIRE(target.compiled != nullptr);
  if (target.model) target.inputs.model = &*target.model;
  LintSettings settings;
  settings.ignore = std::move(ignored);
  std::set<std::string> out;
  for (const Finding& finding : FindingsWith(target.inputs, settings)) {
    out.insert(finding.code->Id());
  }
  return out;
}

// Returns the texts of the findings. Adds the number of names that the findings
// list to `names`.
std::vector<std::string> TextsOf(const LintInputs& inputs, size_t& names) {
  std::vector<std::string> out;
  for (const Finding& finding : FindingsWith(inputs, {})) {
    out.push_back(FindingText(finding, {}));
    names += finding.params.size();
  }
  return out;
}

// `plan`, which counts findings, and `check`, which prints their texts, do not
// let findings list names.
TEST_CASE("the text of a finding does not depend on whether names are listed") {
  size_t listed = 0;
  size_t not_listed = 0;
  for (const LintExamples& examples : AllExamples()) {
    CAPTURE(examples.lint);
    TestTarget target = Build(examples.bad);
    if (target.compiled == nullptr) continue;
    if (target.model) target.inputs.model = &*target.model;
    const std::vector<std::string> texts = TextsOf(target.inputs, listed);
    target.inputs.lists_names = false;
    CHECK(TextsOf(target.inputs, not_listed) == texts);
  }
  CHECK(listed > 30);
  CHECK(not_listed < listed / 2);
}

TEST_CASE("a finding is redundant if others report all facts that make it so") {
  LintFinding dead = Make("SHD105", "dead");
  dead.unless = {"a", "b"};
  LintFinding one = Make("SHD101", "one");
  one.reports = {"a"};
  LintFinding two = Make("SHD102", "two");
  two.reports = {"b"};
  CHECK(OnceEach({dead, one, two}, {}).size() == 2);
  CHECK(OnceEach({dead, one}, {}).size() == 2);
  // A finding that was removed does not make others redundant.
  one.unless = {"b"};
  CHECK(OnceEach({dead, one, two}, {}).size() == 2);
  two.reports = {"b", "a"};
  CHECK(OnceEach({dead, one, two}, {}).size() == 1);
}

// The lint about the other separator explains all findings. If it is ignored,
// the lint about other naming explains them, and the catch-all that then
// matches all names is not reported.
TEST_CASE(
    "of two findings that make each other redundant the one with more facts "
    "stays") {
  const LintExample dots{.mesh = "fsdp:2,tp:2",
                         .rules = R"(version: 1
separator: "/"
rules:
  - match: 'self_attn\.(q|k|v)_proj\.kernel'
    spec: ColumnWise
  - match: 'mlp\.gate_proj\.kernel'
    spec: ColumnWise
  - match: '.*'
    spec: Replicated
)",
                         .manifest = R"({"schema": "shardc.manifest/v1",
  "separator": "/", "params": {
  "layers/0/self_attn/q_proj/kernel": {"shape": [2048, 4096], "dtype": "BF16"},
  "layers/0/mlp/gate_proj/kernel": {"shape": [2048, 8192], "dtype": "BF16"}}}
)"};
  const auto all = CodesWithout(dots, {});
  CHECK(all.count("SHD113") == 1);
  CHECK(all.count("SHD101") + all.count("SHD102") == 0);
  const auto rest = CodesWithout(dots, {"SHD113"});
  CHECK(rest.count("SHD102") == 1);
  CHECK(rest.count("SHD101") == 0);
}

TEST_CASE("findings that differ in their parameters only are joined") {
  const std::vector<std::string_view> names = {"a", "b"};
  LintFinding a = Make("SHD207", "`a` must be split");
  a.subject = "`a`";
  a.members = {0};
  LintFinding b = Make("SHD207", "`b` must be split");
  b.subject = "`b`";
  b.members = {1};
  auto found = OnceEach({a, b}, names);
  REQUIRE(found.size() == 1);
  CHECK(found[0].message == "`a` and `b` must be split");
  CHECK(found[0].params == std::vector<std::string>{"a", "b"});
  b.message = "`b` must be padded";
  CHECK(OnceEach({a, b}, names).size() == 2);
  b.message = "`b` must be split";
  b.level = Level::kNote;
  CHECK(OnceEach({a, b}, names).size() == 2);
  b.level = a.level;
  a.message = "`a` is split";
  b.message = "`b` is split";
  found = OnceEach({a, a, b}, names);
  REQUIRE(found.size() == 1);
  CHECK(found[0].message == "`a` and `b` are split");
  CHECK(found[0].params == std::vector<std::string>{"a", "b"});
}

// The findings of two lints alternate, and both lints report the parameters `b`
// and `c`.
TEST_CASE("each finding names a parameter once, whatever other findings name") {
  const std::vector<std::string_view> names = {"a", "b", "c"};
  const auto make = [](const char* code, const char* subject,
                       std::vector<uint32_t> members) {
    LintFinding out = Make(code, std::string(subject) + " must be split");
    out.subject = subject;
    out.members = std::move(members);
    return out;
  };
  const auto found =
      OnceEach({make("SHD207", "`c`", {2, 1}), make("SHD213", "`c`", {2}),
                make("SHD207", "`a`", {0, 1}), make("SHD213", "`b`", {2, 1})},
               names);
  REQUIRE(found.size() == 2);
  CHECK(found[0].params == std::vector<std::string>{"c", "b", "a"});
  CHECK(found[1].params == std::vector<std::string>{"c", "b"});
}

TEST_CASE(
    "findings with one cause are joined, with the other places as labels") {
  const SourceRef source = MakeSource("r.yaml", "abcd");
  LintFinding a = Make("SHD214", "`a` splits it");
  a.subject = "`a`";
  a.place = Place{source, 0, 1};
  a.several = {"tp", "all of ", " split it"};
  LintFinding b = Make("SHD214", "`b` splits it, at length");
  b.subject = "`b`";
  b.place = Place{source, 2, 3};
  b.several = a.several;
  const auto found = OnceEach({a, b}, {});
  REQUIRE(found.size() == 1);
  CHECK(found[0].message == "all of `a` and `b` split it");
  REQUIRE(found[0].labels.size() == 1);
  CHECK(found[0].labels[0].place.begin == 2);
  // If only one finding is left, its message does not change.
  CHECK(OnceEach({b}, {})[0].message == "`b` splits it, at length");
  b.several.cause = "fsdp";
  CHECK(OnceEach({a, b}, {}).size() == 2);
}

TEST_CASE(
    "a comment suppresses the part of a finding that is about its own rule") {
  const auto labels = [](const std::string& mark) {
    const std::string rules =
        "version: 1\nrules:\n  - {match: 'q_proj', spec: "
        "[TP, null]}\n  - {match: 'k_proj', spec: [TP, "
        "null]}" +
        mark + "\n";
    std::string errors;
    const auto result = LintExampleText(
        {.mesh = "tp:4", .rules = rules, .manifest = R"({"schema":
 "shardc.manifest/v1", "separator": "/", "params": {
  "l/0/attn/q_proj/kernel": {"shape": [512, 1024], "dtype": "BF16"},
  "l/0/attn/k_proj/kernel": {"shape": [512, 256], "dtype": "BF16"}}})"},
        &errors);
    CHECK(errors.empty());
    REQUIRE(result.findings.size() == 1);
    return result.findings[0].labels.size();
  };
  CHECK(labels("") == 1);
  CHECK(labels("  # shardc: ignore[SHD214] so be it") == 0);
}

constexpr LintExample kFallen{
    .mesh = "fsdp:2,ep:2,tp:2",
    .rules = R"(version: 1
separator: "/"
rules:
  - match: 'self_attn/(q|k|v)_proj/kernel'
    spec: ColumnWise
  - match: 'block_sparse_moe/experts/gate_proj/kernel'
    spec: ExpertColumnWise
  - match: '.*'
    spec: Replicated
)",
    .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/self_attn/q_proj/kernel": {"shape": [2048, 4096], "dtype": "BF16"},
  "layers/0/mlp/experts/gate_proj/kernel": {"shape": [128, 2048, 768], "dtype": "BF16"}}}
)"};

TEST_CASE("ignoring a lint suppresses no other") {
  const auto all = CodesWithout(kFallen, {});
  CHECK(all.count("SHD101") == 1);
  for (const char* quiet : {"SHD103", "SHD105", "SHD207", "SHD216"}) {
    CHECK(all.count(quiet) == 0);
  }
  const auto rest = CodesWithout(kFallen, {"SHD101"});
  for (const char* reported : {"SHD103", "SHD105", "SHD216"}) {
    CAPTURE(reported);
    CHECK(rest.count(reported) == 1);
  }
  CHECK(CodesWithout(kFallen, {"SHD101", "SHD103"}).count("SHD207") == 1);
}

TEST_CASE(
    "heads that do not divide are reported by any of the selected lints") {
  const LintExample& split = ExamplesOf("head-split").bad;
  const LintExample heads{.mesh = "tp:8",
                          .rules = R"(version: 1
axes: {head: tp}
rules:
  - match: 'q_proj/kernel'
    spec: [null, HEAD]
)",
                          .manifest = split.manifest,
                          .model = split.model};
  const auto all = CodesWithout(heads, {});
  CHECK(all.count("SHD220") == 1);
  CHECK(all.count("SHD409") == 0);
  CHECK(CodesWithout(heads, {"SHD220"}).count("SHD409") == 1);
}

TEST_CASE(
    "rules for other names are reported one by one if their lint is selected") {
  const LintExample& names = ExamplesOf("other-naming").bad;
  const auto all = CodesWithout(names, {});
  CHECK(all.count("SHD102") == 1);
  CHECK(all.count("SHD105") == 0);
  CHECK(CodesWithout(names, {"SHD102"}).count("SHD105") == 1);
}

}  // namespace
}  // namespace shardc
