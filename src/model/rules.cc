// Defines the built-in bundles, which are named lists of logical axes. A bundle
// has one entry for each dimension; `{"_"}` is an unsharded dimension. Some
// bundles are for one mode. The others have the number of a dimension whose
// size decides the mode: size 1 means decode. For example:
//
//   ColumnWise   ->  [[FSDP, SP], TP], for train
//   HiddenState  ->  [BATCH, QUERY_LENGTH, EMBED]; for decode if dimension 1
//                    has size 1
#include "model/rules.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace shardc {
namespace {

using Entry = std::initializer_list<std::string_view>;

// Makes a bundle with one entry for each dimension. An entry with several names
// is a group.
Bundle MakeBundle(std::string name, std::initializer_list<Entry> axes,
                  std::variant<Mode, int> mode) {
  Bundle bundle;
  bundle.name = std::move(name);
  bundle.mode = mode;
  for (const Entry& names : axes) {
    SpecEntry entry;
    entry.is_group = names.size() > 1;
    for (std::string_view text : names) {
      if (text != "_") entry.names.push_back({std::string(text), {}});
    }
    bundle.axes.entries.push_back(std::move(entry));
  }
  return bundle;
}

std::vector<Bundle> MakeBundles() {
  const Mode train = Mode::kTrain;
  std::vector<Bundle> all;
  all.push_back(
      MakeBundle("HiddenState", {{"BATCH"}, {"QUERY_LENGTH"}, {"EMBED"}}, 1));
  all.push_back(MakeBundle(
      "AttnQ", {{"BATCH"}, {"QUERY_LENGTH"}, {"HEAD"}, {"HEAD_DIM"}}, 1));
  all.push_back(MakeBundle(
      "AttnKV", {{"BATCH"}, {"KV_LENGTH"}, {"KV_HEAD"}, {"KV_HEAD_DIM"}}, 1));
  all.push_back(MakeBundle("RowWise", {{"TP"}, {"FSDP", "SP"}}, train));
  all.push_back(MakeBundle("SRowWise", {{"TP"}}, train));
  all.push_back(MakeBundle("ColumnWise", {{"FSDP", "SP"}, {"TP"}}, train));
  all.push_back(MakeBundle("SColumnWise", {{"FSDP", "SP"}}, train));
  all.push_back(MakeBundle("Replicated", {{"_"}}, train));
  all.push_back(
      MakeBundle("ExpertColumnWise", {{"EP"}, {"FSDP"}, {"TP"}}, train));
  all.push_back(MakeBundle("ExpertRowWise", {{"EP"}, {"TP"}, {"FSDP"}}, train));
  all.push_back(MakeBundle("ExpertColumnWiseAlt",
                           {{"EP"}, {"FSDP", "SP"}, {"TP"}}, train));
  all.push_back(
      MakeBundle("ExpertRowWiseAlt", {{"EP"}, {"TP"}, {"FSDP", "SP"}}, train));
  all.push_back(MakeBundle("UnifiedExpertColumnWise",
                           {{"FSDP", "SP", "EP"}, {"_"}, {"TP"}}, train));
  all.push_back(MakeBundle("UnifiedExpertRowWise",
                           {{"FSDP", "SP", "EP"}, {"TP"}, {"_"}}, train));
  all.push_back(
      MakeBundle("ExpertActivations", {{"DP"}, {"SP"}, {"EP"}, {"TP"}}, train));
  all.push_back(MakeBundle("ExpertActivationsAlt",
                           {{"DP"}, {"SP"}, {"TP", "FSDP"}}, train));
  all.push_back(
      MakeBundle("ExpertTensorParallel", {{"TP"}, {"_"}, {"_"}}, train));
  return all;
}

}  // namespace

std::string_view IllegalPolicyName(IllegalPolicy policy) {
  switch (policy) {
    case IllegalPolicy::kError:
      return "error";
    case IllegalPolicy::kDrop:
      return "drop";
    case IllegalPolicy::kShrink:
      return "shrink";
    case IllegalPolicy::kPad:
      return "pad";
  }
  return "error";
}

std::string_view UnmatchedPolicyName(UnmatchedPolicy policy) {
  return policy == UnmatchedPolicy::kError ? "error" : "replicate";
}

std::string_view CompatName(Compat compat) {
  switch (compat) {
    case Compat::kNone:
      return "none";
    case Compat::kEformer:
      return "eformer";
    case Compat::kFjformer:
      return "fjformer";
  }
  return "none";
}

