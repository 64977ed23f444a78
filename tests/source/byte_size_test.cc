#include "source/size.h"

#include <doctest/doctest.h>

#include <string>

#include "source/wording.h"

namespace shardc {
namespace {

TEST_CASE("a size is a number and a unit, rounded down to whole bytes") {
  struct Case {
    const char* text;
    int64_t bytes;
  };
  const Case cases[] = {
      {"1B", 1},
      {"1048576", 1048576},
      {"512B", 512},
      {"512 B", 512},
      {"1KiB", 1024},
      {"1KB", 1000},
      {"1kB", 1000},
      {"80GiB", int64_t{80} << 30},
      {"80G", int64_t{80} << 30},
      {"80 Gi", int64_t{80} << 30},
      {"80GB", 80'000'000'000},
      {"16 GB", 16'000'000'000},
      {"1.5GiB", 1610612736},
      {"1.5  GB", 1'500'000'000},
      {"0.5KB", 500},
      {"0.000001MB", 1},
      {"0.001KiB", 1},  // 1.024
      {"2.999999 KB", 2999},
      {"1.5TiB", int64_t{3} << 39},
      {"2PiB", int64_t{2} << 50},
      {"7.999999EiB", 9223370883933271201},
      {"9.2EB", 9'200'000'000'000'000'000},
      {"9223372036854775807", INT64_MAX},
      {"007MB", 7'000'000},
      {"80gb", 80'000'000'000},
      {"1kib", 1024},
      {"2 tb", 2'000'000'000'000},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    CHECK(ParseByteSize(c.text) == c.bytes);
  }
}

TEST_CASE("what is no size") {
  for (const char* text :
       {"",      " ",           "0",       "0GiB",    "0.0001KB",
        "-1",    "+1",          "1.",      ".5GiB",   "1.5",
        "1.5B",  "1.0000000GB", "1e3",     "1,5GB",   "80gB",
        "80Gb",  "1",           "1Kib",    "1048575", "GiB",
        "1GiB ", " 1GiB",       "1 GiB/s", "0x10",    "9223372036854775808",
        "8EiB",  "9.3EB",       "1GiB1",   "1\tGB"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseByteSize(text));
  }
}

// A size that is formatted and parsed again need not be the same number, but
// has the same text.
TEST_CASE("sizes as messages write them are read back") {
  for (int64_t bytes = 1; bytes < INT64_MAX / 3; bytes = bytes * 3 + 1) {
    const auto read = ParseByteSize(BytesText(bytes));
    REQUIRE(read);
    CHECK(BytesText(*read) == BytesText(bytes));
  }
}

TEST_CASE("the complaint names what was seen") {
  CHECK(NotByteSize("`memory`", "`80 gigs`") ==
        "`memory` is `80 gigs`, not a size in bytes");
  CHECK(NotByteSize("`memory`", "`80`") == "`memory` is `80`, of what unit?");
  for (const std::string seen : {"`0`", "`0GiB`", "`0.0001KB`"}) {
    CHECK(NotByteSize("`memory`", seen) ==
          "`memory` is " + seen + ", and a size is at least one byte");
  }
  for (const std::string seen : {"`16EiB`", "`9.3EB`", "`9223372036854775808`",
                                 "`99999999999999999999GiB`"}) {
    CHECK(NotByteSize("`memory`", seen) ==
          "`memory` is " + seen + ", which does not fit in 64 bits");
  }
  CHECK(NotByteSize("`memory`", "a list") ==
        "`memory` is a list, not a size in bytes");
}

}  // namespace
}  // namespace shardc
