// The metadata of a zarr array: `.zarray` of version 2 and `zarr.json` of
// version 3.
#ifndef SHARDC_STORED_ZARR_H_
#define SHARDC_STORED_ZARR_H_

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

struct ZarrArray {
  Shape shape;
  // The shape of the array's part in one value of the store. With
  // `sharding_indexed` a value is divided into inner chunks and an index of
  // them.
  Shape outer;
  Shape chunk;  // what is decoded at once; equals `outer` without inner chunks
  bool indexed = false;
  bool index_at_start = false;
  bool index_has_checksum = false;
  std::vector<Codec> codecs;  // of a chunk, in the order of encoding
  std::optional<Dtype> dtype;
  int64_t element_bytes = 0;
  std::string fill;  // one element; empty if shardc cannot encode the value
  // Keys of values: `prefix`, then the indices joined by `separator`.
  std::string prefix;
  char separator = '.';
  // Why the chunks cannot be read, after the array's name: "is compressed by
  // `bz2`, ...". Empty if they can.
  std::string unreadable;

  // The key of a value from its place in the grid of values, without the
  // array's own name.
  std::string KeyOf(const std::vector<int64_t>& place) const;
};

// Parses the metadata, `.zarray` or `zarr.json` by the source's name. Returns
// nullopt after a finding if it is malformed, and for a shape whose bytes do
// not fit in 64 bits. `*group` is set, without a finding, for a `zarr.json` of
// a group.
std::optional<ZarrArray> ParseZarr(const SourceRef& source, bool* group,
                                   Findings& findings);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_ZARR_H_
