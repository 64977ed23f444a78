// Decides which devices hold a tensor that exists once for each index, such as
// one tensor for each expert. Only the devices at one coordinate of an axis
// hold such a tensor, so its spec must not shard it over this axis. The index
// in the tensor's name determines the coordinate. Consecutive indices stay
// together, and each coordinate gets the same number of tensors if the axis
// divides the count. For example, the pattern `experts\.(\d+)\.` finds the
// index, the count is 8, and the axis ep has size 4:
//
//   experts.5.w  ->  5 * 4 / 8 = coordinate 2
//
// If a rule does not state a count, the count is the largest index in the names
// plus one. Experts 0 to 7, for example, have a count of 8.
#include "plan/placement.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "model/name.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/size.h"
#include "source/utf8.h"

namespace shardc {
namespace {

int64_t CountOf(std::span<const int64_t> indices) {
  int64_t largest = -1;
  for (const int64_t index : indices) largest = std::max(largest, index);
  // INT64_MAX is not incremented, because the sum would overflow.
  return largest == std::numeric_limits<int64_t>::max() ? largest : largest + 1;
}

}  // namespace

int64_t Placements::IndexPattern::In(const Rule& rule, std::string_view tensor,
                                     char separator) const {
  std::string own;
  if (separator != 0 && separator != rule.separator) {
    own = tensor;
    std::replace(own.begin(), own.end(), separator, rule.separator);
    tensor = own;
  }
  const auto text = digits ? digits->In(tensor) : regex.Group1(tensor);
  if (!text) return -1;
  int64_t index = -1;
  const char* const end = text->data() + text->size();
  const auto [read, error] = std::from_chars(text->data(), end, index);
  return error == std::errc() && read == end ? index : -1;
}

Placements Placements::Compile(std::span<const Rule> rules,
                               const Manifest& manifest, Findings& findings) {
  Placements out;
  out.index_patterns_.resize(rules.size());
  out.counts_.resize(rules.size());
  out.indices_of_.resize(rules.size());
  std::map<std::pair<std::string, char>, size_t> read_off;
  for (size_t i = 0; i < rules.size(); ++i) {
    const auto& placement = rules[i].placement;
    if (!placement) continue;
    auto regex = Regex::Compile(
        {placement->index_pattern, placement->place, '/'}, findings);
    if (!regex) continue;
    if (regex->groups() < 1) {
      findings.Add(code::kRegexSemantic, placement->place,
                   "`index` pattern `" + placement->index_pattern +
                       "` has no group that captures the index",
                   "put parentheses around the digits: `experts\\.(\\d+)\\.`");
      continue;
    }
    IndexPattern pattern{std::move(*regex),
                         DigitsBetween::Of(placement->index_pattern)};
    out.counts_[i] = placement->count;
    if (placement->count == 0) {
      const auto [at, first] = read_off.try_emplace(
          {placement->index_pattern, rules[i].separator}, out.indices_.size());
      if (first) {
        auto& indices = out.indices_.emplace_back();
        indices.reserve(manifest.tensors.size());
        for (const Tensor& tensor : manifest.tensors) {
          indices.push_back(
              pattern.In(rules[i], tensor.name, manifest.separator));
        }
      }
      out.indices_of_[i] = at->second;
      out.counts_[i] = CountOf(out.indices_[at->second]);
    }
    out.index_patterns_[i] = std::move(pattern);
  }
  return out;
}

int64_t Placements::Index(const Rule& rule, size_t at, const Manifest& manifest,
                          uint32_t number) const {
  if (indices_of_[at]) return indices_[*indices_of_[at]][number];
  return index_patterns_[at]->In(rule, manifest.tensors[number].name,
                                 manifest.separator);
}

std::optional<int64_t> Placements::Coordinate(const Rule& rule, size_t at,
                                              const Manifest& manifest,
                                              uint32_t number, const Mesh& mesh,
                                              Findings& findings) const {
  if (!rule.placement || !mesh.Find(rule.placement->axis)) return std::nullopt;
  const Placement& placement = *rule.placement;
  const std::string_view tensor = manifest.tensors[number].name;
  const int64_t count = counts_[at];
  const int64_t index = Index(rule, at, manifest, number);
  if (index >= 0 && index < count) {
    // The index is below the count, so the coordinate is below the axis's size.
    const auto product = CheckedMul(index, mesh.SizeOf(placement.axis));
    if (product) return *product / count;
  }
  Finding& finding = findings.Add(
      code::kReference, placement.place,
      index < 0
          ? "`index` pattern `" + placement.index_pattern +
                "` finds no number in `" + std::string(tensor) + "`"
          : "`" + std::string(tensor) + "` has index " + std::to_string(index) +
                ", but `count` is " + std::to_string(count),
      index < 0 ? "its first group must be the digits of the index"
                : "`count` is the number of experts");
  finding.params.emplace_back(tensor);
  return std::nullopt;
}

void CheckPlacedSpecs(const Placement& placement,
                      const std::map<Mode, Resolved>& by_mode,
                      Findings& findings) {
  for (const auto& [mode, resolved] : by_mode) {
    const bool used = std::any_of(
        resolved.spec.begin(), resolved.spec.end(),
        [&](const auto& group) { return IsAmong(placement.axis, group); });
    if (!used) continue;
    findings.Add(code::kSpec, placement.place,
                 "axis `" + placement.axis +
                     "` places the tensor and splits it too: spec " +
                     SpecText(resolved.spec) + " in " +
                     std::string(ModeName(mode)),
                 "take `" + placement.axis + "` out of the spec");
    return;
  }
}

const std::string& PlacementAxis(const Plan& plan, const ParamLayout& layout) {
  static const std::string kNone;
  const auto axis_of = [&](int32_t rule) -> const std::string& {
    return rule < 0 ? kNone : plan.placement_axes[AsIndex(rule)];
  };
  const std::string& own = axis_of(layout.rule);
  return own.empty() ? axis_of(layout.modes.front().spec_rule) : own;
}

void WritePlacement(JsonWriter& json, std::string_view axis,
                    int64_t coordinate) {
  json.Member("placement", Record("axis", axis, "coordinate", coordinate));
}

// Finds a number between two literal texts. RE2 captures the longest run of
// digits, and tries fewer digits only if the text after the run does not match.
// That text does not begin with a digit, so it cannot match inside the run.
// Therefore the longest run is the only candidate:
//
//   `experts\.(\d+)\.` in `layers.3.experts.12.w1`  ->  `12`

namespace {

// Returns the text that a part of a pattern matches literally. Returns nullopt
// if the part has other characters than letters, digits, `_`, `/` and escaped
// dots.
std::optional<std::string> Literal(std::string_view part) {
  std::string out;
  for (size_t i = 0; i < part.size(); ++i) {
    const char c = part[i];
    const bool plain = IsWordByte(c) || c == '/';
    if (plain) {
      out += c;
    } else if (c == '\\' && i + 1 < part.size() && part[i + 1] == '.') {
      out += part[++i];
    } else {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace

std::optional<DigitsBetween> DigitsBetween::Of(std::string_view pattern) {
  constexpr std::string_view kDigits = "(\\d+)";
  const size_t at = pattern.find(kDigits);
  if (at == std::string_view::npos) return std::nullopt;
  auto before = Literal(pattern.substr(0, at));
  auto after = Literal(pattern.substr(at + kDigits.size()));
  if (!before || !after || AllDigits(after->substr(0, 1))) return std::nullopt;
  return DigitsBetween{std::move(*before), std::move(*after)};
}

std::optional<std::string_view> DigitsBetween::In(std::string_view name) const {
  for (size_t at = name.find(before); at != std::string_view::npos;
       at = name.find(before, at + 1)) {
    const size_t begin = at + before.size();
    size_t end = begin;
    while (end < name.size() && AllDigits(name.substr(end, 1))) ++end;
    if (end > begin && name.substr(end).starts_with(after)) {
      return name.substr(begin, end - begin);
    }
  }
  return std::nullopt;
}

// Finds the rule from which a parameter's spec comes. A rule with `like` copies
// the spec of another parameter. The rule of that parameter may also have a
// `like`, so the chain is followed to a rule that has a spec:
//
//   rule `(.*)\.scale$` like `\1.weight`, rule `weight$` spec [tp]
//   up.scale -> up.weight: the origin is the rule `weight$`

const SpecSource& SourceOf(const Rule& rule, Mode mode) {
  const auto found = rule.modes.find(mode);
  return found == rule.modes.end() ? rule.spec : found->second;
}

bool IsScalar(const TensorType& type, Compat compat) {
  if (!type.shape) return false;
  if (type.shape->empty()) return true;
  return compat == Compat::kFjformer && type.Elements() == 1;
}

std::optional<uint32_t> LikeChains::TargetOf(uint32_t tensor, int32_t rule,
                                             const SpecLike& like) {
  const std::string name(c_.manifest.tensors[tensor].name);
  if (by_name_.empty()) {
    for (uint32_t i = 0; i < c_.manifest.tensors.size(); ++i) {
      by_name_.emplace(c_.manifest.tensors[i].name, i);
    }
  }
  const auto target = c_.matcher->Rewrite(AsIndex(rule), name,
                                          c_.manifest.separator, like.rewrite);
  if (!target) {
    findings_.Add(code::kReference, like.place,
                  "`like: " + like.rewrite + "` uses a group that pattern `" +
                      c_.rules.rules[AsIndex(rule)].match + "` does not have",
                  "groups are numbered from 1 in the order of their `(`");
    return std::nullopt;
  }
  const auto found = by_name_.find(*target);
  if (found != by_name_.end()) return found->second;
  Finding& finding =
      findings_.Add(code::kReference, like.place,
                    "`" + name + "` takes its spec from `" + *target +
                        "`, which the manifest does not have",
                    "the rewrite must give the whole name of a parameter");
  finding.params.push_back(name);
  return std::nullopt;
}

std::optional<SpecOrigin> LikeChains::Follow(uint32_t tensor, Mode mode) {
  std::vector<uint32_t> seen;
  const auto origin = Walk(tensor, mode, seen);
  auto& known = known_[mode];
  for (const uint32_t one : seen) known.emplace(one, origin);
  return origin;
}

std::optional<SpecOrigin> LikeChains::Walk(uint32_t tensor, Mode mode,
                                           std::vector<uint32_t>& seen) {
  const auto& known = known_[mode];
  std::unordered_set<uint32_t> on_way;
  uint32_t at = tensor;
  while (true) {
    const auto end = known.find(at);
    if (end != known.end()) return end->second;
    const TensorType& type = c_.manifest.TypeOf(c_.manifest.tensors[at]);
    const int32_t rule = c_.matches.first[at];
    if (rule == kNoRule || IsScalar(type, c_.CompatMode())) {
      return SpecOrigin{};
    }
    const SpecSource& source = SourceOf(c_.rules.rules[AsIndex(rule)], mode);
    const auto* like = std::get_if<SpecLike>(&source);
    if (like == nullptr) return SpecOrigin{rule, at};
    if (!on_way.insert(at).second) {
      // Each cycle is reported only once, although several parameters may lead
      // to it.
      for (uint32_t i : seen) {
        if (!on_cycles_.insert(i).second) return std::nullopt;
      }
      std::string cycle;
      for (uint32_t i : seen) {
        cycle += "`" + std::string(c_.manifest.tensors[i].name) + "` -> ";
      }
      findings_.Add(code::kCycle, like->place,
                    "`like` goes in a circle: " + cycle + "`" +
                        std::string(c_.manifest.tensors[at].name) + "`",
                    "give one of them a spec of its own");
      return std::nullopt;
    }
    seen.push_back(at);
    const auto target = TargetOf(at, rule, *like);
    if (!target) return std::nullopt;
    at = *target;
  }
}

}  // namespace shardc
