// Placement of unsharded tensors, one per expert: the coordinate of an axis
// that a rule's `place` selects by the index in the tensor's name.
#ifndef SHARDC_PLAN_PLACEMENT_H_
#define SHARDC_PLAN_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "match/match.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/rules.h"
#include "plan/digits_between.h"
#include "plan/plan.h"
#include "resolve/resolve.h"
#include "source/finding.h"

namespace shardc {

class JsonWriter;

class Placements {
 public:
  // Compiles the `index` patterns of the rules. Findings: patterns that do not
  // compile or capture nothing. A count that a rule leaves out is one more than
  // the largest index that its pattern finds in the manifest's names.
  static Placements Compile(std::span<const Rule> rules,
                            const Manifest& manifest, Findings& findings);

  // Returns the coordinate, index * size / count, of tensor `number` of the
  // manifest under `rule`, which is rule number `at`. Returns nothing if the
  // rule places nothing or the mesh lacks its axis, and after a finding if the
  // name has no index or one that is not below `count`.
  std::optional<int64_t> Coordinate(const Rule& rule, size_t at,
                                    const Manifest& manifest, uint32_t number,
                                    const Mesh& mesh, Findings& findings) const;
  // The number in the tensor's name by which the rule, which has a `place`,
  // places it; -1 if the name has none.
  int64_t Index(const Rule& rule, size_t at, const Manifest& manifest,
                uint32_t number) const;
  // The number of tensors that rule number `at` places one after the other; 0
  // if it places none.
  int64_t Count(size_t at) const { return counts_[at]; }

 private:
  // An `index` pattern, and a faster way to search for one of the usual form.
  struct IndexPattern {
    Regex regex;
    std::optional<DigitsBetween> digits;

    // Returns the number that the pattern captures in the name, whose
    // `separator` is replaced by that of the rule; -1 if there is none.
    int64_t In(const Rule& rule, std::string_view tensor, char separator) const;
  };

  std::vector<std::optional<IndexPattern>> index_patterns_;  // by rule
  std::vector<int64_t> counts_;
  // indices_[k][tensor] is the index in the tensor's name, for each rule whose
  // count was taken from the names; indices_of_[rule] is the rule's k.
  std::vector<std::vector<int64_t>> indices_;
  std::vector<std::optional<size_t>> indices_of_;
};

// The axis along which a parameter of this layout is placed: that of its rule's
// `place`, or, if the spec is another parameter's (`like`), of the rule that
// gave that parameter its spec. Empty if neither places anything.
const std::string& PlacementAxis(const Plan& plan, const ParamLayout& layout);

// The member "placement": {"axis", "coordinate"}.
void WritePlacement(JsonWriter& json, std::string_view axis,
                    int64_t coordinate);

// Reports a placement axis that the spec shards over as well.
void CheckPlacedSpecs(const Placement& placement,
                      const std::map<Mode, Resolved>& by_mode,
                      Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_PLACEMENT_H_
