// Finds the rule that the user probably intended for a name that no rule
// matches.
#ifndef SHARDC_PLAN_NEAREST_H_
#define SHARDC_PLAN_NEAREST_H_

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "match/match.h"
#include "match/sketch.h"
#include "model/rules.h"
#include "plan/nearest_index.h"

namespace shardc {

struct NearRule {
  int32_t rule = -1;
  // How many parts of the pattern are equal to the parts of the name at the
  // same position.
  int matched = 0;
  // How many of these equal parts come after the part that differs.
  int run = 0;
  std::string written;  // The part of the pattern that differs.
  std::string found;    // The part of the name at the position of `written`.
  // The pattern with `written` replaced by `found`. Empty if the pattern cannot
  // be changed in this way.
  std::string rewrite;
};

// A plan's rules, prepared for comparison with names.
class NearestRules {
 public:
  enum class Among : uint8_t { kAll, kDead };

  // `rules` must outlive this object. `matches` shows which rules are dead,
  // which means that they match no parameter.
  NearestRules(std::span<const Rule> rules, const Matches& matches,
               char separator);

  // Returns the rule that is nearest to the name, or nullopt if no rule is
  // near. A rule is near if exactly one of the compared parts differs, and at
  // least two parts are equal. Fewer parts may be equal if the part that
  // differs is a typing error. Two numbers, such as the layers 3 and 5, do not
  // differ, but they are not counted as equal parts either. A catch-all is
  // never returned.
  //
  // If several rules are near, the order of preference is: dead rules; rules
  // with a typing error, the fewest edits first; the most equal parts; the most
  // equal parts at the end; the fewest edits; rules not in `taken`; earlier
  // rules.
  std::optional<NearRule> Of(std::string_view name, Among among = Among::kAll,
                             const std::set<int32_t>& taken = {}) const;

  const Sketch& sketch(size_t rule) const { return sketches_[rule]; }

 private:
  std::span<const Rule> rules_;
  char separator_;
  std::vector<Sketch> sketches_;
  // The texts that the rules' patterns can match (Sketch::texts), such as
  // `mlp/a/kernel` and `mlp/b/kernel` for the pattern `mlp/(a|b)/kernel`.
  std::vector<PatternText> texts_;
  NearestIndex index_;
  std::vector<bool> dead_;
};

}  // namespace shardc

#endif  // SHARDC_PLAN_NEAREST_H_
