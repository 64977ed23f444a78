// Lints about the memory of a device: large parameters that are replicated,
// small ones that are sharded, and a plan that does not fit, or hardly.
//
//   embedding [128256, 4096] without axes  ->  each device has all of it
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lint/analysis/companions.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/memory.h"
#include "lint/analysis/pattern_faults.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {

// Reports large parameters that are replicated. One finding is reported for
// each rule that replicates such parameters, and one for all parameters without
// a rule. If the whole model is replicated, that is one error instead
// (lint/analysis/memory.h). Rules that would shard the parameters, but
// only over axes that this mesh lacks or has with size 1, share one finding,
// because they have the same cause:
//
//   rules over fsdp, mesh tp:8  ->  one finding, with the bytes of all
namespace {

using Groups = std::vector<const ParameterGroup*>;

// Reports groups of one or more rules as one finding. The finding is at the
// place of the first rule, and the places of the other rules are labels. The
// message begins with `cause`.
void Report(const Facts& facts, const Groups& groups, const std::string& cause,
            std::string help, FindingSink& sink) {
  LintFinding finding =
      FindingAt(kLargeReplicated.code, facts.GroupPlace(*groups.front()));
  std::vector<std::string> texts;
  std::set<int32_t> rules = {groups.front()->rule};
  int64_t params = 0;
  int64_t bytes = 0;
  for (const ParameterGroup* group : groups) {
    params += group->count();
    texts.push_back(ParametersText(facts, *group));
    bytes = CheckedAdd(bytes, facts.TotalBytes(*group)).value_or(INT64_MAX);
    facts.AddNames(facts.Members(*group), finding);
    if (rules.insert(group->rule).second) {
      finding.labels.push_back({facts.GroupPlace(*group), "and here"});
    }
    // If a catch-all replicates the parameter, another lint reports that.
    finding.unless.push_back(ReplicatedTopic(facts.Example(*group)));
  }
  finding.message =
      cause + ListText(texts) + ", " + BytesText(bytes) + " (" +
      PercentText(bytes, facts.total_bytes()) + " of the model), " +
      (params == 1 ? "is" : "are") + " replicated on " +
      Counted(DevicesOfRank(facts.mesh(), facts.plan().stages), "device");
  finding.help = std::move(help);
  sink.push_back(std::move(finding));
}

// Reports rules that would shard only over axes that this mesh lacks or has
// with size 1.
void ReportAbsent(const Facts& facts, const Groups& groups, FindingSink& sink) {
  AxisGroup axes;
  for (const ParameterGroup* group : groups) {
    for (const std::string& axis : facts.RequestedAxes(group->rule)) {
      AddOnce(axes, axis);
    }
  }
  std::vector<std::string> names;
  for (const std::string& axis : axes) names.push_back(Quoted(axis));
  Report(facts, groups,
         "the rules split over " + ListText(names, 5) +
             " only, which the mesh (" + MeshText(facts.mesh()) +
             ") lacks or has with size 1: ",
         "write the rules for an axis of the mesh, or add the axis to the mesh",
         sink);
}

}  // namespace

void CheckLargeReplicated(const Facts& facts, FindingSink& sink) {
  if (auto whole = WholeModelReplicated(facts, kLargeReplicated.code)) {
    sink.push_back(std::move(*whole));
    return;
  }
  std::map<int32_t, Groups> by_rule;
  Groups absent;
  const std::set<const ParameterGroup*> needed = ScalesNeededWhole(facts);
  for (const ParameterGroup& group : facts.groups()) {
    if (facts.Elements(group) < kLargeElements || !facts.Replicated(group) ||
        needed.contains(&group)) {
      continue;
    }
    if (!facts.Judged(group) || IsReplicatedHalf(facts, group)) continue;
    const int64_t bytes = facts.TotalBytes(group);
    if (bytes < facts.total_bytes() / 100) continue;
    const bool corrected = !facts.Train(group).edits.empty();
    if (!corrected && !facts.RequestedAxes(group.rule).empty()) {
      absent.push_back(&group);
    } else {
      by_rule[group.rule].push_back(&group);
    }
  }
  if (!absent.empty()) ReportAbsent(facts, absent, sink);
  for (const auto& [rule, groups] : by_rule) {
    Report(facts, groups, "",
           facts.IsEditable(rule)
               ? "split a dimension, or write `# shardc: ignore[SHD207]` and "
                 "the reason above the rule"
               : "write a rule that splits a dimension",
           sink);
  }
}

namespace {

// A shard with fewer bytes than this is not worth the latency of its
// collectives.
constexpr int64_t kTinyShardBytes = 256;

}  // namespace

void CheckTinySharded(const Facts& facts, FindingSink& sink) {
  for (size_t r = 0; r < facts.rule_facts().size(); ++r) {
    std::vector<std::string> texts;
    LintFinding finding =
        FindingAt(kTinySharded.code, facts.RulePlace(static_cast<int32_t>(r)));
    int64_t count = 0;
    for (uint32_t index : facts.rule_facts()[r].groups) {
      const ParameterGroup& group = facts.groups()[index];
      const auto shard = facts.Train(group).bytes_per_device;
      if (!shard || facts.Illegal(group) || facts.Parts(group) <= 1) continue;
      if (*shard >= kTinyShardBytes || *shard == 0) continue;
      texts.push_back(ParametersText(facts, group));
      count += group.count();
      facts.AddNames(facts.Members(group), finding);
    }
    if (texts.empty()) continue;
    finding.message = Counted(count, "parameter") +
                      (count == 1 ? " is" : " are") +
                      " split into shards of less than " +
                      BytesText(kTinyShardBytes) + ": " + ListText(texts);
    finding.help = "replicate them, or set `min_size`";
    sink.push_back(std::move(finding));
  }
}

void CheckMemoryOverBudget(const Facts& facts, FindingSink& sink) {
  const auto use = MostMemory(facts);
  const int64_t memory = *facts.inputs().memory_bytes;
  if (!use || use->Total() <= memory) return;
  LintFinding finding = FindingAt(kMemoryOverBudget.code, facts.MeshPlace());
  finding.message = use->Device() + " needs " + BytesText(use->Total()) +
                    " in " + std::string(ModeName(use->mode)) + " and has " +
                    BytesText(memory) + ": " + use->ToString();
  finding.help = use->cache > use->parameters
                     ? "split the cache over more devices, or use a smaller "
                       "batch or length"
                     : "split the parameters over more devices";
  sink.push_back(std::move(finding));
}

void CheckMemoryTight(const Facts& facts, FindingSink& sink) {
  const auto use = MostMemory(facts);
  const int64_t memory = *facts.inputs().memory_bytes;
  if (!use || use->Total() > memory || use->Total() < memory - memory / 10) {
    return;
  }
  LintFinding finding = FindingAt(kMemoryTight.code, facts.MeshPlace());
  finding.message = use->Device() + " needs " + BytesText(use->Total()) +
                    " of its " + BytesText(memory) + " in " +
                    std::string(ModeName(use->mode)) + ": " + use->ToString() +
                    ", activations not counted";
  finding.help = "split over more devices, or use a smaller batch";
  sink.push_back(std::move(finding));
}

}  // namespace shardc
