// Finds what parameters do by the factors that the description of their family
// states, whatever their names are.
#ifndef SHARDC_ROLES_DESCRIBED_H_
#define SHARDC_ROLES_DESCRIBED_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/manifest.h"
#include "model/project.h"
#include "program/facts.h"
#include "roles/role.h"

namespace shardc {

class DescribedRoles {
 public:
  // Null stands for no description.
  explicit DescribedRoles(std::shared_ptr<const program::Facts> facts);

  // Returns what the description states about a parameter; null if it has no
  // parameter of this name and shape.
  const program::ParamFacts* Find(std::string_view name,
                                  const Shape& shape) const;
  // Returns what it states about the weight of which a parameter is the
  // quantised form: `gate_up_proj` for `gate_up_proj_blocks`, and `q.weight`
  // for `q.qweight`. Returns null if it has no such weight.
  const program::ParamFacts* FindUnquantised(std::string_view name,
                                             char separator) const;
  // Returns the role that the factors show; kOther if they leave several open.
  // `named` is the role that the name suggests, or kOther. It is returned if
  // the factors do not contradict it.
  Role RoleOf(const program::ParamFacts& param, Role named) const;
  // Returns whether a matrix is in a feed-forward block next to tensors of all
  // experts in the same layer, so that every token uses it.
  bool IsShared(const program::ParamFacts& param) const;
  // Returns whether each of `shards` contiguous ranges of some dimension has
  // its share of each part: the parts are inside of what the shards divide,
  // such as the query, key and value of each head.
  bool Interleaves(const program::ParamFacts& param, int64_t shards) const;

 private:
  void FindRoles();

  std::shared_ptr<const program::Facts> facts_;
  std::unordered_map<std::string_view, uint32_t> by_name_;
  // Of each parameter of the description.
  std::vector<Role> roles_;
  std::vector<bool> shared_;
};

// Sets the heads of a configuration to those of the matrices that read or write
// the stream of the language model, where all of them show one number. Sets the
// hidden size, the vocabulary, the experts, the inner widths and the number of
// layers likewise, if the configuration's own keys do not show them: it may
// have them under other names.
void CompleteSizes(const program::Facts& facts, ModelConfig& model);

// The sizes of attention's heads that a model's configuration states, and the
// widths that they give to projections.

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

#endif  // SHARDC_ROLES_DESCRIBED_H_
