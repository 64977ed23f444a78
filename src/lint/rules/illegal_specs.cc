// Lints about specs that a shape or a mesh does not allow: an axis that is
// missing or used twice, a size that does not divide, too many entries.
//
//   [tp, null] for a parameter of shape [6], tp 4  ->  SHD204 and SHD202
#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/legality.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/topic.h"
#include "lint/rules/all.h"
#include "model/manifest.h"
#include "plan/compile.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {

// Reports a mesh axis that rules name and the mesh lacks. All rules that name
// the axis share one finding, which is placed at the first of them. The usual
// cause is that the axis has another name in the mesh, or that an axis rule is
// wrong. Specs of attention tensors are reported in separate findings.
//
//   three rules name `model`, and the mesh has dp and tp
//     ->  one finding at the first rule, with labels at the other two
namespace {

constexpr const char* kMissingHelp =
    "add the axis to the mesh, or change the axis rule";

std::string ObserveMissingAxis([[maybe_unused]] const Facts& facts,
                               const ParameterGroup& group, const Edit& edit) {
  return "the spec of " + ParametersText(facts, group) + " names axis " +
         Quoted(edit.axis) + ", which the mesh (" + MeshText(facts.mesh()) +
         ") lacks";
}

}  // namespace

void CheckMissingAxis(const Facts& facts, FindingSink& sink) {
  // The missing axis of each finding that ReportEdits adds.
  std::vector<std::string> axes;
  const size_t before = sink.size();
  ReportEdits(
      facts, kMissingAxis.code, Reason::kMissingAxis,
      [&](const ParameterGroup& group, const ModeLayout&, const Edit& edit) {
        axes.push_back(edit.axis);
        return ObserveMissingAxis(facts, group, edit);
      },
      kMissingHelp, sink);
  for (size_t i = 0; i < axes.size(); ++i) {
    LintFinding& finding = sink[before + i];
    const bool corrected = finding.level != kMissingAxis.code.level;
    finding.several = {axes[i], "the specs of ",
                       " name axis " + Quoted(axes[i]) + ", which the mesh (" +
                           MeshText(facts.mesh()) + ") lacks" +
                           (corrected ? "; the policy drops it" : "")};
  }
  ReportAttentionEdits(
      facts, kMissingAxis.code, Reason::kMissingAxis,
      [&](const std::string& tensors, const Edit& edit) {
        return "the specs of " + tensors + " name axis " + Quoted(edit.axis) +
               ", which the mesh (" + MeshText(facts.mesh()) + ") lacks";
      },
      kMissingHelp, sink);
}

namespace {

std::string ObserveIndivisibleDimension(const Facts& facts,
                                        const ParameterGroup& group,
                                        const Edit& edit) {
  const std::string size = std::to_string(edit.size);
  const int64_t block = BlockAlong(facts.TypeOf(group),
                                   static_cast<size_t>(edit.dim.value_or(0)));
  const int64_t units = edit.size / block;
  const std::string blocks = block == 1
                                 ? ""
                                 : ", which is " + std::to_string(units) +
                                       " blocks of " + std::to_string(block);
  if (edit.dim_parts.several()) {
    return "dimension " + std::to_string(edit.dim.value_or(0)) + " of " +
           ParametersText(facts, group) + " is " + size + ", " +
           AxesHave(facts, edit.from) + ", and the rule states " +
           PartsProblemText(edit);
  }
  return "dimension " + std::to_string(edit.dim.value_or(0)) + " of " +
         ParametersText(facts, group) + " is " + size + blocks + ", " +
         AxesHave(facts, edit.from) + ": " + std::to_string(units) + " % " +
         std::to_string(edit.parts) + " = " +
         std::to_string(edit.parts > 0 ? units % edit.parts : 0);
}

// Reports KV heads that `kv_replicate` cannot replicate over their axes. The
// projections with the same numbers are one finding.
void CheckKvHeads(const Facts& facts, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    const Edit* problem = nullptr;
    for (const ModeLayout& mode : facts.LayoutOf(group).modes) {
      for (const Edit& edit : mode.problems) {
        if (edit.reason == Reason::kKvHeads) problem = &edit;
      }
    }
    if (problem == nullptr) continue;
    LintFinding finding = GroupFinding(facts, kIndivisibleDimension.code, group,
                                       "", KvProblemHelp(*problem));
    finding.subject = "dimension " + std::to_string(problem->dim.value_or(0)) +
                      " of " + ParametersText(facts, group);
    const std::string after =
        " over " + GroupText(problem->from) + ", " + KvProblemText(*problem);
    finding.message = finding.subject + " is sharded" + after;
    finding.several = {after, "", " are sharded" + after};
    finding.reports = {HeadsTopic(problem->size, problem->parts)};
    sink.push_back(std::move(finding));
  }
}

}  // namespace

