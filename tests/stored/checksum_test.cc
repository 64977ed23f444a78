#include "stored/checksum.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

namespace shardc {
namespace {

std::string Random(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

TEST_CASE("checksum: published values") {
  CHECK(Crc32c("123456789") == 0xE3069283u);
  CHECK(Crc32c("") == 0);
  CHECK(Crc32c(std::string(32, '\0')) == 0x8A9136AAu);  // RFC 3720
  CHECK(Crc32c(std::string(32, '\xFF')) == 0x62A8AB43u);
}

TEST_CASE("checksum: the instruction, the table and joined halves agree") {
  // Lengths near those at which Crc32c uses another method.
  for (const size_t size : {0, 1, 7, 8, 9, 100, 255, 256, 511, 512, 513, 767,
                            768, 1025, 12287, 12288, 12289, 40000}) {
    const std::string bytes = Random(size, static_cast<uint32_t>(size));
    const uint32_t whole = Crc32cByTable(bytes);
    CHECK(Crc32c(bytes) == whole);
    for (const size_t cut : {size_t{0}, size / 3, size}) {
      const std::string_view view(bytes);
      const uint32_t first = Crc32c(view.substr(0, cut));
      const uint32_t second = Crc32c(view.substr(cut));
      CHECK(CombineCrc32c(first, second, size - cut) == whole);
      CHECK(Crc32c(view.substr(cut), first) == whole);
    }
  }
}

TEST_CASE("checksum: any length from any state") {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    const std::string bytes = Random(random() % 3000, random());
    const auto before = static_cast<uint32_t>(random());
    CHECK(Crc32c(bytes, before) == Crc32cByTable(bytes, before));
  }
}

TEST_CASE("checksum: text") {
  CHECK(ChecksumText(0x0123ABCD) == "crc32c:0123abcd");
  CHECK(ParseChecksum("crc32c:0123abcd") == 0x0123ABCDu);
  CHECK_FALSE(ParseChecksum("crc32c:0123abc"));
  CHECK_FALSE(ParseChecksum("crc32c:0123abcg"));
  CHECK_FALSE(ParseChecksum("sha256:0123abcd"));
}

}  // namespace
}  // namespace shardc
