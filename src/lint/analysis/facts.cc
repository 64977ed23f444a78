// Computes the facts about a compiled target that several lints need.
// Parameters with the same layout and rule whose names differ only in numbers
// are one group. The number of groups does not grow with the number of layers.
//
// For each rule, all parameters that match its pattern are counted, even if an
// earlier rule matches them first and applies instead. For example:
//
//   layers.0.up and layers.1.up  ->  layers.*.up, 2 parameters
//   rules [0] `up`, [1] `layers`  ->  [1] matches 2, but [0] applies to both
#include "lint/analysis/facts.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <unordered_map>

#include "facts/parameters.h"
#include "lint/analysis/fused.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/heads.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/step_facts.h"
#include "lint/analysis/towers.h"
#include "lint/analysis/traced.h"
#include "model/mesh_layout.h"
#include "model/name.h"
#include "parse/config_parts.h"
#include "parse/spec_read.h"
#include "plan/axis_facts.h"
#include "plan/placement.h"
#include "roles/classify.h"
#include "source/list.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Returns the sum, or INT64_MAX if the sum overflows. Lints only print and
// compare these sums.
int64_t AddTo(int64_t a, int64_t b) {
  return CheckedAdd(a, b).value_or(INT64_MAX);
}

constexpr uint32_t kNoGroup = UINT32_MAX;

struct GroupKey {
  uint32_t of;  // index into facts::ParameterTable::groups
  uint32_t layout;
  int32_t rule;
  bool operator==(const GroupKey&) const = default;
};
struct GroupHash {
  size_t operator()(const GroupKey& key) const {
    return (size_t{key.of} * 31 + key.layout) * 31 +
           static_cast<size_t>(key.rule);
  }
};

// Returns, indexed by pattern, the index of the first name that the pattern
// matches. The index is -1 if the pattern matches no name or cannot be
// compiled. If the patterns cannot be compiled together, each half of them is
// compiled separately.
std::vector<int32_t> FirstMatches(std::span<const Pattern> patterns,
                                  std::span<const std::string_view> names,
                                  char separator) {
  std::vector<int32_t> out(patterns.size(), -1);
  Findings ignored;
  const auto matcher = Matcher::Compile(patterns, ignored);
  if (!matcher && patterns.size() > 1) {
    const size_t half = patterns.size() / 2;
    out = FirstMatches(patterns.first(half), names, separator);
    const auto rest = FirstMatches(patterns.subspan(half), names, separator);
    out.insert(out.end(), rest.begin(), rest.end());
  }
  if (!matcher) return out;
  const Matches matches = matcher->Match(names, separator);
  std::vector<bool> seen(matches.begin.size());
  for (size_t i = 0; i < names.size(); ++i) {
    // Many names match the same set of patterns. Only the first of these names
    // can be the first match of a pattern.
    if (seen[matches.set[i]]) continue;
    seen[matches.set[i]] = true;
    for (const uint32_t pattern : matches.Of(i)) {
      if (out[pattern] < 0) out[pattern] = static_cast<int32_t>(i);
    }
  }
  return out;
}

// Sorts by the rule, and joins the entries of each rule. The example is that of
// the first entry.
void JoinByRule(std::vector<LostTo>& lost) {
  std::stable_sort(
      lost.begin(), lost.end(),
      [](const LostTo& a, const LostTo& b) { return a.rule < b.rule; });
  size_t kept = 0;
  for (size_t i = 0; i < lost.size(); ++i) {
    if (kept > 0 && lost[kept - 1].rule == lost[i].rule) {
      lost[kept - 1].count += lost[i].count;
    } else {
      lost[kept++] = lost[i];
    }
  }
  lost.resize(kept);
}

}  // namespace

