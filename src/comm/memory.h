// What devices hold: the KV cache, and parameters whole, split or placed.
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
#include "model/spec.h"

namespace shardc {

// Keys and values of all layers, or the latent row that both come from.
struct CacheSizes {
  int64_t layers = 0;
  int64_t batch = 0;
  int64_t length = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t element_bytes = 2;  // bfloat16
  int64_t tensors = 2;        // keys and values; 1 of a latent row
};
// The parts that a dimension is cut into.
struct CacheParts {
  int64_t batch = 1;
  int64_t length = 1;
  int64_t kv_heads = 1;
};

// tensors * layers * batch * length * kv_heads * head_dim * element bytes;
// nothing where that does not fit.
std::optional<int64_t> CacheBytes(const CacheSizes& sizes);
// What one device holds of it, rounded up dimension by dimension.
std::optional<int64_t> CacheBytesPerDevice(const CacheSizes& sizes,
                                           const CacheParts& parts);

// What a model caches: layers that see all tokens, those that see a window and
// keep no more of them, and int8's float32 scale a token and head. Nothing
// where the configuration does not say it.
std::optional<std::vector<CacheSizes>> CachesOf(const ModelConfig& model,
                                                int64_t batch, int64_t length,
                                                Dtype dtype);
// All of them together; each is split as `parts` says.
std::optional<int64_t> CacheBytesPerDevice(const std::vector<CacheSizes>& all,
                                           const CacheParts& parts);

// Of a tensor, what the fullest device holds: each dimension is cut into its
// axes' parts, rounded up.
Shape ShardShape(const Mesh& mesh, Shape shape, const Spec& spec);

// Adds up what devices hold. Whole and split tensors weigh the same on every
// device; placed ones lie at one coordinate of an axis.
class HeldBytes {
 public:
  void Add(int64_t bytes);
  void AddAt(const std::string& axis, int64_t coordinate, int64_t bytes);

  // Placed bytes by axis and coordinate, where there are any; at most
  // INT64_MAX each.
  using ByCoordinate = std::map<int64_t, int64_t>;
  const std::map<std::string, ByCoordinate>& placed() const { return placed_; }
  // Of the fullest device: axes are independent of each other, so one stands
  // at the fullest coordinate of each. Nothing where that does not fit.
  std::optional<int64_t> Fullest() const;
  // Of the emptiest device of a mesh: coordinates that nothing is placed at
  // hold nothing of it.
  std::optional<int64_t> Emptiest(const Mesh& mesh) const;

 private:
  // Adds up to INT64_MAX and remembers what did not fit.
  void AddTo(int64_t& sum, int64_t bytes);

  int64_t everywhere_ = 0;
  std::map<std::string, ByCoordinate> placed_;
  bool fits_ = true;
};

}  // namespace shardc

#endif  // SHARDC_COMM_MEMORY_H_
