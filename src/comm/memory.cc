// Sums the bytes that devices hold. A placed tensor is held only by the devices
// at one coordinate of a mesh axis. For example, an expert may be placed at one
// coordinate of ep. The bytes of placed tensors are summed for each axis and
// coordinate. The bytes of all other tensors are the same on every device and
// are summed once. For example, if all devices hold 10 bytes, and experts of 4,
// 4 and 2 bytes are at the coordinates 0, 0 and 1 of ep, then the fullest
// device holds 10 + 4 + 4 bytes.
//
// In a sharded cache, each dimension is divided and rounded up. For example, a
// cache of 8 rows of 100 tokens is sharded into 3 parts along the batch and 8
// along the length. Each device holds ceil(8/3) = 3 rows of ceil(100/8) = 13
// tokens.
#include "comm/memory.h"

#include <algorithm>
#include <array>
#include <utility>

#include "source/size.h"

namespace shardc {
std::optional<int64_t> CacheBytes(const CacheSizes& sizes) {
  int64_t tensors = sizes.tensors, width = sizes.head_dim;
  if (sizes.value_dim > 0) {
    const auto both = CheckedAdd(sizes.head_dim, sizes.value_dim);
    if (!both) return std::nullopt;
    tensors = 1;
    width = *both;
  }
  const std::array<int64_t, 7> factors = {
      tensors,        sizes.layers, sizes.batch,        sizes.length,
      sizes.kv_heads, width,        sizes.element_bytes};
  return CheckedProduct(factors);
}

std::optional<int64_t> CacheBytesPerDevice(const CacheSizes& sizes,
                                           const CacheParts& parts) {
  CacheSizes own = sizes;
  own.batch = ShareOf(sizes.batch, parts.batch);
  own.length = ShareOf(sizes.length, parts.length);
  own.kv_heads = ShareOf(sizes.kv_heads, parts.kv_heads);
  return CacheBytes(own);
}

std::optional<std::vector<CacheKind>> CacheKindsOf(const ModelConfig& model) {
  if (!model.layers || model.has_encoder) return std::nullopt;
  // DeepSeek's cache holds one compressed row per token, the latent row of MLA.
  // Its size is unknown if the configuration lacks the length of this row
  // (`latent_rank`).
  if (model.model_type.starts_with("deepseek_v") && !model.latent_rank) {
    return std::nullopt;
  }
  const int64_t attending = model.attention_layers.value_or(*model.layers);
  const int64_t layers = attending - model.borrowing_layers.value_or(0);
  if (layers <= 0) return std::vector<CacheKind>{};
  CacheKind all;
  if (model.latent_rank) {
    all.kv_heads = 1;
    all.head_dim = *model.latent_rank + model.latent_rope_dim.value_or(0);
    all.index_dim = model.index_dim.value_or(0);
    all.tensors = 1;
  } else {
    const auto heads = model.kv_heads ? model.kv_heads : model.heads;
    if (!heads || !model.head_dim) return std::nullopt;
    all.kv_heads = *heads;
    all.head_dim = *model.head_dim;
    all.value_dim = model.value_dim.value_or(0);
  }
  std::vector<CacheKind> out;
  // With chunked attention, a token attends only to keys of its own chunk. The
  // cache therefore keeps at most one chunk of tokens, as it keeps at most one
  // window of tokens with sliding-window attention.
  const auto window =
      model.sliding_window ? model.sliding_window : model.attention_chunk;
  const int64_t windowed =
      window ? std::clamp<int64_t>(model.windowed_layers.value_or(attending) -
                                       model.borrowing_windowed.value_or(0),
                                   0, layers)
             : 0;
  all.layers = layers - windowed;
  if (all.layers > 0) {
    out.push_back(all);
    CacheKind& full = out.back();
    full.kv_heads = model.full_kv_heads.value_or(all.kv_heads);
    full.head_dim = model.full_head_dim.value_or(all.head_dim);
  }
  if (windowed > 0) {
    all.kept = KeptTokens::kWindow;
    all.layers = windowed;
    all.window = *window;
    all.kv_heads = model.windowed_kv_heads.value_or(all.kv_heads);
    all.head_dim = model.windowed_head_dim.value_or(all.head_dim);
    all.value_dim = model.windowed_value_dim.value_or(all.value_dim);
    out.push_back(all);
  }
  return out;
}

std::optional<std::vector<CacheSizes>> CachesOf(const ModelConfig& model,
                                                int64_t batch, int64_t length,
                                                Dtype dtype) {
  const auto kinds = CacheKindsOf(model);
  if (!kinds) return std::nullopt;
  std::vector<CacheSizes> out;
  for (const CacheKind& kind : *kinds) {
    CacheSizes& one = out.emplace_back();
    one.layers = kind.layers;
    one.batch = batch;
    one.length = kind.kept == KeptTokens::kWindow
                     ? std::min(length, kind.window)
                     : length;
    one.kv_heads = kind.kv_heads;
    one.head_dim = kind.head_dim + kind.index_dim;
    one.value_dim = kind.value_dim;
    one.tensors = kind.tensors;
    one.element_bytes = DtypeBits(dtype) / 8;
  }
  if (dtype != Dtype::kI8) return out;
  for (size_t i = out.size(); i > 0;) {
    --i;
    CacheSizes scales = out[i];
    scales.head_dim = 1;
    scales.value_dim = 0;
    scales.element_bytes = 4;
    out.push_back(scales);
  }
  return out;
}

std::optional<int64_t> CacheBytesPerDevice(const std::vector<CacheSizes>& all,
                                           const CacheParts& parts) {
  std::optional<int64_t> out = 0;
  for (const CacheSizes& sizes : all) {
    const auto bytes = CacheBytesPerDevice(sizes, parts);
    out = out && bytes ? CheckedAdd(*out, *bytes) : std::nullopt;
  }
  return out;
}

void HeldBytes::AddTo(int64_t& sum, std::optional<int64_t> bytes) {
  const auto next = bytes ? CheckedAdd(sum, *bytes) : std::nullopt;
  fits_ = fits_ && next.has_value();
  sum = next.value_or(INT64_MAX);
}

void HeldBytes::Add(std::optional<int64_t> bytes) { AddTo(everywhere_, bytes); }

void HeldBytes::AddAt(const std::string& axis, int64_t coordinate,
                      std::optional<int64_t> bytes) {
  AddTo(placed_[axis][coordinate], bytes);
}

std::optional<int64_t> HeldBytes::Fullest() const {
  if (!fits_) return std::nullopt;
  std::optional<int64_t> out = everywhere_;
  for (const auto& [axis, held] : placed_) {
    int64_t fullest = 0;
    for (const auto& [coordinate, bytes] : held) {
      fullest = std::max(fullest, bytes);
    }
    if (out) out = CheckedAdd(*out, fullest);
  }
  return out;
}

std::optional<int64_t> HeldBytes::Emptiest(const Mesh& mesh) const {
  if (!fits_ || uneven_) return std::nullopt;
  std::optional<int64_t> out = everywhere_;
  for (const auto& [axis, held] : placed_) {
    int64_t emptiest = INT64_MAX;
    for (const auto& [coordinate, bytes] : held) {
      emptiest = std::min(emptiest, bytes);
    }
    const auto places = static_cast<int64_t>(held.size());
    if (places < mesh.SizeOf(axis)) emptiest = 0;
    if (out) out = CheckedAdd(*out, emptiest);
  }
  return out;
}

}  // namespace shardc