Facts::Facts(const LintInputs& inputs)
    : inputs_(inputs), nearest_(rules(), compiled().matches, separator()) {
  if (described() != nullptr) {
    described_params_ = ParamsOfPlan(*described(), plan());
    for (const program::ParamFacts*& param : described_params_) {
      for (size_t d = 0; param != nullptr && d < param->dims.size(); ++d) {
        if (param->dims[d].empty() && param->shape[d] != 1) param = nullptr;
      }
    }
  }
  if (inputs_.traced != nullptr) {
    traced_params_ = ParamsOfPlan(inputs_.traced->facts, plan());
  }
  FindGroups();
  FindAxes();
  FindRuleFacts();
  FindNaming();
  FindDeadCauses();
  if (plan().summary.bytes) has_ |= kNeedsShapes;
  if (model() != nullptr) has_ |= kNeedsModel;
  FindMisfits();
  if (inputs_.batch) has_ |= kNeedsBatch;
  if (inputs_.kv_len) has_ |= kNeedsKvLen;
  if (!inputs_.memory_bytes && mesh().device) {
    inputs_.memory_bytes = mesh().device->memory_bytes;
  }
  if (inputs_.memory_bytes) has_ |= kNeedsMemory;
}

const StepFacts* Facts::Step() const {
  if (!step_known_) step_ = StepFacts::Make(*this);
  step_known_ = true;
  return step_.get();
}

// Divides each group of the facts by layout and rule, in one pass, and then
// sorts the parameters by group (a counting sort).
void Facts::FindGroups() {
  const facts::ParameterTable& table = compiled().Parameters();
  std::unordered_map<GroupKey, uint32_t, GroupHash> ids;
  std::vector<uint32_t> group_of(plan().params.size());
  // The last group that each group of the facts was divided into. Most are not
  // divided.
  std::vector<uint32_t> last(table.groups.size(), kNoGroup);
  groups_.reserve(table.groups.size());
  ids.reserve(table.groups.size());
  for (size_t i = 0; i < plan().params.size(); ++i) {
    const GroupKey key = {table.group_of[i], plan().params[i].layout,
                          compiled().matches.first[i]};
    uint32_t& known = last[key.of];
    if (known != kNoGroup && groups_[known].layout == key.layout &&
        groups_[known].rule == key.rule) {
      group_of[i] = known;
      ++groups_[known].end;
      continue;
    }
    const auto [at, fresh] =
        ids.try_emplace(key, static_cast<uint32_t>(groups_.size()));
    if (fresh) {
      const facts::Group& of = table.groups[key.of];
      ParameterGroup group;
      group.of = key.of;
      group.name = of.name;
      group.layout = key.layout;
      group.rule = key.rule;
      // A lint must not report what a word only suggests.
      group.role = of.RoleBy(facts::Evidence::kShapes);
      groups_.push_back(std::move(group));
    }
    group_of[i] = known = at->second;
    ++groups_[known].end;
  }
  uint32_t begin = 0;
  for (ParameterGroup& group : groups_) {
    const uint32_t count = group.end;
    group.begin = group.end = begin;
    begin += count;
  }
  members_.resize(plan().params.size());
  for (size_t i = 0; i < group_of.size(); ++i) {
    members_[groups_[group_of[i]].end++] = static_cast<uint32_t>(i);
  }
  for (const ParameterGroup& group : groups_) {
    total_bytes_ = AddTo(total_bytes_, TotalBytes(group));
  }
}

void Facts::FindMisfits() {
  if (model() == nullptr) return;
  misfits_ = MisfitsOf(*this);
  const bool denied =
      std::any_of(misfits_.begin(), misfits_.end(),
                  [](const Misfit& misfit) { return misfit.heads; });
  if (!denied && HeadsOf(*model())) has_ |= kNeedsHeads;
}

const LayerStacks& Facts::stacks() const {
  if (!stacks_) {
    const LayerStacks& of_facts = compiled().Parameters().stacks;
    stacks_ = LayerStacks{.stacks = of_facts.stacks, .dims = {}};
    for (const ParameterGroup& group : groups_) {
      stacks_->dims.push_back(of_facts.dims[group.of]);
    }
  }
  return *stacks_;
}

