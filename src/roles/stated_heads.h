// The sizes of attention's heads that a model's configuration states, and the
// widths that they give to projections.
#ifndef SHARDC_ROLES_STATED_HEADS_H_
#define SHARDC_ROLES_STATED_HEADS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/project.h"
#include "roles/role.h"

namespace shardc {

struct Heads {
  int64_t heads = 0;
  int64_t kv_heads = 0;  // equal to `heads` if the configuration lacks it
  int64_t head_dim = 0;
};

// Returns the number and the size of the heads. If the configuration has no
// head size, the hidden size is divided by the number of heads. Returns nullopt
// if a number or size is unknown or less than 1, or if the number of heads or
// their size is greater than 2^20.
std::optional<Heads> HeadsOf(const ModelConfig& model);

// The outputs that projections of a role have by the configuration.
struct StatedWidth {
  Role role = Role::kOther;
  std::vector<int64_t> widths;  // each that is accepted; never empty
  std::string text;             // as in "32 heads of 128"
};

// Returns the widths of query, key and fused projections. `gated` states
// whether an output projection reads as many values as the query heads have: a
// query projection that is twice as wide is then fused with a gate.
std::vector<StatedWidth> StatedWidths(const Heads& heads, bool gated);

}  // namespace shardc

#endif  // SHARDC_ROLES_STATED_HEADS_H_
