// Runs the lints that `plan` needs. Several lints may report that most of the
// model is replicated. Only the finding that is nearest to the cause is
// returned:
//
//   everything is replicated, and patterns use dots although the file's
//   separator is `/`  ->  only SHD113
#include "cli/plan_findings.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/memory.h"
#include "lint/analysis/phrase.h"
#include "lint/baseline.h"
#include "lint/rules/all.h"
#include "lint/run.h"
#include "parse/project.h"
#include "source/wording.h"
#include "target/open.h"

namespace shardc::cli {

namespace {

// The bytes of all parameters, and of those that are replicated on every
// device.
struct Share {
  int64_t replicated = 0;
  int64_t all = 0;
};

Share ReplicatedShare(const Plan& plan) {
  // Many parameters share a layout (rule, type and specs). Element i has the
  // bytes of one parameter that has layout i. `replicated` is all of these
  // bytes, or 0 if the spec shards the parameter.
  std::vector<Share> of_layouts;
  of_layouts.reserve(plan.layouts.size());
  for (const ParamLayout& layout : plan.layouts) {
    const int64_t bytes = plan.types[layout.type].Bytes().value_or(0);
    const Spec& spec = layout.modes[0].spec;
    const bool split =
        std::any_of(spec.begin(), spec.end(), [&](const AxisGroup& axes) {
          return plan.mesh.Parts(axes).value_or(1) > 1;
        });
    of_layouts.push_back({split ? 0 : bytes, bytes});
  }
  Share out;
  for (const PlannedParam& param : plan.params) {
    const Share& one = of_layouts[param.layout];
    out.all += one.all;
    if (!param.IsPlaced()) out.replicated += one.replicated;
  }
  return out;
}

// Returns what `check` reports of the findings: with the levels of the
// settings, and without those that the settings or a comment of a rules file
// ignore.
FindingSink AsChecked(FindingSink found, const Facts& facts,
                      const LintSettings& settings) {
  Findings wrong;  // reported by `check`
  const auto selection = Selection::Make(settings, false, wrong);
  if (selection) {
    std::erase_if(found, [&](const LintFinding& one) {
      return !selection->Selects(*one.code);
    });
    for (LintFinding& one : found) {
      one.level = selection->LevelOf(one);
    }
  }
  std::vector<Ignore> ignores;
  for (const SourceRef& source : facts.compiled().rules.sources) {
    std::ranges::move(IgnoreCommentsIn(source).ignores,
                      std::back_inserter(ignores));
  }
  ApplyIgnores(ignores, found);
  return found;
}

}  // namespace

const Code& CodeOf(Reason reason) {
  switch (reason) {
    case Reason::kMissingAxis:
      return kMissingAxis.code;
    case Reason::kRepeatedAxis:
      return kRepeatedAxis.code;
    case Reason::kTooLong:
      return kSpecTooLong.code;
    default:
      return kIndivisibleDimension.code;
  }
}

Findings SeparatorFindings(const Compiled& compiled) {
  LintInputs inputs;
  inputs.compiled = &compiled;
  const Facts facts(inputs);
  FindingSink found;
  kSeparatorMismatch.check(facts, found);
  Findings findings;
  for (Finding& finding : OnceEach(std::move(found), compiled.plan.names)) {
    findings.Add(std::move(finding));
  }
  return findings;
}

Findings ReplicatedFindings(const Target& target, const Compiled& compiled,
                            const LintSettings& settings) {
  Findings findings;
  const Plan& plan = compiled.plan;
  const Share share = ReplicatedShare(plan);
  const int64_t devices = DevicesOfRank(plan.mesh, plan.stages);
  const bool some = share.all > 0 && share.replicated <= share.all / 2;
  if (devices <= 1 || some) return findings;
  LintInputs inputs;
  inputs.compiled = &compiled;
  inputs.mesh_place = MeshPlace(target.mesh);
  const Facts facts(inputs);
  FindingSink whole;
  if (auto one = WholeModelReplicated(facts, kLargeReplicated.code)) {
    whole = AsChecked({std::move(*one)}, facts, settings);
  }
  const bool refuses = !whole.empty() && whole.front().level == Level::kError;
  const Code* cause = nullptr;
  for (const Lint* lint : {&kSeparatorMismatch, &kOtherNaming,
                           &kCatchAllReplicates, &kCatchAllTakesLarge}) {
    FindingSink found;
    lint->check(facts, found);
    found = AsChecked(std::move(found), facts, settings);
    if (found.empty()) continue;
    // A plan of a partly replicated model is written, so what `check` reports
    // as an error about it is only named here.
    if (!refuses && found.front().level == Level::kError) {
      cause = &lint->code;
      break;
    }
    // Only the lint's first finding is returned.
    found.erase(found.begin() + 1, found.end());
    for (Finding& finding : OnceEach(std::move(found), plan.names)) {
      // A warning that is the cause of an error is this error.
      if (refuses) finding.level = Level::kError;
      findings.Add(std::move(finding));
    }
    return findings;
  }
  if (!whole.empty()) {
    findings.Add(std::move(whole.front()));
    return findings;
  }
  if (share.all == 0) return findings;
  Finding& finding = findings.Add(
      kLargeReplicated.code, {compiled.manifest.source},
      BytesText(share.replicated) + " (" +
          PercentText(share.replicated, share.all) +
          " of the model) are replicated on each of " +
          Counted(devices, "device") +
          (plan.stages ? " of a pipeline rank" : ""),
      cause == nullptr ? "shard the largest parameters over an axis of the mesh"
                       : "`shardc check` reports the cause as an error (" +
                             cause->Id() + ") and names the parameters");
  finding.level = Level::kWarning;
  return findings;
}

Findings PlanFindings(const Compiled& compiled) {
  Findings findings;
  if (!compiled.HasIllegal() && !compiled.HasUnmatched()) return findings;
  LintInputs inputs;
  inputs.compiled = &compiled;
  const Facts facts(inputs);
  FindingSink found;
  const bool refused = compiled.HasUnmatched() &&
                       compiled.Unmatched() == UnmatchedPolicy::kError;
  if (refused) {
    kSeparatorMismatch.check(facts, found);
    kOtherNaming.check(facts, found);
    kUnmatchedParameter.check(facts, found);
  }
  for (const Lint* lint :
       {&kMissingAxis, &kIndivisibleDimension, &kRepeatedAxis, &kSpecTooLong}) {
    lint->check(facts, found);
  }
  for (Finding& finding : OnceEach(std::move(found), compiled.plan.names)) {
    // An illegal spec that the policy corrects is not an error. The correction
    // is in the plan, so it is not reported here.
    if (finding.level == Level::kError) findings.Add(std::move(finding));
  }
  return findings;
}

Findings StageFindings(const Compiled& compiled) {
  Findings out;
  for (const Finding& finding : compiled.stage_findings) out.Add(finding);
  return out;
}

}  // namespace shardc::cli
