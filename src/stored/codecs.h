// Decodes and encodes compressed bytes. The memory for a result grows while the
// result is decoded. A limit that is far above the real size therefore costs
// nothing.
#ifndef SHARDC_STORED_CODECS_H_
#define SHARDC_STORED_CODECS_H_

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

}  // namespace shardc::stored

#endif  // SHARDC_STORED_CODECS_H_
