// Finds the rule that was probably intended for a name that no rule matched.
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
  int matched = 0;      // number of equal parts of the path
  int run = 0;          // number of equal parts at the end
  std::string written;  // the part of the pattern that differs
  std::string found;    // the part of the name at the same position
  // The pattern with `found` in place of `written`. Empty if the pattern cannot
  // be changed in this way.
  std::string rewrite;
};

// A plan's rules, prepared for comparison with names.
class NearestRules {
 public:
  enum class Among : uint8_t { kAll, kDead };

  // `rules` must outlive this object. A rule is dead if it matches no parameter
  // according to `matches`.
  NearestRules(std::span<const Rule> rules, const Matches& matches,
               char separator);

  // Returns the rule that is nearest to the name, or nullopt if no rule is
  // near. Exactly one of the compared parts differs. At least two parts are
  // equal, or fewer if the part that differs is a typing error. Two numbers
  // never differ, but they are not counted as equal parts. The order of
  // preference is: dead rules; rules with a typing error, the fewest edits
  // first; the most equal parts; the most equal parts at the end; the fewest
  // edits; rules that are not in `taken`; earlier rules. A catch-all is never
  // returned.
  std::optional<NearRule> Of(std::string_view name, Among among = Among::kAll,
                             const std::set<int32_t>& taken = {}) const;

  const Sketch& sketch(size_t rule) const { return sketches_[rule]; }

 private:
  std::span<const Rule> rules_;
  char separator_;
  std::vector<Sketch> sketches_;
  std::vector<PatternText> texts_;  // texts of all rules' sketches
  NearestIndex index_;
  std::vector<bool> dead_;
};

}  // namespace shardc

#endif  // SHARDC_PLAN_NEAREST_H_
