// Parses the metadata of a zarr array: `.zarray` of version 2 and `zarr.json`
// of version 3.
#ifndef SHARDC_STORED_ZARR_H_
#define SHARDC_STORED_ZARR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"
#include "source/finding.h"
#include "source/source.h"
#include "stored/codecs.h"

namespace shardc::stored {

// The most dimensions of a zarr array: tensorstore's limit, and numpy's before
// version 2.
inline constexpr size_t kMostZarrDims = 32;

struct ZarrArray {
  Shape shape;
  // The shape of the part of the array that one value of the store holds. With
  // `sharding_indexed`, a value has inner chunks and an index that lists their
  // places.
  Shape outer;
  Shape chunk;  // shape decoded at once; `outer` if there are no inner chunks
  bool indexed = false;
  bool index_at_start = false;
  bool index_has_checksum = false;
  std::vector<Codec> codecs;  // the codecs of a chunk in the order of encoding
  std::optional<Dtype> dtype;
  int64_t element_bytes = 0;
  std::string fill;  // bytes of one element; empty if shardc cannot encode it
  // The key of a value is `prefix` and the indices, joined by `separator`.
  // Without prefix and indices the key is "0".
  std::string prefix;
  char separator = '.';
  // The reason why the chunks cannot be read, to follow the array's name: "is
  // stored by the codec `bz2`, ...". Empty if they can be read.
  std::string unreadable;

  // Returns the key of the value at this place in the grid of values, without
  // the array's own name.
  std::string KeyOf(const std::vector<int64_t>& place) const;
};

// Parses the metadata; the source's name shows whether it is `.zarray` or
// `zarr.json`. Returns nullopt after a finding if it is malformed, or if the
// bytes of the array or of a chunk do not fit in 64 bits. If a `zarr.json`
// describes a group, returns nullopt without a finding and sets `*group`.
std::optional<ZarrArray> ParseZarr(const SourceRef& source, bool* group,
                                   Findings& findings);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_ZARR_H_
