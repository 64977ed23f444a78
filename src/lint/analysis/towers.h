// Finds which parameters belong to a tower: a part of a model next to its
// language model, such as a vision or an audio encoder.
#ifndef SHARDC_LINT_ANALYSIS_TOWERS_H_
#define SHARDC_LINT_ANALYSIS_TOWERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "lint/analysis/facts.h"
#include "parse/config_parts.h"
#include "roles/role.h"

namespace shardc {

// The heads that a projection of a tower's attention holds.
struct TowerHeads {
  const TowerConfig* tower = nullptr;  // never null
  int dim = 0;                         // the dimension that holds the heads
  int64_t count = 0;                   // of `tower->head_dim` each
  bool kv = false;  // whether they are KV heads, of which there are fewer
};

class Towers {
 public:
  explicit Towers(const Facts& facts);

  // Returns whether the group is in a tower, so that the sizes of the language
  // model are not its sizes.
  bool Holds(const ParameterGroup& group) const;
  // Returns the heads of a projection. Returns nullopt if the group is not such
  // a projection, or if the configuration does not state its tower's sizes.
  std::optional<TowerHeads> HeadsOf(const ParameterGroup& group) const;

 private:
  const Facts& facts_;
  // The tower of each layer stack, keyed by the part of its names before their
  // first number. Null if the stack is in a tower of unknown sizes.
  std::map<std::string_view, const TowerConfig*> of_stack_;
};

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_TOWERS_H_
