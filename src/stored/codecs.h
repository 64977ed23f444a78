// Decodes and encodes compressed bytes. Decoded output grows with what is
// decoded, so that a bound far above the real size costs no memory.
#ifndef SHARDC_STORED_CODECS_H_
#define SHARDC_STORED_CODECS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shardc::stored {

// kDeflate: gzip or zlib, by the first bytes. kCrc32c: a checksum of four bytes
// after the bytes that it covers.
enum class Codec : uint8_t { kZstd, kDeflate, kBlosc, kCrc32c };

// Each function returns nullopt, with the reason in `*why`, if the data is
// damaged, followed by other bytes, or decodes to more than `limit_bytes`.
std::optional<std::string> DecodeZstd(std::string_view bytes,
                                      int64_t limit_bytes, std::string* why);
std::optional<std::string> DecodeDeflate(std::string_view bytes,
                                         int64_t limit_bytes, std::string* why);

// Undoes the codecs, the last one first; the result must have `size` bytes.
std::optional<std::string> Decode(std::string bytes,
                                  std::span<const Codec> codecs, int64_t size,
                                  std::string* why);

// Returns one zstd frame.
std::string EncodeZstd(std::string_view bytes, int level);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_CODECS_H_
