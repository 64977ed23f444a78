// Finds patterns that are written more than once in one file.
#ifndef SHARDC_LINT_ANALYSIS_REPEATS_H_
#define SHARDC_LINT_ANALYSIS_REPEATS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

struct Repeat {
  int32_t first = 0;
  int32_t later = 0;
  bool same_spec = true;  // whether specs and placements are equal
};

// Compares the specs of rules. The specs of each rule are resolved once. The
// facts must outlive this object.
class SpecComparison {
 public:
  explicit SpecComparison(const Facts& facts) : facts_(&facts) {}

  // Returns whether two rules have the same placement, the same parts, and the
  // same spec in every mode. Two specs of the form `like: NAME` are equal if
  // they name the same parameter.
  bool Same(int32_t a, int32_t b);

 private:
  using Specs = std::vector<std::optional<Spec>>;
  const Specs& SpecsOf(int32_t rule);

  const Facts* facts_;
  // The specs of each rule: one for each planned mode, and one in train, which
  // may not be planned.
  std::map<int32_t, Specs> specs_;
};

// Returns each rule that has the same file, pattern and separator as an earlier
// rule, together with the first rule that has them.
std::vector<Repeat> RepeatsOf(const Facts& facts);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_REPEATS_H_
