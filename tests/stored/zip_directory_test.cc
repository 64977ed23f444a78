// Archives are written field by field, so that each field of their records can
// be wrong, or be in a record for 64 bits.
#include "stored/torch_archive.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "stored/write_ocdbt.h"
#include "temporary_folder.h"

namespace shardc::stored {
namespace {

constexpr uint64_t kWide = std::numeric_limits<uint32_t>::max();

std::string Little(uint64_t value, size_t bytes) {
  std::string out;
  AppendLittle(out, value, bytes);
  return out;
}

// The fields of an archive with two members. What is set differs from the sound
// archive.
struct Archive {
  std::string data = "0123456789";
  std::string local = "PK\3\4", entry = "PK\1\2", end = "PK\5\6";
  uint64_t flags = 0, method = 0;
  uint64_t size = 10, compressed = 10, offset = 0;  // of the first member
  std::string extra = {}, comment = {};             // of the first member
  uint64_t entries = 2;
  bool wide_end = false;  // a record and a locator of 64-bit numbers
  std::string wide = "PK\6\6", locator = "PK\6\7";
  uint64_t begin_more = 0;  // added to the place of the directory
  uint64_t size_more = 0;   // and to its size
};

std::string Local(const Archive& a, const std::string& name) {
  return a.local + std::string(22, '\0') + Little(name.size(), 2) +
         Little(3, 2) + name + "pad" + a.data;
}

std::string Entry(const Archive& a, const std::string& name, uint64_t size,
                  uint64_t compressed, uint64_t offset,
                  const std::string& extra, const std::string& comment) {
  return a.entry + std::string(4, '\0') + Little(a.flags, 2) +
         Little(a.method, 2) + std::string(4, '\0') + Little(0xABCD, 4) +
         Little(compressed, 4) + Little(size, 4) + Little(name.size(), 2) +
         Little(extra.size(), 2) + Little(comment.size(), 2) +
         std::string(8, '\0') + Little(offset, 4) + name + extra + comment;
}

std::string BytesOf(const Archive& a) {
  const std::string first = Local(a, "one"), second = Local(a, "second");
  std::string out = first + second;
  const uint64_t begin = out.size();
  const std::string directory =
      Entry(a, "one", a.size, a.compressed, a.offset, a.extra, a.comment) +
      Entry(a, "second", 10, 10, first.size(), "", "");
  out += directory;
  const uint64_t size = directory.size() + a.size_more;
  const uint64_t place = begin + a.begin_more;
  if (a.wide_end) {
    const uint64_t at = out.size();
    out += a.wide + std::string(28, '\0') + Little(a.entries, 8) +
           Little(size, 8) + Little(place, 8);
    out += a.locator + Little(0, 4) + Little(at, 8) + Little(1, 4);
    return out + a.end + std::string(6, '\0') + Little(0xFFFF, 2) +
           Little(kWide, 4) + Little(kWide, 4) + Little(0, 2);
  }
  return out + a.end + std::string(6, '\0') + Little(a.entries, 2) +
         Little(size, 4) + Little(place, 4) + Little(0, 2);
}

// Returns "one 0 10 36, ..." with each member's name, header, size and the
// place of its bytes, or the first finding.
std::string Outcome(const std::string& bytes) {
  const TemporaryFolder folder;
  // The archive is a part of the file.
  const auto path = folder.Write("a", "front" + bytes + "behind");
  Findings findings;
  const auto file = InputFile::Open(path, findings);
  REQUIRE(file);
  const auto length = static_cast<int64_t>(bytes.size());
  const auto members = ReadZipDirectory(*file, 5, length, findings);
  std::string out;
  if (members) {
    for (const ZipMember& one : *members) {
      const auto at = ZipDataOffset(*file, 5, length, one, findings);
      if (!at) break;
      CHECK(one.crc == 0xABCD);
      out += (out.empty() ? "" : ", ") + one.name + " " +
             std::to_string(one.header_offset) + " " +
             std::to_string(one.bytes) + " " + std::to_string(*at);
    }
  }
  if (findings.empty()) return out;
  const std::string& message = findings.all()[0].message;
  return message.substr(message.find(": ") + 2);
}

std::string With(const std::function<void(Archive&)>& change) {
  Archive archive;
  change(archive);
  return Outcome(BytesOf(archive));
}

// The header of a member has 30 bytes, its name and 3 bytes of padding.
constexpr const char* kSound = "one 0 10 41, second 46 10 90";

TEST_CASE("zip: members are found by the records of 32 and of 64 bits") {
  CHECK(With([](Archive&) {}) == kSound);
  CHECK(With([](Archive& a) { a.comment = "a comment"; }) == kSound);
  CHECK(With([](Archive& a) {
          a.extra = Little(9, 2) + Little(2, 2) + "xy";
        }) == kSound);
  CHECK(With([](Archive& a) { a.wide_end = true; }) == kSound);
}

TEST_CASE("zip: numbers of 64 bits replace only those that do not fit") {
  const auto field = [](const std::string& numbers) {
    // Another field is in front of the one with number 1.
    return Little(9, 2) + Little(2, 2) + "xy" + Little(1, 2) +
           Little(numbers.size(), 2) + numbers;
  };
  CHECK(With([&](Archive& a) {
          a.size = a.compressed = a.offset = kWide;
          a.extra = field(Little(10, 8) + Little(10, 8) + Little(0, 8));
        }) == kSound);
  CHECK(With([&](Archive& a) {
          a.offset = kWide;
          a.extra = field(Little(0, 8));
        }) == kSound);
  CHECK(With([&](Archive& a) {
          a.size = a.compressed = kWide;
          a.extra = field(Little(10, 8) + Little(10, 8));
        }) == kSound);
  // Numbers that fit are not replaced.
  CHECK(With([&](Archive& a) { a.extra = field(Little(77, 8)); }) == kSound);
  // A field with too few bytes, or with another number, replaces nothing.
  const char* const outside = "a member ends outside the archive";
  CHECK(With([&](Archive& a) {
          a.offset = kWide;
          a.extra = field(std::string(7, '\0'));
        }) == outside);
  CHECK(With([&](Archive& a) {
          a.offset = kWide;
          a.extra = Little(2, 2) + Little(8, 2) + Little(0, 8);
        }) == outside);
  CHECK(With([&](Archive& a) {
          a.size = a.compressed = kWide;
          a.extra = field(Little(10, 8));
        }) == "a member is compressed or encrypted");
}

TEST_CASE("zip: each wrong field of an archive is refused") {
  const std::string compressed = "a member is compressed or encrypted";
  CHECK(With([](Archive& a) { a.flags = 1; }) == compressed);
  CHECK(With([](Archive& a) { a.flags = 2; }) == kSound);
  CHECK(With([](Archive& a) { a.method = 8; }) == compressed);
  CHECK(With([](Archive& a) { a.compressed = 9; }) == compressed);
  CHECK(With([](Archive& a) { a.size = a.compressed = 5000; }) ==
        "a member ends outside the archive");
  CHECK(With([](Archive& a) { a.offset = 5000; }) ==
        "a member ends outside the archive");
  CHECK(With([](Archive& a) { a.size = a.compressed = 190; }) ==
        "member one ends outside the archive");
  CHECK(With([](Archive& a) { a.local = "PK\3\5"; }) ==
        "member one has no header");
  CHECK(With([](Archive& a) { a.entry = "PK\1\3"; }) ==
        "its directory is malformed");
  CHECK(With([](Archive& a) { a.entries = 3; }) ==
        "its directory has 3 entries in 101 bytes");
  CHECK(With([](Archive& a) {
          a.entries = 3;
          a.comment = std::string(60, 'c');
        }) == "its directory is malformed");
  CHECK(With([](Archive& a) { a.end = "PK\5\5"; }) ==
        "it does not end as a zip archive");
  CHECK(With([](Archive& a) { a.begin_more = 3; }) ==
        "its directory is malformed");
  CHECK(With([](Archive& a) {
          a.begin_more = 5000;
        }).starts_with("its directory has 2 entries in "));
  CHECK(With([](Archive& a) { a.size_more = 200; }) ==
        "its directory points outside it");
  const std::string lost = "the end of its directory is not found";
  CHECK(With([](Archive& a) { a.wide_end = true, a.wide = "PK\6\5"; }) == lost);
  CHECK(With([](Archive& a) { a.wide_end = true, a.locator = "PK\6\6"; }) ==
        lost);
  CHECK(Outcome("") == "it is too short for a zip archive");
  CHECK(Outcome(std::string(21, 'x')) == "it is too short for a zip archive");
  CHECK(Outcome(std::string(22, 'x')) == "it does not end as a zip archive");
}

TEST_CASE("zip: the checksum is the CRC-32 of IEEE 802.3") {
  CHECK(ZipCrc("") == 0);
  CHECK(ZipCrc("123456789") == 0xCBF43926);
}

}  // namespace
}  // namespace shardc::stored
