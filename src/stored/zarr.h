// Parses the metadata of a zarr array: `.zarray` of version 2 and `zarr.json`
// of version 3.
#ifndef SHARDC_STORED_ZARR_H_
#define SHARDC_STORED_ZARR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"
#include "source/finding.h"
#include "source/source.h"
#include "stored/codecs.h"
#include "stored/store.h"
#include "stored/tree.h"

namespace shardc::stored {

// The largest number of dimensions of a zarr array. tensorstore has this limit,
// and numpy had it before version 2.
inline constexpr size_t kMostZarrDims = 32;

struct ZarrArray {
  Shape shape;
  // The shape of the part of the array that one value of the store contains.
  // With the codec `sharding_indexed`, a value has several inner chunks and an
  // index that lists their places.
  Shape outer;
  Shape chunk;  // shape of an inner chunk; `outer` if there are none
  bool indexed = false;
  bool index_at_start = false;
  bool index_has_checksum = false;
  std::vector<Codec> codecs;  // the codecs of a chunk in the order of encoding
  std::optional<Dtype> dtype;
  int64_t element_bytes = 0;
  std::string fill;  // bytes of the fill value; empty: shardc cannot encode it
  // The key of a value consists of `prefix` and the indices of the value in its
  // grid, joined by `separator`. If `prefix` is empty and there are no indices,
  // the key is "0".
  std::string prefix;
  char separator = '.';
  // The reason why the chunks cannot be read, as text that follows the array's
  // name in a message: "is stored by the codec `bz2`, ...". Empty if the chunks
  // can be read.
  std::string unreadable;

  // Returns the key of the value at this place in the grid of values. The key
  // does not include the array's own name.
  std::string KeyOf(const std::vector<int64_t>& place) const;
};

// Parses the metadata of an array. The name of the source shows whether it is
// `.zarray` or `zarr.json`. Returns nullopt after a finding if the metadata is
// malformed, or if the bytes of the array or of a chunk do not fit in 64 bits.
// If a `zarr.json` describes a group, returns nullopt without a finding and
// sets `*group` to true.
std::optional<ZarrArray> ParseZarr(const SourceRef& source, bool* group,
                                   Findings& findings);

// Converts zarr arrays that are in a store to the arrays of a tree.

// What it means that the store has no value for a chunk. kLost: the writer
// stores every chunk, so this chunk was lost. kFilled: all elements of the
// chunk are the fill value.
enum class AbsentChunks : uint8_t { kLost, kFilled };

// Adds zarr arrays to a tree, and creates the reader of their chunks.
class ZarrTree {
 public:
  // `root` is the folder that is named in findings.
  ZarrTree(std::string root, std::shared_ptr<const Store> store,
           AbsentChunks absent);
  ~ZarrTree();

  // Returns the array that is stored under a name, with its shape, dtype,
  // chunks and key. Its metadata is the value of the key `NAME/.zarray` or
  // `NAME/zarr.json`. If neither key exists, or if `zarr.json` describes a
  // group, returns nullopt without a finding. If the metadata cannot be read,
  // returns nullopt after a finding. Sets `*found` to whether an array is
  // returned.
  std::optional<Array> Add(const std::string& name, bool* found,
                           Findings& findings);
  // Adds all arrays of the store. An array is named by its key; an array at the
  // root of the store is named `.`. Returns false after a finding.
  bool AddAll(Tree& tree, Findings& findings);
  std::shared_ptr<const ChunkReader> Reader() const;

 private:
  class Chunks;
  std::string root_;
  std::shared_ptr<const Store> store_;
  std::shared_ptr<Chunks> chunks_;
};

}  // namespace shardc::stored

#endif  // SHARDC_STORED_ZARR_H_
