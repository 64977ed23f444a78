// Tests one refused header for each message about a tensor's size and range,
// and accepted headers at the limits.
#include "importers/safetensors.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

namespace shardc {
namespace {

// Returns a file with this header and `data` bytes of data.
std::string File(const std::string& header, size_t data) {
  std::string out;
  for (size_t i = 0; i < 8; ++i) {
    out += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  }
  return out + header + std::string(data, '\0');
}

std::string Tensor(const std::string& name, const std::string& dtype,
                   const std::string& shape, const std::string& offsets) {
  return "\"" + name + "\": {\"dtype\": \"" + dtype +
         "\", \"shape\": " + shape + ", \"data_offsets\": " + offsets + "}";
}

// Returns "SHD053 message", or "read" and the number of tensors.
std::string Read(const std::string& content) {
  Findings findings;
  const auto header =
      ParseSafetensorsHeader(MakeSource("m.safetensors", content),
                             static_cast<int64_t>(content.size()), findings);
  if (header) return "read " + std::to_string(header->entries.size());
  REQUIRE(findings.all().size() == 1);
  return findings.all()[0].code->Id() + " " + findings.all()[0].message;
}

std::string One(const std::string& dtype, const std::string& shape,
                const std::string& offsets, size_t data) {
  return Read(File("{" + Tensor("w", dtype, shape, offsets) + "}", data));
}

TEST_CASE("a tensor of four-bit elements ends on a byte") {
  CHECK(One("F4", "[4]", "[0, 2]", 2) == "read 1");
  CHECK(One("F8_E4M3FNUZ", "[4]", "[0, 4]", 4) == "read 1");
  CHECK(One("F4", "[3]", "[0, 1]", 1) ==
        "SHD053 `w`, [3] of F4, does not end on a byte");
  CHECK(One("F4", "[3]", "[0, 2]", 2) ==
        "SHD053 `w`, [3] of F4, does not end on a byte");
  CHECK(One("F4", "[3, 2]", "[0, 3]", 3) == "read 1");
}

TEST_CASE("a range holds the tensor's bytes") {
  CHECK(One("F32", "[2]", "[0, 8]", 8) == "read 1");
  CHECK(One("F32", "[2]", "[0, 7]", 7) ==
        "SHD053 `w`, [2] of F32, takes 8 bytes, and its range holds 7");
  CHECK(One("F32", "[2]", "[8, 0]", 8) ==
        "SHD052 the data of `w` ends at 0, before it begins at 8");
  CHECK(One("F32", "[4611686018427387904, 4]", "[0, 8]", 8) ==
        "SHD024 the size of `w` of shape [4611686018427387904, 4] does not fit "
        "in 64 bits");
  CHECK(One("F32", "[2]", "[0, 8, 16]", 8) ==
        "SHD050 `data_offsets` of `w` holds 3 numbers and not a begin and an "
        "end");
}

TEST_CASE("a length that begins like a pickle is a length") {
  for (const size_t length : {0x280, 0x380, 0x480, 0x580}) {
    CAPTURE(length);
    CHECK(Read(File("{]" + std::string(length - 2, ' '), 0))
              .starts_with("SHD016 not well-formed JSON"));
    CHECK(Read(File("{\xff" + std::string(length - 2, ' '), 0))
              .starts_with("SHD006 byte 0xff is not UTF-8"));
  }
}

TEST_CASE("a name without a visible form is refused") {
  const auto named = [](const std::string& name) {
    return Read(File("{" + Tensor(name, "F32", "[2]", "[0, 8]") + "}", 8));
  };
  CHECK(named("a b") == "read 1");
  CHECK(named("") == "read 1");
  CHECK(named("a\x7f") == "SHD025 the name `a\\x7f` holds a control character");
  CHECK(named("a\\u0001") ==
        "SHD025 the name `a\\x01` holds a control character");
  CHECK(named("a\\u0000") == "SHD025 the name `a\\x00` holds a NUL");
  CHECK(named("a\xc2\x85").ends_with(" holds a control character"));
}

TEST_CASE("ranges follow each other without gaps") {
  const auto two = [](const std::string& second) {
    return Read(File("{" + Tensor("a", "F32", "[2]", "[0, 8]") + ", " +
                         Tensor("b", "F32", "[2]", second) + "}",
                     32));
  };
  CHECK(two("[4, 12]") ==
        "SHD052 the data of `b` begins at 4, inside that of `a`, which ends at "
        "8");
  CHECK(two("[12, 20]") ==
        "SHD052 4 bytes before `b` at 8 belong to no tensor");
  CHECK(Read(File("{" + Tensor("a", "F32", "[2]", "[0, 8]") + ", " +
                      Tensor("b", "F32", "[2]", "[8, 16]") + "}",
                  16)) == "read 2");
  // A tensor without elements takes no range of its own.
  CHECK(Read(File("{" + Tensor("a", "F32", "[2]", "[0, 8]") + ", " +
                      Tensor("b", "F32", "[0]", "[8, 8]") + "}",
                  8)) == "read 2");
  CHECK(Read(File("{" + Tensor("a", "F32", "[2]", "[0, 8]") + ", " +
                      Tensor("b", "F32", "[0]", "[4, 4]") + "}",
                  8))
            .starts_with("SHD052 the data of `b` begins at 4, inside"));
}

}  // namespace
}  // namespace shardc
