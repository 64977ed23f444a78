// Finds what the roles of a `model:` section do, from the ops that use them. A
// section may give its roles and its parameters any names, so nothing is read
// from names. For example, `wz` is a query projection if it is in these lines:
//
//   c = linear(y, wz)
//   a = attention(c, k, w)
#ifndef SHARDC_STEP_ROLE_USES_H_
#define SHARDC_STEP_ROLE_USES_H_

#include <compare>
#include <mutex>
#include <string_view>
#include <vector>

#include "model/model_description.h"
#include "roles/role.h"
#include "source/text_order.h"

namespace shardc::step {

struct RoleUse {
  // What the parameter does itself, and what its module does: kBias and kQuery
  // for the bias of a query projection. Both are kOther if no op shows it.
  Role role = Role::kOther, module_role = Role::kOther;
  bool attention = false;  // whether it is a projection of attention
  bool expert = false;     // whether it belongs to routed experts
  // Whether each expert has a tensor of its own (`$e` in the pattern).
  bool counted_expert = false;
  // Whether every token uses it next to routed experts.
  bool shared_expert = false;
  bool encoder = false;  // whether the encoder applies it to its tokens
  // Whether it is applied to the result of the encoder, as the keys of
  // cross-attention are.
  bool crossed = false;
  // Whether the lines before the layers or the lines after them use it. A tied
  // table is used by both.
  bool begins = false, ends = false;
  // Whether the step does not use the parameter (`skip`).
  bool skipped = false;
  // The dimensions of a matrix that a product sums over and computes. They are
  // counted from the end, so the last dimension is 1; 0 if they are not known.
  int in = 0, out = 0;

  bool IsKnown() const { return role != Role::kOther || skipped; }
  auto operator<=>(const RoleUse&) const = default;
};

// Returns the use of each role of the description, in the description's order.
// Returns an empty list if a line of the description is invalid.
std::vector<RoleUse> UsesOf(const ModelDescription& description);

// The uses of the parameters of one model. They are computed at the first call
// of Of(), so that commands that need no roles do not wait for them. Several
// threads may call Of() at the same time.
class ParameterUses {
 public:
  // Returns one use for each name; an empty list if the description is invalid.
  // All calls must have the same description and names. `separator` is the
  // separator of the names.
  const std::vector<RoleUse>& Of(const ModelDescription& description,
                                 Texts names, char separator);

 private:
  std::once_flag once_;
  std::vector<RoleUse> uses_;
};

}  // namespace shardc::step

#endif  // SHARDC_STEP_ROLE_USES_H_
