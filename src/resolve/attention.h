// The specs of attention's tensors in a mode and layout.
#ifndef SHARDC_RESOLVE_ATTENTION_H_
#define SHARDC_RESOLVE_ATTENTION_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/layout.h"
#include "resolve/resolve.h"

namespace shardc {

struct AttentionOptions {
  Layout layout = Layout::kBthd;
  bool mni = false;  // as for q, shard the heads of k and v over HEAD
  std::optional<int> softmax_aux_rank;  // nullopt: no softmax_aux
};

struct AttentionTensor {
  std::string_view name;  // "query", "key", "value", "output", "bias", ...
  std::vector<std::string_view> tokens;  // logical axes: "BATCH", "_" ...
  Resolved resolved;
};

// Returns the tensors in the order query3d, query, key, value, bias, mask,
// output, q_segment_ids, kv_segment_ids, softmax_aux (if requested). The layout
// thd appends cu_seqlens, which is replicated.
std::vector<AttentionTensor> AttentionSpecs(const Resolver& resolver, Mode mode,
                                            const AttentionOptions& options);

}  // namespace shardc

#endif  // SHARDC_RESOLVE_ATTENTION_H_
