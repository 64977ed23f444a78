// Decodes and encodes compressed bytes. The memory for a result grows while the
// result is decoded. A limit that is far above the real size therefore costs
// nothing.
#ifndef SHARDC_STORED_CODECS_H_
#define SHARDC_STORED_CODECS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shardc::stored {

// kDeflate is gzip or zlib, which are distinguished by the first bytes. kCrc32c
// appends a checksum of four bytes to the bytes that it protects.
enum class Codec : uint8_t { kZstd, kDeflate, kBlosc, kCrc32c };

// Both functions return the decoded bytes. They return nullopt, with the reason
// in `*why`, if the data are damaged, if other bytes follow them, or if they
// decode to more than `limit_bytes` bytes.
std::optional<std::string> DecodeZstd(std::string_view bytes,
                                      int64_t limit_bytes, std::string* why);
std::optional<std::string> DecodeDeflate(std::string_view bytes,
                                         int64_t limit_bytes, std::string* why);

// Decodes bytes that were encoded by all of the codecs, in this order. The last
// codec is therefore undone first. Returns nullopt, with the reason in `*why`,
// if a codec fails or if the result does not have `size` bytes.
std::optional<std::string> Decode(std::string bytes,
                                  std::span<const Codec> codecs, int64_t size,
                                  std::string* why);

// Returns the bytes as one zstd frame.
std::string EncodeZstd(std::string_view bytes, int level);

// Returns the decoded bytes. Returns nullopt, with the reason in `*why`, in
// these cases: the chunk is damaged, its format version is not 2, other bytes
// follow the chunk, or it decodes to more than `limit_bytes` bytes. All five
// compressors are supported: blosclz, lz4 (with lz4hc), snappy, zlib and zstd.
std::optional<std::string> DecodeBlosc(std::string_view bytes,
                                       int64_t limit_bytes, std::string* why);

// Decodes the three LZ77 formats that blosc chunks contain. The data of each
// format are literal bytes and matches. A match repeats `length` earlier bytes
// of the output, which begin `distance` bytes before its end. None of the
// formats has a checksum.

// Each function decodes `bytes` and appends the result, which must have `size`
// bytes, to `out`. Returns false if `bytes` is damaged, has a match that refers
// to bytes from before the call, or decodes to another number of bytes. The
// memory of `out` grows only as data is decoded.
bool AppendLz4(std::string_view bytes, size_t size, std::string& out);
bool AppendBloscLz(std::string_view bytes, size_t size, std::string& out);
bool AppendSnappy(std::string_view bytes, size_t size, std::string& out);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_CODECS_H_
