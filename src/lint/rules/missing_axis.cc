// Rules that name one axis which the mesh lacks are one finding, at the first:
// most often the axis is called otherwise, or an axis rule is wrong.
//
//   three rules over `model`, mesh dp, tp  ->  one finding, two labels
#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lint/analysis/attention_edits.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/legality.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {
namespace {

constexpr const char* kHelp =
    "add the axis to the mesh, or change the axis rule";

std::string Observe([[maybe_unused]] const Facts& facts,
                    const ParameterGroup& group, const Edit& edit) {
  return "the spec of " + ParametersText(facts, group) + " names axis " +
         Quoted(edit.axis) + ", which the mesh (" + MeshText(facts.mesh()) +
         ") lacks";
}

// What names one axis that lacks, by several rules.
struct Lacking {
  std::string axis;
  Level level = Level::kError;
  std::vector<LintFinding> findings;
};

constexpr std::string_view kLacks = ") lacks";

// What follows the observation: modes, and what the policy made of it.
std::string TailOf(const Finding& finding) {
  const size_t at = finding.message.find(kLacks);
  return finding.message.substr(at + kLacks.size());
}

LintFinding Joined(const Facts& facts, Lacking&& lacking) {
  LintFinding out = std::move(lacking.findings.front());
  if (lacking.findings.size() == 1) return out;
  std::vector<std::string> subjects = {out.subject};
  std::string tail = TailOf(out);
  std::set<size_t> places = {out.place.begin};
  for (size_t i = 1; i < lacking.findings.size(); ++i) {
    LintFinding& more = lacking.findings[i];
    subjects.push_back(more.subject);
    if (TailOf(more) != tail) tail.clear();
    out.params.insert(out.params.end(), more.params.begin(), more.params.end());
    if (places.insert(more.place.begin).second) {
      out.labels.push_back({more.place, "names it too"});
    }
  }
  out.message = "the specs of " + ListText(subjects) + " name axis " +
                Quoted(lacking.axis) + ", which the mesh (" +
                MeshText(facts.mesh()) + std::string(kLacks) + tail;
  out.subject.clear();
  return out;
}

void Check(const Facts& facts, FindingSink& sink) {
  std::vector<std::string> axes;  // of the findings that follow
  FindingSink each;
  ReportEdits(
      facts, kMissingAxis.code, Reason::kMissingAxis,
      [&](const ParameterGroup& group, const Edit& edit) {
        axes.push_back(edit.axis);
        return Observe(facts, group, edit);
      },
      kHelp, each);
  std::vector<Lacking> all;
  for (size_t i = 0; i < each.size(); ++i) {
    auto at = std::find_if(all.begin(), all.end(), [&](const Lacking& one) {
      return one.axis == axes[i] && one.level == each[i].level;
    });
    if (at == all.end()) at = all.insert(at, {axes[i], each[i].level, {}});
    at->findings.push_back(std::move(each[i]));
  }
  for (Lacking& one : all) sink.push_back(Joined(facts, std::move(one)));
  ReportAttentionEdits(
      facts, kMissingAxis.code, Reason::kMissingAxis,
      [&](const std::string& tensors, const Edit& edit) {
        return "the specs of " + tensors + " name axis " + Quoted(edit.axis) +
               ", which the mesh (" + MeshText(facts.mesh()) + ") lacks";
      },
      kHelp, sink);
}

}  // namespace

constinit const Lint kMissingAxis{
    .code = {201, "missing-axis", Level::kError,
             "a spec names an axis that the mesh lacks"},
    .what =
        "Finds specs, of parameters and of attention's tensors, that "
        "resolve to an axis which is not in the mesh and is none of the "
        "parallelism axes. A name that a "
        "spec itself writes and that means nothing is the reading "
        "error unknown-name.",
    .why =
        "The parameter cannot be placed. A policy that corrects it "
        "leaves the dimension whole on every device.",
    .instead = "Use an axis of the mesh.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
axes: {mlp_intermediate: model}
rules:
  - match: 'up/kernel'
    spec: [FSDP, MLP_INTERMEDIATE]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/up/kernel": {"shape": [1024, 5120], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
axes: {mlp_intermediate: tp}
rules:
  - match: 'up/kernel'
    spec: [FSDP, MLP_INTERMEDIATE]
)"},
    .check = Check};

}  // namespace shardc
