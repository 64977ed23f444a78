#include "lint/analysis/facts.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <unordered_map>

#include "source/checked.h"

namespace shardc {
namespace {

bool AllDigits(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return c >= '0' && c <= '9';
  });
}

// Saturating: lints show these sums, they do not plan with them.
int64_t AddTo(int64_t a, int64_t b) {
  return CheckedAdd(a, b).value_or(INT64_MAX);
}

struct KindKey {
  std::string name;
  uint32_t layout;
  int32_t rule;
  bool operator==(const KindKey&) const = default;
};
struct KindHash {
  size_t operator()(const KindKey& key) const {
    return std::hash<std::string>()(key.name) * 31 + key.layout * 7 +
           static_cast<size_t>(key.rule);
  }
};

}  // namespace

void AppendTemplate(std::string_view name, char separator, std::string& out) {
  size_t begin = 0;
  while (true) {
    const size_t end =
        separator == 0 ? std::string_view::npos : name.find(separator, begin);
    const std::string_view part =
        name.substr(begin, end == std::string_view::npos ? end : end - begin);
    if (AllDigits(part)) {
      out += '*';
    } else {
      out += part;
    }
    if (end == std::string_view::npos) return;
    out += separator;
    begin = end + 1;
  }
}

Facts::Facts(const LintInputs& inputs) : inputs_(inputs) {
  const AxisRules& axes = compiled().rules.axes;
  for (AxisRule rule :
       {AxisRule::kTensorParallel, AxisRule::kHead, AxisRule::kKvHead,
        AxisRule::kMlpIntermediate, AxisRule::kVocab}) {
    for (const std::string& axis : axes.Value(rule).axes) {
      if (std::find(tensor_axes_.begin(), tensor_axes_.end(), axis) ==
          tensor_axes_.end()) {
        tensor_axes_.push_back(axis);
      }
    }
  }
  FindKinds();
  TurnConv1d();
  FindRuleFacts();
  FindNaming();
  if (!other_naming_) FindDeadCauses();
  if (plan().summary.bytes) has_ |= kNeedsShapes;
  if (model() != nullptr) has_ |= kNeedsModel;
  if (inputs_.batch) has_ |= kNeedsBatch;
  if (inputs_.kv_len) has_ |= kNeedsKvLen;
  if (!inputs_.memory_bytes && mesh().device) {
    inputs_.memory_bytes = mesh().device->memory_bytes;
  }
  if (inputs_.memory_bytes) has_ |= kNeedsMemory;
}

// One pass over the parameters, then a counting sort of them by kind.
void Facts::FindKinds() {
  std::unordered_map<KindKey, uint32_t, KindHash> ids;
  std::vector<uint32_t> kind_of(plan().params.size());
  KindKey key;
  for (size_t i = 0; i < plan().params.size(); ++i) {
    key.name.clear();
    AppendTemplate(plan().names[i], separator(), key.name);
    key.layout = plan().params[i].layout;
    key.rule = compiled().matches.first[i];
    auto [at, fresh] =
        ids.try_emplace(key, static_cast<uint32_t>(kinds_.size()));
    if (fresh) {
      Kind kind;
      kind.name = key.name;
      kind.layout = key.layout;
      kind.rule = key.rule;
      kind.role = RoleOf(key.name, separator());
      kinds_.push_back(std::move(kind));
    }
    kind_of[i] = at->second;
    ++kinds_[at->second].end;
  }
  uint32_t begin = 0;
  for (Kind& kind : kinds_) {
    const uint32_t count = kind.end;
    kind.begin = kind.end = begin;
    begin += count;
  }
  members_.resize(plan().params.size());
  for (size_t i = 0; i < kind_of.size(); ++i) {
    members_[kinds_[kind_of[i]].end++] = static_cast<uint32_t>(i);
  }
  for (const Kind& kind : kinds_) {
    total_bytes_ = AddTo(total_bytes_, TotalBytes(kind));
  }
}

// Flax's GPT-2 lays Conv1D kernels out [out, in], others [in, out]: the fused
// attention projection, three times as wide as the model, tells.
void Facts::TurnConv1d() {
  bool turned = false;
  for (const Kind& kind : kinds_) {
    if (!kind.role.conv1d || kind.role.role != Role::kFusedQkv ||
        kind.role.leaf != Leaf::kKernel || Rank(kind) != 2) {
      continue;
    }
    const Shape& shape = *TypeOf(kind).shape;
    turned = turned || shape[0] == 3 * shape[1];
  }
  for (Kind& kind : kinds_) {
    if (kind.role.conv1d && kind.role.leaf == Leaf::kKernel) {
      kind.role.turned = turned;
    }
  }
}

// Every (parameter, matching rule) pair is looked at once.
void Facts::FindRuleFacts() {
  rule_facts_.resize(rules().size());
  for (size_t r = 0; r < rules().size(); ++r) {
    RuleFacts& facts = rule_facts_[r];
    facts.sketch = SketchOf(rules()[r].match);
    const Place& place = rules()[r].place;
    facts.builtin =
        place.source != nullptr && place.source->name().starts_with("builtin:");
  }
  const Matches& matches = compiled().matches;
  for (size_t i = 0; i < matches.first.size(); ++i) {
    for (uint32_t rule : matches.Of(i)) {
      RuleFacts& facts = rule_facts_[rule];
      ++facts.found;
      const auto winner = static_cast<uint32_t>(matches.first[i]);
      if (winner == rule) {
        ++facts.won;
        continue;
      }
      // A rule loses to few others; the last one is most often it again.
      auto at =
          std::find_if(facts.lost.rbegin(), facts.lost.rend(),
                       [&](const LostTo& lost) { return lost.rule == winner; });
      if (at == facts.lost.rend()) {
        facts.lost.push_back({winner, 1, static_cast<uint32_t>(i)});
      } else {
        ++at->count;
      }
    }
  }
  for (RuleFacts& facts : rule_facts_) {
    std::sort(facts.lost.begin(), facts.lost.end(),
              [](const LostTo& a, const LostTo& b) { return a.rule < b.rule; });
  }
  for (size_t k = 0; k < kinds_.size(); ++k) {
    if (kinds_[k].rule < 0) continue;
    RuleFacts& facts = rule_facts_[static_cast<size_t>(kinds_[k].rule)];
    facts.kinds.push_back(static_cast<uint32_t>(k));
    facts.bytes = AddTo(facts.bytes, TotalBytes(kinds_[k]));
  }
}

