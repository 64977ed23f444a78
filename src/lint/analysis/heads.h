// The attention heads in the model's configuration.
#ifndef SHARDC_LINT_ANALYSIS_HEADS_H_
#define SHARDC_LINT_ANALYSIS_HEADS_H_

#include <cstdint>
#include <optional>

#include "model/project.h"

namespace shardc {

struct Heads {
  int64_t heads = 0;
  int64_t kv_heads = 0;  // the same as `heads` if it is not given
  int64_t head_dim = 0;
};

// Returns the number and the size of the heads; nullopt if either is unknown,
// less than 1, or greater than 2^20, or if `kv_heads` is less than 1. A size
// that the configuration does not give is the hidden size divided by the number
// of heads.
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
