// Finds layers whose attention heads have another size than the configuration
// states, by the norms of their queries.
#ifndef SHARDC_LINT_ANALYSIS_LAYER_HEADS_H_
#define SHARDC_LINT_ANALYSIS_LAYER_HEADS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

class LayerHeads {
 public:
  // `head_dim` is the size of a head in the configuration.
  LayerHeads(const Facts& facts, int64_t head_dim);

  // Returns the indices of the group's parameters in the plan, keyed by the
  // size of the heads of their layer. The group is one of a projection of
  // attention.
  std::map<int64_t, std::vector<uint32_t>> BySize(
      const ParameterGroup& group) const;

 private:
  const Facts& facts_;
  int64_t head_dim_ = 0;
  // The size of a head, keyed by the path of the attention block with its last
  // separator, such as `layers.3.self_attn.`. Blocks whose heads have the
  // configuration's size are omitted.
  std::map<std::string, int64_t, std::less<>> of_block_;
};

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_LAYER_HEADS_H_
