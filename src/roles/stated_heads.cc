#include "roles/stated_heads.h"

#include <string_view>

namespace shardc {

std::optional<Heads> HeadsOf(const ModelConfig& model) {
  constexpr int64_t kMost = 1 << 20;
  Heads out;
  out.heads = model.heads.value_or(0);
  out.kv_heads = model.kv_heads.value_or(out.heads);
  if (out.heads <= 0 || out.kv_heads <= 0) return std::nullopt;
  out.head_dim = model.head_dim.value_or(model.hidden.value_or(0) / out.heads);
  if (out.head_dim <= 0 || out.heads > kMost || out.head_dim > kMost) {
    return std::nullopt;
  }
  return out;
}

std::vector<StatedWidth> StatedWidths(const Heads& heads, bool gated) {
  const auto text = [&](int64_t count, std::string_view what) {
    return std::to_string(count) + " " + std::string(what) + " of " +
           std::to_string(heads.head_dim);
  };
  const int64_t query = heads.heads * heads.head_dim;
  const int64_t key = heads.kv_heads * heads.head_dim;
  std::vector<int64_t> query_widths = {query};
  if (gated) query_widths.push_back(2 * query);
  // A fused projection may store each KV head once for every query head.
  return {{Role::kQuery, query_widths, text(heads.heads, "heads")},
          {Role::kKey, {key}, text(heads.kv_heads, "KV heads")},
          {Role::kFusedQkv,
           {query + 2 * key, 3 * query},
           text(heads.heads, "heads") + " with " +
               std::to_string(heads.kv_heads) + " KV heads"}};
}

}  // namespace shardc
