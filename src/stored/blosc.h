// Decodes chunks in the format of blosc 1, which numcodecs, zarr and
// tensorstore write.
#ifndef SHARDC_STORED_BLOSC_H_
#define SHARDC_STORED_BLOSC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardc::stored {

// Returns the decoded bytes. Returns nullopt, with the reason in `*why`, in
// these cases: the chunk is damaged, its format version is not 2, other bytes
// follow the chunk, or it decodes to more than `limit_bytes` bytes. All five
// compressors are supported: blosclz, lz4 (with lz4hc), snappy, zlib and zstd.
std::optional<std::string> DecodeBlosc(std::string_view bytes,
                                       int64_t limit_bytes, std::string* why);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_BLOSC_H_
