// Declarations that two readers share. One reads a folder in which orbax saved
// a tree of arrays (orbax.cc). The other reads the folders of runs and steps
// that contain such folders.
#ifndef SHARDC_STORED_ORBAX_H_
#define SHARDC_STORED_ORBAX_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/finding.h"
#include "stored/tree.h"

namespace shardc::stored {

inline constexpr std::string_view kOrbaxMetadata = "_METADATA";

bool IsOrbaxTree(const Folder& folder);

// A leaf of `_METADATA`.
struct OrbaxLeaf {
  std::vector<std::string> path;
  // Whether each key of `path` is the index of an element of a list or a tuple.
  std::vector<bool> in_sequence;
  std::string value_type;  // "jax.Array", "np.ndarray", "scalar", "string", ...
  bool empty = false;      // a node without data, such as `None` or `Dict`
};

struct OrbaxMetadata {
  bool has_tree = false;  // whether `tree_metadata` is present
  std::vector<OrbaxLeaf> leaves;
  std::optional<bool> use_ocdbt;
  // Whether orbax also stored chunks that equal the fill value. Then a chunk
  // that is absent is lost. False if the file does not state this, as with
  // orbax before 0.10.
  bool stores_fill_values = false;
};

// The following functions read one file each. If the file cannot be read or is
// malformed, they add a finding and return nullopt.
std::optional<OrbaxMetadata> ReadOrbaxMetadata(const std::string& path,
                                               Findings& findings);
// Returns the shardings, keyed by the arrays' names in the storage. An array
// has no entry if its sharding is not a NamedSharding, for example if the array
// is on a single device.
std::optional<std::map<std::string, Sharding>> ReadOrbaxShardings(
    const std::string& path, Findings& findings);
// Returns the PRNG of each array of random keys, such as `threefry2x32`, keyed
// by the array's name in the storage. `path` is a file of `array_metadatas`.
std::optional<std::map<std::string, std::string>> ReadOrbaxRandomKeys(
    const std::string& path, Findings& findings);
// Returns the texts of leaves that are strings, keyed by the leaves' names in
// the storage.
std::optional<std::map<std::string, std::string>> ReadOrbaxStrings(
    const std::string& path, Findings& findings);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_ORBAX_H_
