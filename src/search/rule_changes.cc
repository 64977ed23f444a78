// Changes the rules of a file for a search. A change of axis rules is written
// to the section `axes:`. Another change replicates the weights of one purpose,
// such as attention, over the data axes. For this, the data axes are removed
// from the rules that win (are the first to match) only weights of this
// purpose. Such rules are changed in place, or changed copies of them are
// added. A copy is placed before the rules of the extended files, so that it
// wins. For example, the copy on the right replicates q_proj over data axes:
//
//   - match: 'self_attn\.q_proj\.weight$'     - match: 'self_attn\.q_proj...'
//     spec: [HEAD, [FSDP, SP]]           ->     spec: [HEAD, null]
#include "search/rule_changes.h"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "model/name.h"
#include "roles/classify.h"
#include "source/index.h"

namespace shardc::search {
namespace {

// The purposes of weights. kEnds are the embedding and the output head.
enum class Family : uint8_t { kNone, kAttention, kEnds, kOther };

Family FamilyOf(Role role) {
  if (IsAttention(role)) return Family::kAttention;
  const bool end = role == Role::kEmbedding || role == Role::kHead;
  return end ? Family::kEnds : Family::kOther;
}

// Returns the purpose of the weights that each rule wins (is the first to
// match), indexed by rule. The purpose is kNone if the rule wins no weight, and
// kOther if its weights have several purposes.
std::vector<Family> FamiliesOf(const Compiled& all) {
  std::vector<Family> out(all.rules.rules.size(), Family::kNone);
  const char separator = all.manifest.separator;
  std::map<std::pair<std::string, uint32_t>, bool> seen;
  for (size_t i = 0; i < all.plan.params.size(); ++i) {
    const int32_t rule = all.matches.first[i];
    const uint32_t layout = all.plan.params[i].layout;
    const auto& type = all.plan.types[all.plan.layouts[layout].type];
    if (rule < 0 || !type.shape || type.shape->size() < 2) continue;
    const std::string name = NameTemplate(all.plan.names[i], separator);
    if (!seen.try_emplace({name, layout}, true).second) continue;
    const Family family = FamilyOf(Classify(name, separator).module_role);
    Family& known = out[AsIndex(rule)];
    known = known == Family::kNone || known == family ? family : Family::kOther;
  }
  return out;
}

bool IsDataRule(AxisRule rule) {
  return rule == AxisRule::kDataParallel ||
         rule == AxisRule::kFullyShardedDataParallel ||
         rule == AxisRule::kSequenceParallel;
}

// Returns whether a name in a spec (a logical axis or a mesh axis) is a data
// axis: an axis of data, fully sharded data or sequence parallelism.
bool NamesData(const SpecName& name, const Resolver& resolver) {
  if (!resolver.MeansMeshAxis(name)) {
    const Token* const token = FindToken(name.text);
    if (token != nullptr) return token->rule && IsDataRule(*token->rule);
    if (const auto rule = ParseAxisRule(name.text)) return IsDataRule(*rule);
  }
  const std::span<const AxisRule> rules = ParallelismRules();
  return std::any_of(rules.begin(), rules.end(), [&](AxisRule rule) {
    const AxisGroup group = resolver.axes().Value(rule).axes;
    return IsDataRule(rule) &&
           std::find(group.begin(), group.end(), name.text) != group.end();
  });
}

// Returns the spec without its data axes. Returns nullopt if the spec has no
// data axes, or if it is not a list.
std::optional<SpecSource> WithoutData(const SpecSource& spec,
                                      const Resolver& resolver) {
  const auto* const list = std::get_if<SpecList>(&spec);
  if (list == nullptr) return std::nullopt;
  SpecList out = *list;
  bool changed = false;
  for (SpecEntry& entry : out.entries) {
    changed = std::erase_if(entry.names,
                            [&](const SpecName& name) {
                              return NamesData(name, resolver);
                            }) > 0 ||
              changed;
    entry.is_group = entry.names.size() > 1;
  }
  return changed ? std::optional<SpecSource>(std::move(out)) : std::nullopt;
}

// Returns whether copies of these rules, placed first, would win parameters
// that other rules win now.
bool WouldWinOthers(const Compiled& all, const std::vector<size_t>& copied) {
  const auto is_copied = [&](uint32_t rule) {
    return std::find(copied.begin(), copied.end(), rule) != copied.end();
  };
  for (size_t i = 0; i < all.matches.first.size(); ++i) {
    const int32_t first = all.matches.first[i];
    if (first < 0 || is_copied(static_cast<uint32_t>(first))) continue;
    const auto rules = all.matches.Of(i);
    if (std::any_of(rules.begin(), rules.end(), is_copied)) return true;
  }
  return false;
}

bool HoldWeights(const Compiled& all, const RuleChanges& changes, bool in_place,
                 RulesFile& file) {
  const std::vector<Family> families = FamiliesOf(all);
  std::vector<size_t> copied;
  std::vector<ImportedRule> copies;
  for (size_t i = 0; i < families.size(); ++i) {
    const bool held =
        (changes.holds_attention && families[i] == Family::kAttention) ||
        (changes.holds_ends && families[i] == Family::kEnds);
    if (!held || all.rules.rules[i].placement) continue;
    auto spec = WithoutData(all.rules.rules[i].spec, *all.resolver);
    if (!spec) continue;
    copied.push_back(i);
    if (in_place) {
      file.own.rules[i].rule.spec = std::move(*spec);
      continue;
    }
    ImportedRule copy;
    copy.rule = all.rules.rules[i];
    copy.rule.spec = std::move(*spec);
    copy.comments = {"Not sharded over data axes: no gather before use."};
    copies.push_back(std::move(copy));
  }
  if (copied.empty() || (!in_place && WouldWinOthers(all, copied))) {
    return false;
  }
  if (!copies.empty()) file.own.separator = copies.front().rule.separator;
  file.own.rules.insert(file.own.rules.begin(),
                        std::make_move_iterator(copies.begin()),
                        std::make_move_iterator(copies.end()));
  return true;
}

bool HoldsAll(const AxisGroup& all, const AxisGroup& some) {
  return std::all_of(some.begin(), some.end(), [&](const std::string& axis) {
    return std::find(all.begin(), all.end(), axis) != all.end();
  });
}

}  // namespace

std::optional<RulesFile> Changed(const RulesFile& file, const Compiled& all,
                                 const RuleChanges& changes, bool in_place) {
  RulesFile out = file;
  const AxisRules& axes = all.rules.axes;
  if (changes.replicates_keys) {
    if (axes.Value(AxisRule::kKvHead).axes.empty()) return std::nullopt;
    out.own.axes.Set(AxisRule::kKvHead, {});
  }
  if (changes.turns_hidden) {
    const AxisGroup tensor = axes.Value(AxisRule::kTensorParallel).axes;
    if (tensor.empty()) return std::nullopt;
    const bool sharded = !axes.Value(AxisRule::kHiddenState).axes.empty();
    out.own.axes.Set(AxisRule::kHiddenState,
                     sharded ? AxisValue{} : AxisValue{false, tensor});
  }
  if (changes.batch_over_experts) {
    AxisGroup batch = axes.Value(AxisRule::kBatch).axes;
    const AxisGroup experts = axes.Value(AxisRule::kExpertParallel).axes;
    if (experts.empty() || HoldsAll(batch, experts)) return std::nullopt;
    batch.insert(batch.end(), experts.begin(), experts.end());
    out.own.axes.Set(AxisRule::kBatch, {false, std::move(batch)});
  }
  if (changes.whole_experts) {
    AxisGroup experts = axes.Value(AxisRule::kExpert).axes;
    const AxisGroup tensor = axes.Value(AxisRule::kTensorParallel).axes;
    // Rules that are written for a mesh name its axes, and not axis rules.
    if (in_place || tensor.empty() || HoldsAll(experts, tensor)) {
      return std::nullopt;
    }
    experts.insert(experts.end(), tensor.begin(), tensor.end());
    out.own.axes.Set(AxisRule::kExpert, {false, std::move(experts)});
  }
  if ((changes.holds_attention || changes.holds_ends) &&
      !HoldWeights(all, changes, in_place, out)) {
    return std::nullopt;
  }
  return out;
}

std::string ChangesText(const RuleChanges& changes, bool hidden_sharded) {
  std::string out;
  const auto add = [&](bool is, const char* text) {
    if (is) out += (out.empty() ? "" : ", ") + std::string(text);
  };
  add(changes.turns_hidden, hidden_sharded ? "hidden states not sharded over tp"
                                           : "hidden states sharded over tp");
  add(changes.replicates_keys, "KV heads replicated over tp");
  add(changes.batch_over_experts, "batch over the experts' axis");
  add(changes.whole_experts, "experts whole over tp");
  add(changes.holds_attention, "attention weights not sharded over data axes");
  add(changes.holds_ends, "embedding and head not sharded over data axes");
  return out;
}

}  // namespace shardc::search