bool NeedsAxisKey(const SpecName& name) {
  return name.is_mesh_axis &&
         (FindToken(name.text) != nullptr || ParseAxisRule(name.text));
}

std::string WrittenName(const SpecName& name, const std::string& text) {
  return NeedsAxisKey(name) ? "{axis: " + text + "}" : text;
}

std::string CanonicalToken(std::string_view name) {
  if (const Token* token = FindToken(name)) {
    return std::string(token->short_name);
  }
  if (name.size() > 4 && name.starts_with("__") && name.ends_with("__")) {
    name = name.substr(2, name.size() - 4);
  }
  return std::string(name);
}

bool RuleSet::IsLogical(std::string_view name) const {
  return FindToken(name) != nullptr || ParseAxisRule(name) ||
         std::any_of(registrations.begin(), registrations.end(),
                     [&](const Registration& one) {
                       return CanonicalToken(one.name) == CanonicalToken(name);
                     });
}

std::span<const Bundle> BuiltinBundles() {
  static const std::vector<Bundle> bundles = MakeBundles();
  return bundles;
}

const Bundle* FindBuiltinBundle(std::string_view name) {
  constexpr std::string_view kSuffix = "Sharding";
  if (name.ends_with(kSuffix)) name.remove_suffix(kSuffix.size());
  const auto bundles = BuiltinBundles();
  const auto at = std::find_if(bundles.begin(), bundles.end(),
                               [&](const Bundle& b) { return b.name == name; });
  return at == bundles.end() ? nullptr : &*at;
}

void SettleSeparators(RuleSet& rules, char names, Compat compat,
                      Findings& findings) {
  const Source* reported = nullptr;
  for (Rule& rule : rules.rules) {
    if (rule.separator_from == SeparatorFrom::kFile) continue;
    if (compat != Compat::kNone) {
      rule.separator = '/';
      rule.separator_from = SeparatorFrom::kCompat;
    } else if (rule.separator_from == SeparatorFrom::kNames) {
      rule.separator = names == 0 ? '/' : names;
    } else if (rule.separator_from == SeparatorFrom::kBoth &&
               rule.place.source.get() != reported) {
      reported = rule.place.source.get();
      findings.Add(code::kSeparator, rule.match_place,
                   "some patterns of this file are written with `/` and some "
                   "with `\\.`",
                   "say which of them separates the parts of a name: "
                   "`separator: \"/\"` or `separator: \".\"`");
    }
  }
}

// Applies logical axis rules in the order of the list. The first rule for a
// dimension sets its axes, unless another dimension already uses one of them.
// If the mesh lacks these axes, the dimension stays unsharded, and later rules
// cannot change it. Examples for a parameter with the logical names [embed,
// mlp], on a mesh with the axis tp:
//
//   rules mlp: tp, embed: tp  ->  [null, tp], because mlp's rule is first
//   rules mlp: ep, mlp: tp    ->  [null, null], because the mesh lacks ep

LogicalRules::LogicalRules(std::span<const LogicalRule> rules) : rules_(rules) {
  for (size_t r = 0; r < rules.size(); ++r) {
    by_name_[rules[r].name].push_back(r);
  }
}

Spec LogicalRules::Resolve(std::span<const AxisGroup> names,
                           const Mesh& mesh) const {
  // Maps the index of each rule that names a dimension of the parameter to the
  // first such dimension. The map is ordered, so that rules apply in their
  // order.
  std::map<size_t, size_t> dim_of;
  for (size_t dim = 0; dim < names.size(); ++dim) {
    if (names[dim].size() != 1) continue;
    const auto found = by_name_.find(names[dim][0]);
    if (found == by_name_.end()) continue;
    for (const size_t rule : found->second) dim_of.emplace(rule, dim);
  }
  Spec spec(names.size());
  std::vector<bool> settled(names.size());
  std::set<std::string> used;
  for (const auto& [r, dim] : dim_of) {
    const LogicalRule& rule = rules_[r];
    const bool taken = std::any_of(
        rule.axes.begin(), rule.axes.end(),
        [&](const std::string& axis) { return used.contains(axis); });
    if (settled[dim] || taken) continue;
    settled[dim] = true;
    used.insert(rule.axes.begin(), rule.axes.end());
    std::copy_if(
        rule.axes.begin(), rule.axes.end(), std::back_inserter(spec[dim]),
        [&](const std::string& axis) { return mesh.Find(axis).has_value(); });
  }
  return spec;
}

}  // namespace shardc