// The rule set was written for other names when no parameter of weight
// reaches a rule that is not a catch-all: one in fifty is a coincidence.
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

// Tries each dead rule on one parameter of every kind, with the other
// separator and without regard to case.
void Facts::FindDeadCauses() {
  const auto try_as = [&](const std::string& pattern, char from, char to) {
    Findings ignored;
    const auto regex =
        shardc::Regex::Compile({pattern, Place{}, separator()}, ignored);
    if (!regex) return -1;
    for (size_t k = 0; k < kinds_.size(); ++k) {
      std::string name = Example(kinds_[k]);
      if (from != to) std::replace(name.begin(), name.end(), from, to);
      if (regex->Found(name)) return static_cast<int>(k);
    }
    return -1;
  };
  for (size_t r = 0; r < rules().size(); ++r) {
    RuleFacts& facts = rule_facts_[r];
    if (facts.found > 0 || facts.builtin) continue;
    const std::string& pattern = rules()[r].match;
    const char own = rules()[r].separator;
    const char other = own == '/' ? '.' : '/';
    facts.would_match = try_as(pattern, separator(), other);
    if (facts.would_match >= 0) {
      facts.cause = DeadCause::kSeparator;
      continue;
    }
    facts.would_match = try_as("(?i)" + pattern, separator(), own);
    if (facts.would_match >= 0) facts.cause = DeadCause::kCase;
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

int Facts::Rank(const Kind& kind) const {
  const TensorType& type = TypeOf(kind);
  return type.shape ? static_cast<int>(type.shape->size()) : -1;
}

int64_t Facts::Elements(const Kind& kind) const {
  return TypeOf(kind).Elements().value_or(0);
}

int64_t Facts::Bytes(const Kind& kind) const {
  return TypeOf(kind).Bytes().value_or(0);
}

int64_t Facts::TotalBytes(const Kind& kind) const {
  return CheckedMul(Bytes(kind), kind.count()).value_or(INT64_MAX);
}

AxisGroup Facts::AxesAt(const Kind& kind, int dim) const {
  const Spec& spec = Train(kind).spec;
  if (dim < 0 || static_cast<size_t>(dim) >= spec.size()) return {};
  return spec[static_cast<size_t>(dim)];
}

int64_t Facts::Parts(const Kind& kind) const {
  int64_t parts = 1;
  for (const AxisGroup& group : Train(kind).spec) {
    parts = CheckedMul(parts, mesh().Parts(group).value_or(1)).value_or(1);
  }
  const int32_t rule = LayoutOf(kind).rule;
  if (rule >= 0 && static_cast<size_t>(rule) < plan().placement_axes.size() &&
      plan().params[members_[kind.begin]].coordinate) {
    parts *= mesh().SizeOf(plan().placement_axes[static_cast<size_t>(rule)]);
  }
  return parts;
}

bool Facts::Replicated(const Kind& kind) const {
  return mesh().devices > 1 && Parts(kind) == 1;
}

bool Facts::Illegal(const Kind& kind) const {
  const auto& modes = LayoutOf(kind).modes;
  return std::any_of(modes.begin(), modes.end(), [](const ModeLayout& mode) {
    return !mode.problems.empty();
  });
}

bool Facts::Judged(const Kind& kind) const {
  const bool refused = LayoutOf(kind).unmatched &&
                       compiled().Unmatched() == UnmatchedPolicy::kError;
  return !refused && !Illegal(kind);
}

Place Facts::RulePlace(int32_t rule) const {
  if (rule < 0) return Place{manifest().source, Place::kWhole, Place::kWhole};
  const Rule& written = rules()[static_cast<size_t>(rule)];
  return written.match_place.HasPosition() ? written.match_place
                                           : written.place;
}

Place Facts::MeshPlace() const {
  return Place{inputs_.mesh_source, Place::kWhole, Place::kWhole};
}

std::vector<std::string> Facts::Names(const Kind& kind) const {
  std::vector<std::string> out;
  out.reserve(static_cast<size_t>(kind.count()));
  for (uint32_t param : Members(kind)) out.push_back(plan().names[param]);
  return out;
}

const std::string& Facts::Example(const Kind& kind) const {
  return plan().names[members_[kind.begin]];
}

AxisGroup Facts::TensorAxes(const AxisGroup& group) const {
  AxisGroup out;
  for (const std::string& axis : group) {
    if (std::find(tensor_axes_.begin(), tensor_axes_.end(), axis) !=
        tensor_axes_.end()) {
      out.push_back(axis);
    }
  }
  return out;
}

int64_t Facts::TensorParts(const AxisGroup& group) const {
  return mesh().Parts(TensorAxes(group)).value_or(1);
}

}  // namespace shardc
