// Finds the specs that rules copy from other parameters: `spec: {like:
// REWRITE}`.
#ifndef SHARDC_PLAN_LIKE_H_
#define SHARDC_PLAN_LIKE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/manifest.h"
#include "model/rules.h"
#include "plan/compile.h"
#include "source/finding.h"

namespace shardc {

inline constexpr int32_t kNoRule = -1;

// The rule from which a parameter's spec in one mode comes, after all `like`
// specs have been followed.
struct SpecOrigin {
  // kNoRule if the chain of `like` specs ends at a scalar or at a parameter
  // that no rule matches.
  int32_t rule = kNoRule;
  // The chain's last parameter, for which `rule` is the first match.
  uint32_t tensor = 0;
  bool operator<(const SpecOrigin& o) const { return rule < o.rule; }
};

// Returns the rule's spec for a mode: the mode's entry under `modes` or,
// without such an entry, `spec`.
const SpecSource& SourceOf(const Rule& rule, Mode mode);
// Returns whether no rule applies to a tensor of this type because it has no
// dimensions or, with Compat::kFjformer, because it has only one element.
bool IsScalar(const TensorType& type, Compat compat);

class LikeChains {
 public:
  // Compiled::matches must be set before Follow is called. Both arguments must
  // outlive this object.
  LikeChains(const Compiled& compiled, Findings& findings)
      : c_(compiled), findings_(findings) {}

  // Follows `like` specs from parameter to parameter. Each parameter is
  // followed only once in a mode. Returns nullopt and adds an error if a target
  // does not exist, if the rewrite uses a group that the pattern lacks, or if
  // the chain is a cycle. A cycle is reported only once, although several
  // parameters may lead to it.
  std::optional<SpecOrigin> Follow(uint32_t tensor, Mode mode);

 private:
  // Follows a chain of `like` specs to its end, or to a parameter whose origin
  // is already known. Adds the parameters of the chain to `seen`.
  std::optional<SpecOrigin> Walk(uint32_t tensor, Mode mode,
                                 std::vector<uint32_t>& seen);
  std::optional<uint32_t> TargetOf(uint32_t tensor, int32_t rule,
                                   const SpecLike& like);

  const Compiled& c_;
  Findings& findings_;
  std::unordered_map<std::string_view, uint32_t> by_name_;
  // Tensors that are on a cycle that was reported.
  std::set<uint32_t> on_cycles_;
  // The results of Follow(), by mode and tensor.
  std::map<Mode, std::unordered_map<uint32_t, std::optional<SpecOrigin>>>
      known_;
};

}  // namespace shardc

#endif  // SHARDC_PLAN_LIKE_H_