const facts::Group& Facts::Known(const ParameterGroup& group) const {
  return compiled().Parameters().groups[group.of];
}

bool Facts::StatesHeads() const {
  using enum program::FactorRole;
  return described() != nullptr &&
         std::ranges::any_of(described()->factors,
                             [](const program::Factor& factor) {
                               return program::CountsHeads(factor.role);
                             });
}

const ConfigParts& Facts::config_parts() const {
  if (!config_parts_) {
    config_parts_ = std::make_shared<ConfigParts>(
        model() == nullptr ? ConfigParts() : ReadConfigParts(*model()));
  }
  return *config_parts_;
}

const AdapterHalves& Facts::adapter_halves() const {
  if (!adapter_halves_) {
    adapter_halves_ = std::make_shared<AdapterHalves>(*this);
  }
  return *adapter_halves_;
}

const Towers& Facts::towers() const {
  if (!towers_) towers_ = std::make_shared<Towers>(*this);
  return *towers_;
}

const BlockFacts& Facts::blocks() const {
  if (!blocks_) blocks_ = std::make_shared<BlockFacts>(BlockFactsOf(*this));
  return *blocks_;
}

// Finds what the axes are for by the statements of the rules, the specs that
// the rules write for projections, and the names of the axes.
void Facts::FindAxes() {
  const AxisRules& rules = compiled().rules.axes;
  axes_ = AxisFactsOf(
      compiled(),
      {.facts = inputs_.traced == nullptr ? nullptr : &inputs_.traced->facts,
       .params = traced_params_});
  // The axis rules may name axes that the mesh lacks; they are listed too.
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const auto rule = static_cast<AxisRule>(i);
    const auto kind = ParallelismOf(rule);
    for (const std::string& axis : rules.Value(rule).axes) {
      if (mesh().SizeOf(axis) > 1) continue;
      if (kind == AxisRule::kTensorParallel && rule != AxisRule::kHiddenState) {
        AddOnce(tensor_axes_, axis);
      }
    }
  }
  for (const AxisFacts& one : axes_) {
    // An axis that is named as one of tensor parallelism is counted as such,
    // although specs deny it: another lint reports that.
    const bool named = one.denial && one.denial->name == AxisUse::kKept;
    if (one.use == AxisUse::kKept || named) AddOnce(tensor_axes_, one.axis);
    if (one.use == AxisUse::kGathered) gathered_axes_.push_back(one.axis);
    const bool tokens =
        one.tokens == AxisTokens::kBatch || one.tokens == AxisTokens::kSequence;
    if (one.use == AxisUse::kUnused && tokens) {
      gathered_axes_.push_back(one.axis);
    }
  }
}

AxisGroup Facts::OpenAxes() const {
  AxisGroup out;
  for (const AxisFacts& one : axes_) {
    if (one.use == AxisUse::kNotKnown && !IsAmong(one.axis, tensor_axes_)) {
      out.push_back(one.axis);
    }
  }
  return out;
}

AxisGroup Facts::ExpertAxes() const {
  AxisGroup out = LogicalAxes("EXPERT");
  for (const AxisFacts& one : axes_) {
    if (one.use == AxisUse::kExperts) AddOnce(out, one.axis);
  }
  return out;
}

AxisGroup Facts::TokenAxes() const {
  AxisGroup out;
  for (const char* name : {"BATCH", "LENGTH", "QUERY_LENGTH"}) {
    for (const std::string& axis : LogicalAxes(name)) AddOnce(out, axis);
  }
  for (const AxisFacts& one : axes_) {
    if (one.tokens == AxisTokens::kBatch ||
        one.tokens == AxisTokens::kSequence) {
      AddOnce(out, one.axis);
    }
  }
  return out;
}

