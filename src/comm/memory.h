// Computes the bytes that devices hold: the KV cache and the parameters. A
// parameter is replicated, sharded, or placed (held only by the devices at one
// coordinate of a mesh axis).
#ifndef SHARDC_COMM_MEMORY_H_
#define SHARDC_COMM_MEMORY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"

namespace shardc {

// A cache of keys and values, or of MLA's latent rows, which replace both.
struct CacheSizes {
  int64_t layers = 0;
  int64_t batch = 0;
  int64_t length = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t element_bytes = 2;  // bfloat16
  // A cache of keys and values has 2 tensors. A cache of latent rows has 1.
  int64_t tensors = 2;
  // The size of a head's value if it differs from that of its key, which is
  // `head_dim`; 0 if all tensors have heads of one size.
  int64_t value_dim = 0;
};
// The number of parts into which each dimension of a cache is sharded.
struct CacheParts {
  int64_t batch = 1;
  int64_t length = 1;
  int64_t kv_heads = 1;
};

// Returns tensors * layers * batch * length * kv_heads * head_dim *
// element_bytes, with head_dim + value_dim instead of tensors * head_dim if
// keys and values have heads of different sizes; nullopt on overflow.
std::optional<int64_t> CacheBytes(const CacheSizes& sizes);
// Returns the bytes of the cache on one device: each dimension is divided by
// its number of parts and rounded up. Returns nullopt on overflow.
std::optional<int64_t> CacheBytesPerDevice(const CacheSizes& sizes,
                                           const CacheParts& parts);

// The layers of a model that keep the same tokens and have heads of the same
// sizes.
struct CacheKind {
  // kAll or kWindow.
  KeptTokens kept = KeptTokens::kAll;
  int64_t layers = 0;
  int64_t kv_heads = 0, head_dim = 0, value_dim = 0, tensors = 2;  // CacheSizes
  int64_t window = 0;  // the tokens of the window or chunk; 0 with kAll
  // The width of the key that an indexer stores for each token in addition to
  // the latent row; 0 without an indexer.
  int64_t index_dim = 0;
};
// Returns the kinds of a model's layers with a cache: those that keep all
// tokens, then those with a window. Returns nullopt where CachesOf() does.
std::optional<std::vector<CacheKind>> CacheKindsOf(const ModelConfig& model);

// Returns the caches of a model: one for its layers with full attention, and
// one for its layers with a window, which keep no more tokens than the window.
// A model may have only one kind of these layers, and so one cache. For int8,
// each cache has a second cache of float32 scales, with one scale for each
// token and head. Returns nullopt if the configuration lacks a size, or for a
// model with an encoder.
std::optional<std::vector<CacheSizes>> CachesOf(const ModelConfig& model,
                                                int64_t batch, int64_t length,
                                                Dtype dtype);
// Returns the bytes of all caches on one device, or nullopt on overflow. Each
// cache is sharded into `parts`.
std::optional<int64_t> CacheBytesPerDevice(const std::vector<CacheSizes>& all,
                                           const CacheParts& parts);

// Sums the bytes that devices hold. Replicated and sharded tensors have the
// same size on every device, and Add() adds them. A placed tensor is on the
// devices at one coordinate of an axis, and AddAt() adds it. If one of the
// added values is nullopt, Fullest() and Emptiest() return nullopt.
class HeldBytes {
 public:
  void Add(std::optional<int64_t> bytes);
  void AddAt(const std::string& axis, int64_t coordinate,
             std::optional<int64_t> bytes);

  // The bytes of the tensors that are placed at one coordinate of an axis,
  // keyed by axis and by coordinate. A sum that overflows is INT64_MAX.
  using ByCoordinate = std::map<int64_t, int64_t>;
  const std::map<std::string, ByCoordinate>& placed() const { return placed_; }
  // Returns the bytes of the fullest device; nullopt if bytes are unknown or
  // their sum overflows. Axes are independent, so some device is at the fullest
  // coordinate of every axis.
  std::optional<int64_t> Fullest() const;
  // States that the shards of some tensor differ in size (`illegal: pad`).
  // Add() and AddAt() then take the bytes of its largest shard. The devices
  // whose coordinates are all 0 hold the largest shard of every tensor, but
  // which device holds least is not computed.
  void MarkUneven() { uneven_ = true; }
  // Returns the bytes of the device of the mesh that holds least, or nullopt if
  // shards differ in size, if bytes are unknown or if their sum overflows.
  // Coordinates without placed tensors have 0 bytes.
  std::optional<int64_t> Emptiest(const Mesh& mesh) const;

 private:
  // Adds `bytes` to `sum`. If the sum overflows, or if `bytes` is nullopt, sets
  // the sum to INT64_MAX and fits_ to false.
  void AddTo(int64_t& sum, std::optional<int64_t> bytes);

  int64_t everywhere_ = 0;
  std::map<std::string, ByCoordinate> placed_;
  bool fits_ = true;
  bool uneven_ = false;
};

}  // namespace shardc

#endif  // SHARDC_COMM_MEMORY_H_
