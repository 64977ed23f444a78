// The layout of the KV cache in a plan (member `kv`): what the layers keep of a
// request's tokens, one entry for each kind of layers. For example, Gemma 3 27B
// keeps the last 1024 tokens in five of six layers:
//
//   "kv": [{"head_dim": 128, "heads": 16, "kind": "full",
//           "layers": [[5, 6], [11, 12], ..]},
//          {"head_dim": 128, "heads": 16, "kind": "window",
//           "layers": [[0, 5], [6, 11], ..], "window": 1024}]
//
// The axes that shard the heads are those of the key in `attention`.
#ifndef SHARDC_PLAN_KV_LAYOUT_H_
#define SHARDC_PLAN_KV_LAYOUT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "model/axis_rules.h"
#include "model/mesh.h"
#include "model/project.h"
#include "plan/plan_stages.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

class JsonWriter;
struct Compiled;

enum class KvKindName : uint8_t {
  kFull,       // keys and values of all tokens
  kWindow,     // keys and values of the last tokens
  kLatent,     // latent rows (MLA): one head, which every device has
  kIndexer,    // keys of an indexer: one head, which every device has
  kState,      // one state of head_dim * value_dim numbers for each head
  kConvKey,    // inputs of the convolution before a state: queries and keys
  kConvValue,  // inputs of that convolution: values
};
inline constexpr std::array<std::string_view, 7> kKvKindNames = {
    "full", "window", "latent", "indexer", "state", "conv_key", "conv_value"};
inline std::string_view KvName(KvKindName kind) {
  return kKvKindNames[static_cast<size_t>(kind)];
}

struct KvKind {
  KvKindName kind = KvKindName::kFull;
  std::vector<LayerRange> layers = {};  // ascending and disjoint
  // The heads of the entire model, and the size of a head. Both are 0 for a
  // state whose size is not known.
  int64_t heads = 0, head_dim = 0;
  // The size of a head's value if it differs from that of its key, and the
  // second size of a state; otherwise 0.
  int64_t value_dim = 0;
  // The number of tokens that are kept; 0 if all are.
  int64_t window = 0;
  // The axes that shard the heads in a mode, where they differ from those of
  // the key in `attention`. They do if layers with different numbers of KV
  // heads are replicated differently (`kv_replicate`).
  std::vector<std::pair<Mode, AxisGroup>> axes = {};
  bool operator==(const KvKind&) const = default;
};

// Returns the kinds of a model's layers, from the same sizes as the bytes of
// the cache (CacheKindsOf). Returns an empty list if a size is unknown or if it
// is unknown which layers are of which kind. The axes are not set.
std::vector<KvKind> KvKindsOf(const ModelConfig& model);

// Sets Plan::kv of a compiled target, with the axes of the plan's attention.
// Does nothing if there is no config.json (`model` is null).
void SetKv(const ModelConfig* model, Compiled& compiled);

// Writes the list, with the members of each entry in the order of their names,
// which canonical JSON requires.
void WriteKv(JsonWriter& json, const std::vector<KvKind>& kv);

// Reads the member `kv` of a plan, which has its form. On failure, returns
// nullopt and adds a finding with the code schema or limit.
std::optional<std::vector<KvKind>> ReadKv(const JsonValue& value,
                                          Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_KV_LAYOUT_H_