// Visits each pair of a set of rules that match the same parameters and a rule
// of this set.
void Facts::FindRuleFacts() {
  rule_facts_.resize(rules().size());
  for (size_t r = 0; r < rules().size(); ++r) {
    RuleFacts& facts = rule_facts_[r];
    facts.sketch = nearest_.sketch(r);
    const Place& place = rules()[r].place;
    facts.builtin = place.source != nullptr && IsPackName(place.source->name());
  }
  const Matches& matches = compiled().matches;
  // The number of parameters of each set, and the first of them.
  struct SetMembers {
    int64_t count = 0;
    uint32_t first = 0;
  };
  std::vector<SetMembers> sets(matches.begin.size());
  for (size_t i = 0; i < matches.set.size(); ++i) {
    SetMembers& members = sets[matches.set[i]];
    if (members.count++ == 0) members.first = static_cast<uint32_t>(i);
  }
  for (const SetMembers& members : sets) {
    if (members.count == 0) continue;
    const auto winner = static_cast<uint32_t>(matches.first[members.first]);
    for (const uint32_t rule : matches.Of(members.first)) {
      RuleFacts& facts = rule_facts_[rule];
      facts.found += members.count;
      if (winner == rule) {
        facts.won += members.count;
      } else {
        facts.lost.push_back({winner, members.count, members.first});
      }
    }
  }
  for (RuleFacts& facts : rule_facts_) JoinByRule(facts.lost);
  for (size_t k = 0; k < groups_.size(); ++k) {
    if (groups_[k].rule < 0) continue;
    RuleFacts& facts = rule_facts_[static_cast<size_t>(groups_[k].rule)];
    facts.groups.push_back(static_cast<uint32_t>(k));
    facts.bytes = AddTo(facts.bytes, TotalBytes(groups_[k]));
  }
}

// Decides whether the rules were written for a model with other names.
// Catch-alls are not considered. Two conditions must hold: at least three
// quarters of the other rules match nothing, and the rest apply to at most 2 %
// of the parameters and 2 % of the bytes. So few matches can be a coincidence.
void Facts::FindNaming() {
  int64_t specific = 0;
  int64_t dead = 0;
  int64_t applied_bytes = 0;
  for (const RuleFacts& facts : rule_facts_) {
    if (facts.sketch.catch_all) continue;
    ++specific;
    if (facts.found == 0) ++dead;
    applied_ += facts.won;
    applied_bytes = AddTo(applied_bytes, facts.bytes);
  }
  const auto params = static_cast<int64_t>(plan().params.size());
  const bool few_params = applied_ * 50 <= params;
  const bool few_bytes =
      total_bytes_ == 0 || applied_bytes <= total_bytes_ / 50;
  other_naming_ = params > 0 && specific > 0 && few_params && few_bytes &&
                  dead * 4 >= specific * 3;
}

