// Finds functions of the user's program that only constrain shardings.
#ifndef SHARDC_AUDIT_CONSTRAINT_FUNCTIONS_H_
#define SHARDC_AUDIT_CONSTRAINT_FUNCTIONS_H_

#include <set>
#include <string_view>
#include <utility>

#include "hlo/program.h"

namespace shardc::audit {

// Functions such as `constrain(x, spec)`, which all layers call to constrain a
// sharding. The line of `with_sharding_constraint` in such a function is the
// same for every layer, so the line of its caller is reported instead.
class ConstraintFunctions {
 public:
  explicit ConstraintFunctions(const hlo::Program& program);

  // Returns the innermost line of the user's program that leads to an
  // instruction and is not in a helper. If every line is in a helper or in an
  // installed package, returns the same line as hlo::UserLine.
  hlo::SourceLine LineOf(std::string_view metadata) const;

 private:
  using Function = std::pair<std::string_view, std::string_view>;

  const hlo::Frames& frames_;
  std::set<Function> functions_;  // file and name of each helper
};

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_CONSTRAINT_FUNCTIONS_H_
