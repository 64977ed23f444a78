// Reads `stages:` sections: valid ones, and ones that are refused, with the
// places of the findings.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "parse/project.h"
#include "parse/rules.h"
#include "render.h"

namespace shardc {
namespace {

std::string OfRules(const std::string& stages) {
  return FindingsOf("rules", "version: 1\nstages: " + stages + "\nrules: []\n");
}

std::string OfProject(const std::string& stages) {
  return FindingsOf("project",
                    "version: 1\ntargets:\n  t:\n    stages: " + stages + "\n");
}

TEST_CASE("a hostile section gives one finding at its value") {
  struct Case {
    std::string stages, starts;
  };
  const std::vector<Case> cases = {
      {"7", "2:9: error: "},
      {"[pp]", "2:9: error: "},
      {"{}", "2:9: error: `stages` has no `axis` [schema]"},
      {"{axis: 3}", "2:16: error: `axis` is the number `3`, not a string"},
      {"{axis: [pp]}", "2:16: error: `axis` is a list, not a string"},
      {"{axis: _}", "2:16: error: axis name `_` means no axis"},
      {"{axis: pp, virtual: 0}", "2:29: error: `virtual` is `0`"},
      {"{axis: pp, virtual: two}", "2:29: error: `virtual` is `two`"},
      {"{axis: pp, virtual: 99999999999999999999}", "2:29: error: `virtual` "},
      {"{axis: pp, microbatches: 1.5}", "2:34: error: `microbatches` "},
      {"{axis: pp, microbatches: -1}", "2:34: error: `microbatches` "},
      {"{axis: pp, assign: best}", "2:28: error: `assign` is"},
      {"{axis: pp, assign: 4}", "2:28: error: `assign` is"},
      {"{axis: pp, assign: []}", "2:28: error: `assign` is"},
      {"{axis: pp, assign: [4, -1]}",
       "2:32: error: the layers of a stage is `-1`"},
      {"{axis: pp, assign: {a: 1}}", "2:28: error: `assign` is"},
      {"{axis: pp, schedule: 1}", "2:30: error: `schedule` is"},
      {"{axis: pp, schedule: ''}", "2:30: error: `schedule` is empty"},
      {"{axis: pp, schedule: {}}", "2:30: error: "},
      {"{axis: pp, schedule: {file: ''}}", "2:37: error: `file` is empty"},
      {"{axis: pp, schedule: {name: zbv}}", "2:31: error: unknown key `name`"},
      {"{axs: pp}", "2:10: error: unknown key `axs`"},
      {"{axis: pp, tied: maybe}", "2:26: error: `tied` is"},
      {"{axis: pp, layers: 5}", "2:28: error: `layers` is"},
      {"{axis: pp, layers: ''}", "2:28: error: `layers` is empty"},
      {"{axis: pp, first: {}}",
       "2:27: error: `first` is a mapping, not a list of patterns"},
      {"{axis: pp, first: null}",
       "2:27: error: `first` is null, not a list of patterns"},
      {"{axis: pp, last: [1]}", "2:27: error: an entry of `last` is"},
      {"{axis: pp, stacked: []}",
       "2:29: error: `stacked` is a list, not a list of stacks of layers"},
      {"{axis: pp, stacked: ^layers}", "2:29: error: `stacked` is"},
      {"{axis: pp, stacked: [x]}", "2:30: error: "},
      {"{axis: pp, stacked: [{dim: 0}]}", "2:30: error: "},
      {"{axis: pp, stacked: [{match: x, dim: -1}]}", "2:46: error: `dim` is"},
      {"{axis: pp, stacked: [{match: x}], layers: y}",
       "2:29: error: `stages` has both `layers` and `stacked`"},
      {"{axis: pp, axis: tp}", "2:20: error: "},
      {"{axis: pp, stage: 2}", "2:20: error: unknown key `stage`"},
  };
  for (const Case& one : cases) {
    const std::string found = OfRules(one.stages);
    CAPTURE(one.stages);
    CAPTURE(found);
    CHECK(found.starts_with(one.starts));
    size_t errors = 0;
    for (size_t at = found.find(": error: "); at != std::string::npos;
         at = found.find(": error: ", at + 1)) {
      ++errors;
    }
    CHECK(errors == 1);
  }
}

TEST_CASE("a sound section, and none, give no findings") {
  for (const char* stages :
       {"null", "{axis: pp}",
        "{axis: pp, virtual: 2, assign: [0, 9, 8], tied: copies, "
        "schedule: interleaved, microbatches: 32}",
        "{axis: pp, schedule: {file: s.csv}, first: [], last: norm}",
        "{axis: pp, stacked: [{match: ^layers}, {match: moe, dim: 1}]}"}) {
    CAPTURE(stages);
    CHECK(OfRules(stages).empty());
    CHECK(OfProject(stages).empty());
  }
}

TEST_CASE("a target may leave out the axis, which its rules give") {
  CHECK(OfProject("{schedule: zbv}").empty());
  CHECK(OfProject("{schedule: {file: ../../../out.csv}}")
            .find("`file` leads out of the project's repository: ") !=
        std::string::npos);
}

RuleSet RulesWith(const std::string& stages) {
  RuleSet out;
  out.sources.push_back(MakeSource(
      "folder/rules.yaml", "version: 1\nrules: []\nstages: " + stages + "\n"));
  return out;
}

Target TargetWith(const std::string& stages) {
  Target out;
  out.name = "t";
  out.place = {
      MakeSource("shardc.yaml",
                 "version: 1\ntargets:\n  t:\n    stages: " + stages + "\n"),
      0, 1};
  return out;
}

TEST_CASE("keys of the target win, the others are those of the rules") {
  Findings findings;
  const auto stages = DeclaredStages(
      TargetWith("{schedule: zbv, microbatches: 64}"),
      RulesWith("{axis: pp, schedule: 1f1b, microbatches: 8, assign: even, "
                "layers: 'h(.)', tied: error}"),
      {}, findings);
  CHECK(findings.empty());
  REQUIRE(stages);
  CHECK(stages->axis == "pp");
  CHECK(stages->schedule == "zbv");
  CHECK(stages->microbatches == 64);
  CHECK(stages->assign == StageAssignment::kEven);
  CHECK(stages->copies == false);
  REQUIRE(stages->layers);
  CHECK(stages->layers->match == "h(.)");
}

TEST_CASE("the path of a schedule is relative to the file that names it") {
  Findings findings;
  const auto stages = DeclaredStages(
      {}, RulesWith("{axis: pp, schedule: {file: own.csv}}"), {}, findings);
  REQUIRE(stages);
  CHECK(stages->schedule == "folder/own.csv");
  CHECK(stages->schedule_is_file);
}

TEST_CASE("a section without an axis is refused if the rules have none") {
  Findings findings;
  CHECK_FALSE(DeclaredStages(TargetWith("{schedule: zbv}"), {}, {}, findings));
  CHECK(Render(findings).starts_with(
      "4:13: error: `stages` has no `axis`, and neither have the rules files"));
  Findings none;
  CHECK_FALSE(DeclaredStages(TargetWith("null"), RulesWith("null"), {}, none));
  CHECK(none.empty());
}

}  // namespace
}  // namespace shardc