// Searches for the reason why rules match nothing. Each such rule (a dead rule)
// is matched with one parameter of every group. First its pattern is matched
// with the other separator, `.` for `/` or `/` for `.`; then case is ignored.
// Rules of packs (rules inside the program) are skipped. All rules are matched
// together, so the time is linear in the number of names and of rules.
void Facts::FindDeadCauses() {
  std::vector<size_t> dead_rules;
  for (size_t r = 0; r < rules().size(); ++r) {
    if (rule_facts_[r].found == 0 && !rule_facts_[r].builtin) {
      dead_rules.push_back(r);
    }
  }
  if (dead_rules.empty()) return;
  std::vector<std::string_view> examples;
  for (const ParameterGroup& group : groups_) {
    examples.push_back(plan().names[members_[group.begin]]);
  }
  const auto try_with = [&](DeadCause cause, std::string_view prefix) {
    std::vector<std::string> texts;
    std::vector<Pattern> patterns;
    for (const size_t r : dead_rules) {
      texts.push_back(std::string(prefix) + rules()[r].match);
    }
    for (size_t i = 0; i < dead_rules.size(); ++i) {
      const char own = rules()[dead_rules[i]].separator;
      const char other = own == '/' ? '.' : '/';
      patterns.push_back(
          {texts[i], {}, cause == DeadCause::kSeparator ? other : own});
    }
    const std::vector<int32_t> found =
        FirstMatches(patterns, examples, separator());
    for (size_t i = 0; i < dead_rules.size(); ++i) {
      RuleFacts& facts = rule_facts_[dead_rules[i]];
      if (found[i] < 0) continue;
      facts.cause = cause;
      facts.would_match = found[i];
    }
    std::erase_if(dead_rules, [&](size_t r) {
      return rule_facts_[r].cause != DeadCause::kUnknown;
    });
  };
  try_with(DeadCause::kSeparator, "");
  if (!dead_rules.empty()) try_with(DeadCause::kCase, "(?i)");
  // If the rules were written for a model with other names, the causes of
  // single rules are not reported. The exception is a wrong separator that
  // explains at least half of the dead rules.
  int64_t dead = 0;
  int64_t separated = 0;
  for (const RuleFacts& facts : rule_facts_) {
    if (facts.found > 0 || facts.sketch.catch_all) continue;
    ++dead;
    if (facts.cause == DeadCause::kSeparator) ++separated;
  }
  if (!other_naming_ || 2 * separated >= dead) return;
  for (RuleFacts& facts : rule_facts_) {
    facts.cause = DeadCause::kUnknown;
    facts.would_match = -1;
  }
}

std::optional<Spec> Facts::RuleSpec(int32_t rule, Mode mode) const {
  const Rule& written = rules()[static_cast<size_t>(rule)];
  const auto own = written.modes.find(mode);
  Findings ignored;
  const auto resolved = compiled().resolver->Resolve(
      own == written.modes.end() ? written.spec : own->second, mode, ignored);
  if (!resolved) return std::nullopt;
  return resolved->spec;
}

const Registration* Facts::OverrideOf(std::string_view token) const {
  const std::string wanted = CanonicalToken(token);
  for (const Registration& one : compiled().rules.registrations) {
    if (CanonicalToken(one.name) == wanted) return &one;
  }
  return nullptr;
}

AxisGroup Facts::LogicalAxes(std::string_view token) const {
  SpecList list;
  list.entries.push_back({{SpecName{std::string(token), {}}}, false});
  Findings ignored;
  const auto resolved =
      compiled().resolver->Resolve(list, Mode::kTrain, ignored);
  return resolved ? resolved->spec.front() : AxisGroup{};
}

AxisGroup Facts::RequestedAxes(int32_t rule) const {
  AxisGroup out;
  if (rule < 0) return out;
  Findings ignored;
  const auto resolved = compiled().resolver->Resolve(
      rules()[static_cast<size_t>(rule)].spec, Mode::kTrain, ignored);
  if (!resolved) return out;
  for (const auto& dimension : resolved->traces) {
    for (const NameTrace& trace : dimension) {
      for (const std::string& axis : trace.axes) {
        AddOnce(out, axis);
      }
    }
  }
  return out;
}

int Facts::Rank(const ParameterGroup& group) const {
  const TensorType& type = TypeOf(group);
  return type.shape ? static_cast<int>(type.shape->size()) : -1;
}

int64_t Facts::Elements(const ParameterGroup& group) const {
  return TypeOf(group).Elements().value_or(0);
}

int64_t Facts::Bytes(const ParameterGroup& group) const {
  return TypeOf(group).Bytes().value_or(0);
}

int64_t Facts::TotalBytes(const ParameterGroup& group) const {
  return CheckedMul(Bytes(group), group.count()).value_or(INT64_MAX);
}

AxisGroup Facts::AxesAt(const ParameterGroup& group, int dim) const {
  const Spec& spec = Train(group).spec;
  if (dim < 0 || static_cast<size_t>(dim) >= spec.size()) return {};
  return spec[static_cast<size_t>(dim)];
}

