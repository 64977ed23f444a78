// Reports parameters that no rule matches, with one finding for each parameter
// group. The tensors of a quantised checkpoint share one finding if the rules
// name the weights for which these tensors stand:
//
//   q_proj.qweight, q_proj.scales   rules for q_proj.weight  ->  one finding
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/fall_through.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {
namespace {

// The names of the tensors that stand for a module's `weight` in a quantised
// checkpoint. Each list begins with the tensor that holds the numbers.
constexpr std::array<std::array<std::string_view, 5>, 2> kQuantised = {{
    {"qweight", "qzeros", "scales", "g_idx", "zeros"},
    {"weight_packed", "weight_scale", "weight_shape", "weight_zero_point",
     "weight_g_idx"},
}};

// The unmatched tensors of quantised weights whose modules have a rule for
// `weight`.
struct QuantisedTensors {
  std::vector<const ParameterGroup*> groups;
  int64_t params = 0, bytes = 0;
  std::string weight;         // the weight for which the first tensor stands
  bool packs_output = false;  // whether numbers hold columns, as in AWQ
};

std::string_view NameOf(const Facts& facts, const ParameterGroup& group) {
  return facts.plan().names[facts.Members(group).front()];
}

// Returns the module of a tensor and the list of kQuantised that has its name.
std::pair<std::string_view, size_t> ModuleOf(std::string_view name,
                                             char separator) {
  const size_t at = name.rfind(separator);
  size_t list = kQuantised.size();
  if (at == name.npos) return {name, list};
  for (size_t i = 0; i < kQuantised.size(); ++i) {
    if (IsAmong(name.substr(at + 1), kQuantised[i])) list = i;
  }
  return {name.substr(0, at), list};
}

QuantisedTensors QuantisedTensorsOf(const Facts& facts) {
  QuantisedTensors out;
  const char separator = facts.separator();
  std::map<std::string_view, std::vector<const ParameterGroup*>> modules;
  std::vector<std::string> weights;
  std::vector<std::string_view> of;
  for (const ParameterGroup& group : facts.groups()) {
    if (!facts.LayoutOf(group).unmatched) continue;
    const std::string_view name = NameOf(facts, group);
    const auto [module, list] = ModuleOf(name, separator);
    if (list == kQuantised.size()) continue;
    modules[module].push_back(&group);
    if (!name.ends_with(kQuantised[list].front())) continue;
    of.push_back(module);
    weights.push_back(std::string(module) + separator + "weight");
  }
  if (weights.empty() || facts.compiled().matcher == nullptr) return out;
  const std::vector<std::string_view> names(weights.begin(), weights.end());
  const Matches matches = facts.compiled().matcher->Match(names, separator);
  for (size_t i = 0; i < names.size(); ++i) {
    if (matches.first[i] < 0) continue;
    if (out.weight.empty()) out.weight = weights[i];
    int64_t columns = 0, scales = 0;
    for (const ParameterGroup* group : modules.at(of[i])) {
      const std::string_view name = NameOf(facts, *group);
      const auto& shape = facts.TypeOf(*group).shape;
      out.groups.push_back(group);
      out.params += group->count();
      out.bytes += facts.TotalBytes(*group);
      if (!shape || shape->size() != 2) continue;
      if (name.ends_with("qweight")) columns = shape->back();
      if (name.ends_with("scales")) scales = shape->back();
    }
    out.packs_output = out.packs_output || (columns > 0 && columns < scales);
  }
  return out;
}

LintFinding QuantisedFinding(const Facts& facts, const QuantisedTensors& all) {
  const std::string_view first = NameOf(facts, *all.groups.front());
  const bool packed = first.find("weight_") != first.npos;
  const std::string scheme = packed             ? "compressed-tensors"
                             : all.packs_output ? "AWQ"
                                                : "GPTQ";
  LintFinding out = FindingAt(kUnmatchedParameter.code);
  out.message = "this is a tree of " + scheme + ": no rule matches " +
                Counted(all.params, "tensor") + " of quantised weights, " +
                BytesText(all.bytes) + " in all, such as " + Quoted(first) +
                "; the rules name " + Quoted(all.weight);
  out.help =
      std::string(
          "use rules for the stored tensors, which `shardc suggest` "
          "writes") +
      (packed ? ""
       : all.packs_output
           ? ": `weight` is [out, in], `qweight` is [in, out / N] with N "
             "weights in a number"
           : ": `weight` is [out, in], `qweight` is [in / N, out] with N "
             "weights in a number");
  for (const ParameterGroup* group : all.groups) {
    facts.AddNames(facts.Members(*group), out);
  }
  return out;
}

}  // namespace

void CheckUnmatchedParameter(const Facts& facts, FindingSink& sink) {
  if (facts.compiled().Unmatched() != UnmatchedPolicy::kError) return;
  const QuantisedTensors quantised = QuantisedTensorsOf(facts);
  if (!quantised.groups.empty()) {
    sink.push_back(QuantisedFinding(facts, quantised));
  }
  for (const ParameterGroup& group : facts.groups()) {
    if (!facts.LayoutOf(group).unmatched) continue;
    if (std::find(quantised.groups.begin(), quantised.groups.end(), &group) !=
        quantised.groups.end()) {
      continue;
    }
    LintFinding finding = GroupFinding(
        facts, kUnmatchedParameter.code, group,
        "no rule matches " + ParametersText(facts, group) +
            (facts.TotalBytes(group) > 0
                 ? ", " + BytesText(facts.TotalBytes(group)) + " in all"
                 : ""),
        "write a rule for it, or set `policy: {unmatched: replicate}`");
    // Findings without a subject are not joined. Each parameter group needs its
    // own rule, so each has its own finding.
    finding.subject.clear();
    finding.unless = {UnmatchedTopic(facts.Example(group))};
    if (const auto intended = facts.nearest().Of(group.name)) {
      finding.labels.push_back(
          {facts.RulePlace(intended->rule),
           "the nearest rule has " + Quoted(intended->written) +
               " where the name has " + Quoted(intended->found)});
      // The help names a second rule if that rule is almost as near to the
      // name.
      const auto second = facts.nearest().Of(
          group.name, NearestRules::Among::kAll, {intended->rule});
      const bool two = second && second->rule != intended->rule &&
                       second->matched >= intended->matched &&
                       EditsOf(*second) <= EditsOf(*intended) + 1;
      if (two) {
        finding.labels.push_back(
            {facts.RulePlace(second->rule),
             "as near: this rule has " + Quoted(second->written) +
                 " where the name has " + Quoted(second->found)});
      }
      if (!intended->rewrite.empty()) {
        finding.help = "was " + Quoted(intended->rewrite) +
                       (two && !second->rewrite.empty() &&
                                second->rewrite != intended->rewrite
                            ? " or " + Quoted(second->rewrite)
                            : "") +
                       " intended?";
      }
    }
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
