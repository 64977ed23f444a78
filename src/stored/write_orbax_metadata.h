// The JSON files that WriteOrbax writes next to the arrays.
#ifndef SHARDC_STORED_WRITE_ORBAX_METADATA_H_
#define SHARDC_STORED_WRITE_ORBAX_METADATA_H_

#include <span>
#include <string>
#include <string_view>

#include "stored/tree.h"
#include "stored/write.h"

namespace shardc::stored {

// Whether orbax restores the array as one of JAX: with a sharding, or as random
// keys, which only arrays of JAX are.
bool IsOfJax(const Array& array);

// `_METADATA`: the paths of all leaves.
std::string OrbaxMetadataText(std::span<const Array> arrays,
                              std::span<const Leaf> leaves);
// `_sharding`: the layouts of arrays of JAX.
std::string OrbaxShardingsText(std::span<const Array> arrays);
// `array_metadatas/process_0`: the implementations of random keys.
std::string OrbaxRandomKeysText(std::span<const Array> arrays);
// `_strings.json`.
std::string OrbaxStringsText(std::span<const Leaf> leaves);

// `_CHECKPOINT_METADATA`, what orbax writes about a save; without times, so
// that equal trees give equal bytes.
inline constexpr std::string_view kOrbaxStepText =
    "{\"item_handlers\": "
    "\"orbax.checkpoint._src.handlers.pytree_checkpoint_handler."
    "PyTreeCheckpointHandler\", \"metrics\": {}, "
    "\"performance_metrics\": {}, \"init_timestamp_nsecs\": null, "
    "\"commit_timestamp_nsecs\": null, \"custom_metadata\": {}}";

}  // namespace shardc::stored

#endif  // SHARDC_STORED_WRITE_ORBAX_METADATA_H_
