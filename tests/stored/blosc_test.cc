// Tests blosc chunks with damaged headers and streams. Valid chunks of every
// compressor are in testdata/stored/zarr2_blosc and zarr3_blosc.
#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "stored/codecs.h"

namespace shardc::stored {
namespace {

constexpr int kOneStream = 16;
constexpr int kLz4 = 1 << 5;

std::string Number(uint32_t value) {
  std::string out;
  for (int i = 0; i < 4; ++i) {
    out += static_cast<char>(value >> (8 * i) & 255);
  }
  return out;
}

// Returns the header of a chunk that has `body` bytes in one block.
std::string Header(int flags, uint32_t size, size_t body, int version = 2,
                   int element = 4) {
  std::string out = {static_cast<char>(version), 1, static_cast<char>(flags),
                     static_cast<char>(element)};
  return out + Number(size) + Number(size) +
         Number(static_cast<uint32_t>(16 + body));
}

// Returns a chunk of one block with one stream.
std::string Chunk(int compressor, uint32_t size, const std::string& stream) {
  const std::string body =
      Number(20) + Number(static_cast<uint32_t>(stream.size())) + stream;
  return Header(compressor | kOneStream, size, body.size()) + body;
}

// Returns what the chunk decodes to, or the reason why it is refused.
std::string Outcome(const std::string& bytes, int64_t limit_bytes = 64) {
  std::string why;
  const auto out = DecodeBlosc(bytes, limit_bytes, &why);
  return out ? *out : why;
}

const std::string kStream(
    "\x21"
    "ab\x02\x00\x10"
    "c",
    7);

TEST_CASE("blosc: matches repeat the bytes before them") {
  CHECK(Outcome(Chunk(kLz4, 8, kStream)) == "abababac");
  // A stream that compression did not shorten is stored uncompressed.
  CHECK(Outcome(Chunk(kLz4, 4, "wxyz")) == "wxyz");
  CHECK(Outcome(Header(2, 4, 4) + "wxyz") == "wxyz");
  CHECK(Outcome(Header(kLz4, 0, 0)).empty());
  CHECK(Outcome(Chunk(0, 9, std::string("\x01xy\x80\x01\x00z", 7))) ==
        "xyxyxyxyz");
}

TEST_CASE("blosc: bytes after the last element are not shuffled") {
  std::string chunk = Chunk(kLz4, 9, "adbecfXYZ");
  chunk[2] = static_cast<char>(chunk[2] | 1);
  chunk[3] = 2;
  // The elements have two bytes and are shuffled: the first bytes of the four
  // elements, their second bytes, and then the bytes after the last complete
  // element.
  CHECK(Outcome(chunk) == "acdfbXeYZ");
}

TEST_CASE("blosc: headers that disagree with the chunk are refused") {
  CHECK(Outcome("") == "it is too short for a blosc header");
  CHECK(Outcome(Chunk(kLz4, 65, kStream)) == "it decodes to more than 64 B");
  CHECK(Outcome(Chunk(kLz4, 0xFFFFFFFF, kStream)) ==
        "it decodes to more than 64 B");
  const std::string good = Chunk(kLz4, 8, kStream);
  CHECK(Outcome(good + "x") ==
        "its blosc header states a chunk of 31 bytes, and it has 32");
  CHECK(Outcome(good.substr(0, 30)) ==
        "its blosc header states a chunk of 31 bytes, and it has 30");
  CHECK(Outcome(Header(2, 5, 4) + "wxyz") ==
        "its blosc header states 5 uncompressed bytes, and 4 follow");
  CHECK(Outcome(Header(kLz4, 4, 4, 5) + "wxyz") ==
        "its blosc header states version 5; shardc reads version 2");
  CHECK(Outcome(Chunk(7 << 5, 8, kStream)) ==
        "its blosc header states an unknown compressor, 7");
  for (const auto& [at, value] : {std::pair<size_t, char>{3, 0}, {2, 0x35}}) {
    std::string damaged = good;
    damaged[at] = value;
    CHECK(Outcome(damaged) == "its blosc header is damaged");
  }
  for (const uint32_t block : {0U, 9U}) {
    const std::string damaged = std::string(good).replace(8, 4, Number(block));
    CHECK(Outcome(damaged) == "its blosc header is damaged");
  }
}

TEST_CASE("blosc: damaged blocks are refused with their place") {
  const std::string damaged = "its blosc block at byte 20 is damaged";
  // The stated size is smaller, and then larger, than that of the stream.
  CHECK(Outcome(Chunk(kLz4, 6, kStream)) == damaged);
  CHECK(Outcome(Chunk(kLz4, 9, kStream)) == damaged);
  for (size_t compressor = 0; compressor < 5; ++compressor) {
    CAPTURE(compressor);
    CHECK(Outcome(Chunk(static_cast<int>(compressor << 5), 40, "damaged!")) ==
          damaged);
    CHECK(Outcome(Chunk(static_cast<int>(compressor << 5), 40, "")) == damaged);
  }
  // One match begins before the first byte, and one has the distance 0.
  for (const char distance : {3, 0}) {
    std::string stream = kStream;
    stream[3] = distance;
    CHECK(Outcome(Chunk(kLz4, 8, stream)) == damaged);
  }
  const std::string good = Chunk(kLz4, 8, kStream);
  CHECK(Outcome(std::string(good).replace(20, 4, Number(8))) == damaged);
  for (const uint32_t place : {0U, 31U, 0xFFFFFFFFU}) {
    CHECK(Outcome(std::string(good).replace(16, 4, Number(place))) ==
          "its blosc block at byte " +
              std::string(place == 0    ? "0"
                          : place == 31 ? "31"
                                        : "4,294,967,295") +
              " is damaged");
  }
}

TEST_CASE("blosc: a match does not reach the streams before its own") {
  std::string out = "before";
  CHECK_FALSE(AppendLz4(std::string("\x00\x02\x00\x00", 4), 4, out));
  CHECK_FALSE(AppendSnappy(std::string("\x04\x01\x03", 3), 4, out));
  out = "before";
  CHECK(AppendSnappy(std::string("\x06\x04"
                                 "ab\x01\x02",
                                 6),
                     6, out));
  CHECK(out == "beforeababab");
}

}  // namespace
}  // namespace shardc::stored
