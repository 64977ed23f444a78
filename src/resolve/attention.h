// Computes the specs of the tensors of an attention operation, such as query
// and key, in one mode and one dimension order (bthd, bhtd or thd).
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
  // If true, the heads of k and v are sharded over HEAD, as those of q, instead
  // of KV_HEAD.
  bool mni = false;
  std::optional<int> softmax_aux_rank;  // nullopt if there is no softmax_aux
};

struct AttentionTensor {
  std::string_view name;  // "query", "key", "value", "output", "bias", ...
  // Logical axes, such as "BATCH"; "_" for an unsharded dimension.
  std::vector<std::string_view> tokens;
  Resolved resolved;
};

// Returns the tensors query3d, query, key, value, bias, mask, output,
// q_segment_ids and kv_segment_ids, in this order. softmax_aux follows if it
// was requested. In the layout thd, cu_seqlens follows, which is replicated.
std::vector<AttentionTensor> AttentionSpecs(const Resolver& resolver, Mode mode,
                                            const AttentionOptions& options);

}  // namespace shardc

#endif  // SHARDC_RESOLVE_ATTENTION_H_
