#include <set>
#include <string>

#include "lint/analysis/attention_edits.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/stages.h"
#include "lint/analysis/whole_model.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {
namespace {

void Take(std::set<std::string>& used, const Spec& spec) {
  for (const AxisGroup& group : spec) used.insert(group.begin(), group.end());
}

// Returns whether an axis comes from an axis rule that shards heads and has its
// default value. Such a rule does not prove that the axis is used: if the axis
// shards no parameter, it shards no heads either.
bool SplitsHeadsByDefault(const Facts& facts, const NameTrace& trace) {
  if (Written(facts, trace)) return false;
  auto rule = ParseAxisRule(trace.rule);
  while (rule && rule != AxisRule::kTensorParallel) rule = DerivedFrom(*rule);
  return rule.has_value();
}

void TakeAttention(std::set<std::string>& used, const Facts& facts) {
  for (const ModeAttention& mode : facts.plan().attention) {
    for (const AttentionLayout& layout : mode.tensors) {
      for (const auto& dimension : layout.why.traces) {
        for (const NameTrace& trace : dimension) {
          if (SplitsHeadsByDefault(facts, trace)) continue;
          used.insert(trace.axes.begin(), trace.axes.end());
        }
      }
    }
  }
}

}  // namespace

void CheckUnusedMeshAxis(const Facts& facts, FindingSink& sink) {
  std::set<std::string> used;
  for (const ParameterGroup& group : facts.groups()) {
    for (const ModeLayout& mode : facts.LayoutOf(group).modes) {
      Take(used, mode.resolved);
    }
  }
  TakeAttention(used, facts);
  used.insert(facts.plan().placement_axes.begin(),
              facts.plan().placement_axes.end());
  // The axis of pipeline stages is used, because its ranks hold different
  // layers.
  used.insert(StageAxis(facts));
  for (const MeshAxis& axis : facts.mesh().axes) {
    if (axis.size <= 1 || used.count(axis.name) > 0) continue;
    LintFinding finding = FindingAt(kUnusedMeshAxis.code, facts.MeshPlace());
    finding.reports = {UnusedAxisTopic(axis.name)};
    // If another finding reports that nothing uses this axis, such as one about
    // experts that are not sharded, this finding is redundant.
    finding.unless = finding.reports;
    finding.message = "nothing uses mesh axis " + Quoted(axis.name) +
                      " of size " + std::to_string(axis.size) +
                      ": no rule splits a parameter or attention over it,"
                      " so " +
                      Counted(axis.size, "device") + " do the same work";
    const std::string purpose = PurposeText(facts, axis.name);
    finding.help =
        (purpose.empty() ? "" : "write `" + purpose + "` in the rules file, ") +
        "use it in a spec or an axis rule, or add its devices to another axis";
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