const std::string& Facts::PlacementAxis(const ParamLayout& layout) const {
  return shardc::PlacementAxis(plan(), layout);
}

int64_t Facts::Parts(const ParameterGroup& group) const {
  int64_t parts = 1;
  for (const AxisGroup& axes : Train(group).spec) {
    parts = CheckedMul(parts, mesh().Parts(axes).value_or(1)).value_or(1);
  }
  if (plan().params[members_[group.begin]].IsPlaced()) {
    parts *= mesh().SizeOf(PlacementAxis(LayoutOf(group)));
  }
  return parts;
}

bool Facts::Replicated(const ParameterGroup& group) const {
  return DevicesOfRank(mesh(), plan().stages) > 1 && Parts(group) == 1;
}

bool Facts::Illegal(const ParameterGroup& group) const {
  const auto& modes = LayoutOf(group).modes;
  return std::any_of(modes.begin(), modes.end(), [](const ModeLayout& mode) {
    return !mode.problems.empty();
  });
}

bool Facts::Judged(const ParameterGroup& group) const {
  const bool refused = LayoutOf(group).unmatched &&
                       compiled().Unmatched() == UnmatchedPolicy::kError;
  return !refused && !Illegal(group);
}

Place Facts::RulePlace(int32_t rule) const {
  if (rule < 0)
    return Place{manifest().source, Place::kEntireFile, Place::kEntireFile};
  const Rule& written = rules()[static_cast<size_t>(rule)];
  return written.match_place.HasPosition() ? written.match_place
                                           : written.place;
}

Place Facts::MeshPlace() const { return inputs_.mesh_place; }

void Facts::AddNames(std::span<const uint32_t> params,
                     LintFinding& finding) const {
  if (!inputs_.lists_names) return;
  finding.members.insert(finding.members.end(), params.begin(), params.end());
}

std::string Facts::Example(const ParameterGroup& group) const {
  return std::string(plan().names[members_[group.begin]]);
}

AxisGroup Facts::TensorAxes(const AxisGroup& axes) const {
  AxisGroup out;
  for (const std::string& axis : axes) {
    if (IsAmong(WholeAxis(axis), tensor_axes_) ||
        (!assumed_.empty() && WholeAxis(axis) == assumed_)) {
      out.push_back(axis);
    }
  }
  return out;
}

AxisGroup Facts::KeptAxes(const AxisGroup& axes) const {
  AxisGroup out = axes;
  std::erase_if(out, [&](const std::string& axis) {
    return IsAmong(WholeAxis(axis), gathered_axes_);
  });
  return out;
}

int64_t Facts::TensorParts(const AxisGroup& axes) const {
  return mesh().Parts(TensorAxes(axes)).value_or(1);
}

namespace {

bool IsZigZag(const OperationsFile& settings, const KnownOperation& operation) {
  if (!operation.settings.Has(Setting::kOrder)) return false;
  const SettingsRecord* record = settings.Find(operation.name);
  const auto& order = record != nullptr && record->order
                          ? record->order
                          : settings.defaults.order;
  return order == SequenceOrder::kZigZag;
}

}  // namespace

std::vector<ZigZagRing> RingsOf(const VerifyInput& input,
                                const OperationsFile& settings,
                                std::span<const KnownOperation> operations) {
  std::vector<ZigZagRing> out;
  for (const KnownOperation& operation : operations) {
    if (!IsZigZag(settings, operation)) continue;
    const std::string name(operation.name);
    for (const VerifyInput::Named& named : input.operations) {
      if (named.operation == name)
        out.push_back({name, named.mode, named.place});
    }
    if (input.operations.empty()) {
      out.push_back(
          {name, std::nullopt, input.inline_settings.value_or(Place())});
    }
  }
  return out;
}

}  // namespace shardc
