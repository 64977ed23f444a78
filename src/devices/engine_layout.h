// How an engine shards a model, where it has rules of its own: what it pads,
// what it replicates, and the layouts that it refuses. An engine's file states
// them in the section `layout`:
//
//   layout: {vocab_multiple: 64, kv_heads: replicate, ...}
#ifndef SHARDC_DEVICES_ENGINE_LAYOUT_H_
#define SHARDC_DEVICES_ENGINE_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "yaml/read.h"

namespace shardc {

// Multiples to which kernels pad the sizes of experts on a device.
struct ExpertPadding {
  int64_t hidden = 1, inner = 1;
};

struct EngineLayout {
  // The rows of the embedding and of the head are padded to a multiple of this
  // number, and then divided over all devices.
  int64_t vocab_multiple = 1;
  // Whether each device has one whole KV head where there are more devices than
  // KV heads.
  bool replicates_kv_heads = false;
  // The message with which the engine refuses heads that the devices do not
  // divide. `{heads}` and `{tp}` stand for the numbers.
  std::string heads_refused;
  // By the name of a profile, how the kernels for experts in mxfp4 pad.
  std::vector<std::pair<std::string, ExpertPadding>> mxfp4;
  std::vector<std::string> evidence;

  // Returns the padding on a device; nullopt if it is not known.
  std::optional<ExpertPadding> Mxfp4On(std::string_view profile) const;
  int64_t PaddedVocab(int64_t rows) const;
};

// The sizes of a model that decide whether an engine can shard it. nullopt: the
// size is not known, or the model does not have it.
struct ShardedSizes {
  std::optional<int64_t> heads, kv_heads, vocab;
};

// Returns why the engine refuses to shard the model over `tensor` devices;
// empty if nothing is known that it refuses.
std::vector<std::string> LayoutRefusals(const EngineLayout& layout,
                                        const ShardedSizes& sizes,
                                        int64_t tensor);

// Reads the section `layout` of an engine's file.
EngineLayout ReadEngineLayout(const YamlContext& context, const YamlNode& node);

}  // namespace shardc

namespace shardc::keys {

extern const KeyTable kEngineLayout;
extern const KeyTable kExpertPadding;

}  // namespace shardc::keys

#endif  // SHARDC_DEVICES_ENGINE_LAYOUT_H_
