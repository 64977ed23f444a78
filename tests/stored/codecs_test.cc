// Chains of codecs, of which an inner result may be longer than the final one.
#include "stored/codecs.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

namespace shardc::stored {
namespace {

// Returns `size` zero bytes as a zlib stream of stored blocks of `block` bytes,
// each of which takes 5 bytes more than its data.
std::string StoredZeros(uint32_t size, uint16_t block) {
  std::string out("\x78\x01", 2);
  for (uint32_t at = 0; at < size; at += block) {
    const auto rest = static_cast<uint16_t>(~block);
    out += at + block >= size ? '\1' : '\0';
    for (const uint16_t number : {block, rest}) {
      out += static_cast<char>(number & 255);
      out += static_cast<char>(number >> 8);
    }
    out.append(block, '\0');
  }
  // Adler-32 of zeros: the sum is 1, and the sum of sums is their number.
  const uint32_t sums = size % 65521;
  for (const uint32_t byte :
       {sums >> 8, sums & 255, uint32_t{0}, uint32_t{1}}) {
    out += static_cast<char>(byte);
  }
  return out;
}

TEST_CASE("an inner result may be as much longer as codecs make data longer") {
  constexpr uint32_t kSize = 1 << 26;
  const Codec codecs[] = {Codec::kDeflate, Codec::kZstd};
  std::string why;
  // 80 KiB more than the final size.
  const auto out =
      Decode(EncodeZstd(StoredZeros(kSize, 4096), 1), codecs, kSize, &why);
  CHECK(why == "");
  REQUIRE(out);
  CHECK(out->size() == kSize);
  // A twelfth more than the final size, which no encoder writes.
  CHECK_FALSE(
      Decode(EncodeZstd(StoredZeros(kSize, 64), 1), codecs, kSize, &why));
  CHECK(why == "it decodes to more than 64.31 MiB");
}

}  // namespace
}  // namespace shardc::stored
