// Computes at which coordinate of an axis a tensor is held. This is for tensors
// that exist once for each index, such as one for each expert. The `place` of a
// rule states the axis, and how to find the index in the tensor's name.
#ifndef SHARDC_PLAN_PLACEMENT_H_
#define SHARDC_PLAN_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "match/match.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/rules.h"
#include "plan/compile.h"
#include "plan/plan.h"
#include "resolve/resolve.h"
#include "source/finding.h"

namespace shardc {

// Finds the number that a rule's pattern `place.index` captures in a name,
// without RE2. This is possible if the pattern is digits between two literal
// texts, such as `experts\.(\d+)\.`.

// A pattern of digits between two texts, such as `experts\.(\d+)\.`.
struct DigitsBetween {
  std::string before, after;

  // Parses a pattern. Returns nullopt if the pattern is not digits between two
  // texts.
  static std::optional<DigitsBetween> Of(std::string_view pattern);

  // Returns the digits that the pattern's group captures in its first match in
  // the name, which are the same as with RE2. Returns nullopt if the name does
  // not match.
  std::optional<std::string_view> In(std::string_view name) const;
};

class JsonWriter;

class Placements {
 public:
  // Compiles the `index` patterns of the rules. Adds findings for patterns that
  // do not compile or that have no group. If a rule does not state a count, its
  // count is one more than the largest index that its pattern finds in the
  // manifest's names.
  static Placements Compile(std::span<const Rule> rules,
                            const Manifest& manifest, Findings& findings);

  // Returns the coordinate, along the axis of the rule's `place`, at which
  // tensor `number` of the manifest is placed. The coordinate is index * size /
  // count, rounded down, where the index is the number in the tensor's name
  // (Index), the size is that of the axis, and the count is Count(at). `at` is
  // the position of `rule` in the list of rules.
  //
  // Returns nullopt if the rule has no `place`, or if the mesh lacks its axis.
  // Also returns nullopt, after a finding, if the name has no index, if the
  // index is not below the count, or if index * size overflows.
  std::optional<int64_t> Coordinate(const Rule& rule, size_t at,
                                    const Manifest& manifest, uint32_t number,
                                    const Mesh& mesh, Findings& findings) const;
  // Returns the index in the tensor's name, or -1 if the name has no index. The
  // rule must have a `place`.
  int64_t Index(const Rule& rule, size_t at, const Manifest& manifest,
                uint32_t number) const;
  // Returns the count of the rule at position `at`, such as the number of
  // experts: the number of indices that its `place` distributes over the axis.
  // Returns 0 if the rule has no `place`, or if no name has an index.
  int64_t Count(size_t at) const { return counts_[at]; }

 private:
  // The compiled pattern of a rule's `place.index`. If the pattern is digits
  // between two literal texts, such as `experts\.(\d+)\.`, `digits` finds the
  // number without RE2.
  struct IndexPattern {
    Regex regex;
    std::optional<DigitsBetween> digits;

    // Returns the number that the pattern captures in the name, or -1 if the
    // pattern does not match. `separator` is the separator of the name, which
    // is replaced by the rule's separator before matching.
    int64_t In(const Rule& rule, std::string_view tensor, char separator) const;
  };

  // The pattern of each rule, indexed by rule; nullopt without `place`.
  std::vector<std::optional<IndexPattern>> index_patterns_;
  std::vector<int64_t> counts_;
  // indices_[indices_of_[rule]][tensor] is the index in the tensor's name, such
  // as the number of an expert. Indices are stored only for rules that do not
  // state how many indices there are. Rules with the same pattern share an
  // element of indices_.
  std::vector<std::vector<int64_t>> indices_;
  std::vector<std::optional<size_t>> indices_of_;
};

// Returns the axis along which a parameter of this layout is placed: the axis
// of `place` of its rule. If the rule takes its spec from another rule (by the
// key `like`) and has no `place`, it is the axis of the other rule's `place`.
// Returns an empty text if neither rule has a `place`.
const std::string& PlacementAxis(const Plan& plan, const ParamLayout& layout);

// Writes the member "placement": {"axis", "coordinate"}.
void WritePlacement(JsonWriter& json, std::string_view axis,
                    int64_t coordinate);

// Reports a rule whose spec shards over the axis of the rule's own `place`.
// Only the devices at one coordinate of this axis hold the tensor, so the axis
// cannot shard it too.
void CheckPlacedSpecs(const Placement& placement,
                      const std::map<Mode, Resolved>& by_mode,
                      Findings& findings);

// Finds the specs that rules copy from other parameters: `spec: {like:
// REWRITE}`.

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

#endif  // SHARDC_PLAN_PLACEMENT_H_
