// Finds the rule from which a parameter's spec comes. A rule with `like` copies
// the spec of another parameter. The rule of that parameter may also have a
// `like`, so the chain is followed to a rule that has a spec:
//
//   rule `(.*)\.scale$` like `\1.weight`, rule `weight$` spec [tp]
//   up.scale -> up.weight: the origin is the rule `weight$`
#include "plan/like.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <variant>
#include <vector>

#include "source/size.h"

namespace shardc {

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
