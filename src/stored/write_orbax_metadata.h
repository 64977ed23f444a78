// Returns the texts of the JSON files that WriteOrbax writes next to the
// arrays.
#ifndef SHARDC_STORED_WRITE_ORBAX_METADATA_H_
#define SHARDC_STORED_WRITE_ORBAX_METADATA_H_

#include <span>
#include <string>
#include <string_view>

#include "stored/tree.h"
#include "stored/write.h"

namespace shardc::stored {

// Returns whether orbax restores the array as a JAX array. Orbax restores an
// array as a JAX array if it has a sharding, or if it holds random keys, which
// only JAX arrays can hold.
bool IsOfJax(const Array& array);

// Returns the text of `_METADATA`, which lists the paths of all arrays and of
// the leaves that are written (IsWritten).
std::string OrbaxMetadataText(std::span<const Array> arrays,
                              std::span<const Leaf> leaves);
// Returns the text of `_sharding`, which lists the shardings of JAX arrays.
std::string OrbaxShardingsText(std::span<const Array> arrays);
// Returns the text of `array_metadatas/process_0`, which lists the
// implementations of random keys.
std::string OrbaxRandomKeysText(std::span<const Array> arrays);
// Returns the text of `_strings.json`, which contains the leaves that are
// strings.
std::string OrbaxStringsText(std::span<const Leaf> leaves);

// The text of `_CHECKPOINT_METADATA`, which orbax writes for each save. It
// contains no times, so that saving the same tree twice writes equal bytes.
inline constexpr std::string_view kOrbaxStepText =
    "{\"item_handlers\": "
    "\"orbax.checkpoint._src.handlers.pytree_checkpoint_handler."
    "PyTreeCheckpointHandler\", \"metrics\": {}, "
    "\"performance_metrics\": {}, \"init_timestamp_nsecs\": null, "
    "\"commit_timestamp_nsecs\": null, \"custom_metadata\": {}}";

}  // namespace shardc::stored

#endif  // SHARDC_STORED_WRITE_ORBAX_METADATA_H_
