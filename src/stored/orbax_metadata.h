// Reads the JSON files of an orbax checkpoint that describe its tree.
#ifndef SHARDC_STORED_ORBAX_METADATA_H_
#define SHARDC_STORED_ORBAX_METADATA_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/finding.h"
#include "stored/tree.h"

namespace shardc::stored {

// A leaf of `_METADATA`.
struct OrbaxLeaf {
  std::vector<std::string> path;
  std::vector<bool> in_sequence;  // as Array::in_sequence
  std::string value_type;  // "jax.Array", "np.ndarray", "scalar", "string", ...
  bool empty = false;      // a node without data, such as `None` or `Dict`
};

struct OrbaxMetadata {
  bool has_tree = false;  // whether `tree_metadata` exists
  std::vector<OrbaxLeaf> leaves;
  std::optional<bool> use_ocdbt;
  // Whether chunks that equal the fill value are stored too, so that an absent
  // chunk is lost. False if the file does not state this, as with orbax before
  // 0.10.
  bool stores_fill_values = false;
};

// Each of the following functions returns nullopt after a finding.
std::optional<OrbaxMetadata> ReadOrbaxMetadata(const std::string& path,
                                               Findings& findings);
// Returns the shardings by the arrays' names in the storage. An array has no
// entry if its sharding is not a NamedSharding, for example if it is on a
// single device.
std::optional<std::map<std::string, Sharding>> ReadOrbaxShardings(
    const std::string& path, Findings& findings);
// Returns the implementations of random keys that a file of `array_metadatas`
// lists, by the arrays' names in the storage.
std::optional<std::map<std::string, std::string>> ReadOrbaxRandomKeys(
    const std::string& path, Findings& findings);
// Returns the texts of leaves that are strings, by the leaves' names in the
// storage.
std::optional<std::map<std::string, std::string>> ReadOrbaxStrings(
    const std::string& path, Findings& findings);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_ORBAX_METADATA_H_
