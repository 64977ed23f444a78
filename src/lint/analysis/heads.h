// Reads the number and the size of the attention heads from the model's
// configuration.
#ifndef SHARDC_LINT_ANALYSIS_HEADS_H_
#define SHARDC_LINT_ANALYSIS_HEADS_H_

#include <cstdint>
#include <optional>

#include "model/project.h"

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
inline std::optional<Heads> HeadsOf(const ModelConfig& model) {
  Heads out;
  out.heads = model.heads.value_or(0);
  out.kv_heads = model.kv_heads.value_or(out.heads);
  if (out.heads <= 0 || out.kv_heads <= 0) return std::nullopt;
  out.head_dim = model.head_dim.value_or(model.hidden.value_or(0) / out.heads);
  if (out.head_dim <= 0 || out.heads > (1 << 20) || out.head_dim > (1 << 20)) {
    return std::nullopt;
  }
  return out;
}

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_HEADS_H_
