// Decodes and encodes compressed bytes. The memory for a result grows as it is
// decoded, so a limit far above the real size costs nothing.
#ifndef SHARDC_STORED_CODECS_H_
#define SHARDC_STORED_CODECS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shardc::stored {

// kDeflate is gzip or zlib; the first bytes show which of the two. kCrc32c is a
// checksum of four bytes that follows the bytes it covers.
enum class Codec : uint8_t { kZstd, kDeflate, kBlosc, kCrc32c };

// DecodeZstd and DecodeDeflate return nullopt, with the reason in `*why`, if
// the data is damaged, if other bytes follow it, or if it decodes to more than
// `limit_bytes`.
std::optional<std::string> DecodeZstd(std::string_view bytes,
                                      int64_t limit_bytes, std::string* why);
std::optional<std::string> DecodeDeflate(std::string_view bytes,
                                         int64_t limit_bytes, std::string* why);

// Undoes the codecs, beginning with the last one. Returns nullopt, with the
// reason in `*why`, if a codec fails or if the result does not have `size`
// bytes.
std::optional<std::string> Decode(std::string bytes,
                                  std::span<const Codec> codecs, int64_t size,
                                  std::string* why);

// Returns the bytes as one zstd frame.
std::string EncodeZstd(std::string_view bytes, int level);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_CODECS_H_
