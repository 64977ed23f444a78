// The rule that was probably intended for a name that no rule matched.
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

namespace shardc {

struct NearRule {
  int32_t rule = -1;
  int matched = 0;      // path parts that agree
  int run = 0;          // of them, from the end up to the first that does not
  std::string written;  // the part of the pattern that does not fit
  std::string found;    // what the name has there
  // The pattern with the one put for the other, where that is a plain edit.
  std::string rewrite;
};

// A plan's rules, as they are compared with names.
class NearestRules {
 public:
  enum class Among : uint8_t { kAll, kDead };

  // `rules` outlive this; `matches` says which of them are dead: found in no
  // parameter at all.
  NearestRules(std::span<const Rule> rules, const Matches& matches,
               char separator);

  // The rule whose path parts agree best with the name's, all but one of them:
  // at least two. Parts of digits alone are any number. Dead rules come first,
  // then those that agree in more parts, from the end on, then those not yet
  // `taken` by another name, then the earlier one. Catch-alls are never near.
  std::optional<NearRule> Of(std::string_view name, Among among = Among::kAll,
                             const std::set<int32_t>& taken = {}) const;

  const Sketch& sketch(size_t rule) const { return sketches_[rule]; }

 private:
  std::span<const Rule> rules_;
  char separator_;
  std::vector<Sketch> sketches_;
  std::vector<bool> dead_;
};

}  // namespace shardc

#endif  // SHARDC_PLAN_NEAREST_H_