void CheckIndivisibleDimension(const Facts& facts, FindingSink& sink) {
  CheckKvHeads(facts, sink);
  const size_t before = sink.size();
  // Whether `illegal: pad` permits the spec of each finding.
  std::vector<bool> pads;
  // Why each finding is one with a finding that reports heads which the axes do
  // not divide: the dimension may count them, as a table of positions does.
  std::vector<Topic> heads;
  ReportEdits(
      facts, kIndivisibleDimension.code, Reason::kIndivisible,
      [&](const ParameterGroup& group, const ModeLayout&, const Edit& edit) {
        heads.push_back(HeadsTopic(edit.size, edit.parts));
        pads.push_back(!edit.dim_parts.several() &&
                       BlockAlong(facts.TypeOf(group),
                                  AsIndex(edit.dim.value_or(0))) == 1);
        return ObserveIndivisibleDimension(facts, group, edit);
      },
      "", sink);
  for (size_t i = 0; i < pads.size(); ++i) {
    sink[before + i].help =
        pads[i] ? "pad the dimension, use an axis that divides it, or write a "
                  "policy in the rule: `illegal: shrink` drops the axis, and "
                  "`illegal: pad` holds shards of different sizes"
                : "use an axis that divides each part and the blocks in it, or "
                  "write `illegal: shrink` in the rule, which drops the axis";
  }
  // If a policy of the rules file, such as `illegal: shrink`, corrects the
  // spec, the level of the finding is lowered. Its help does not suggest the
  // policy again.
  for (size_t i = before; i < sink.size(); ++i) {
    if (sink[i].level == kIndivisibleDimension.code.level) continue;
    sink[i].unless = {heads[i - before]};
    sink[i].help =
        "pad the dimension, use an axis that divides it, or leave the "
        "dimension unsharded in the spec";
  }
}

namespace {

constexpr const char* kRepeatedHelp =
    "use another axis, or none, for one of the two dimensions";

std::string ObserveRepeatedAxis(const Facts& facts, const ParameterGroup& group,
                                const ModeLayout& mode, const Edit& edit) {
  return "axis " + Quoted(edit.axis) + " is used twice in the spec of " +
         ParametersText(facts, group) + ", " + SpecText(mode.resolved);
}

}  // namespace

void CheckRepeatedAxis(const Facts& facts, FindingSink& sink) {
  ReportEdits(
      facts, kRepeatedAxis.code, Reason::kRepeatedAxis,
      [&](const ParameterGroup& group, const ModeLayout& mode,
          const Edit& edit) {
        return ObserveRepeatedAxis(facts, group, mode, edit);
      },
      kRepeatedHelp, sink);
  ReportAttentionEdits(
      facts, kRepeatedAxis.code, Reason::kRepeatedAxis,
      [&](const std::string& tensors, const Edit& edit) {
        return "axis " + Quoted(edit.axis) + " is used twice in the specs of " +
               tensors;
      },
      kRepeatedHelp, sink);
}

namespace {

// Returns a text that lists the entries of a spec for which the tensor has no
// dimension. The first of these entries is `first`.
std::string SurplusText(const Spec& spec, const Edit& first) {
  const Spec surplus(spec.begin() + first.dim.value_or(0), spec.end());
  if (surplus.size() > 1) {
    return "; the last " + std::to_string(surplus.size()) + " entries, " +
           SpecText(surplus) + ", have no dimension";
  }
  if (first.from.empty()) return {};
  return "; " + GroupText(first.from) + " has no dimension";
}

std::string ObserveSpecTooLong(const Facts& facts, const ParameterGroup& group,
                               const ModeLayout& mode, const Edit& first) {
  return "the spec of " + ParametersText(facts, group) + " has " +
         Counted(static_cast<int64_t>(mode.resolved.size()), "entry",
                 "entries") +
         ", the parameter " + Counted(facts.Rank(group), "dimension") +
         SurplusText(mode.resolved, first);
}

}  // namespace

void CheckSpecTooLong(const Facts& facts, FindingSink& sink) {
  ReportEdits(
      facts, kSpecTooLong.code, Reason::kTooLong,
      [&](const ParameterGroup& group, const ModeLayout& mode,
          const Edit& first) {
        return ObserveSpecTooLong(facts, group, mode, first);
      },
      "shorten the spec, or write a rule for this parameter", sink);
}

namespace {

// Returns the rule's spec if it is a list. Returns null if it is, for example,
// the name of a bundle (a named set of specs). A list without axes, such as
// [null], is reported for a scalar. The bundle Replicated is not, because it
// fits any shape.
const SpecList* WrittenSpec(const Rule& rule) {
  return std::get_if<SpecList>(&rule.spec);
}

}  // namespace

void CheckScalarSpec(const Facts& facts, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    if (facts.Rank(group) != 0 || group.rule < 0) continue;
    const auto index = static_cast<size_t>(group.rule);
    if (facts.rule_facts()[index].sketch.catch_all) continue;
    const auto spec = facts.RuleSpec(group.rule);
    if (!spec || spec->empty()) continue;
    const bool axes = !IsReplicated(*spec);
    if (!axes && WrittenSpec(facts.rules()[index]) == nullptr) continue;
    LintFinding finding = GroupFinding(
        facts, kScalarSpec.code, group,
        ParametersText(facts, group) +
            " is a scalar, and the first rule that matches it has the spec " +
            SpecText(*spec),
        "make the pattern narrower; a scalar is replicated whatever the rules "
        "are");
    if (!axes) finding.level = Level::kNote;
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
