#include "source/wording.h"

#include <doctest/doctest.h>

#include <vector>

namespace shardc {
namespace {

TEST_CASE("wording: bytes") {
  const struct {
    int64_t bytes;
    const char* text;
  } cases[] = {
      {0, "0 B"},
      {512, "512 B"},
      {1023, "1023 B"},
      {1024, "1 KiB"},
      {1536, "1.5 KiB"},
      {16060522496, "14.96 GiB"},
      {int64_t{80} << 30, "80 GiB"},
      {(int64_t{1} << 20) - 1, "1 MiB"},
      {1023 * 1024, "1023 KiB"},
      {127900, "124.9 KiB"},
      {-1536, "-1.5 KiB"},
      {INT64_MAX, "8 EiB"},
      {INT64_MIN, "-8 EiB"},
  };
  for (const auto& c : cases) CHECK(BytesText(c.bytes) == c.text);
}

TEST_CASE("wording: counts") {
  CHECK(CountText(8030261248) == "8,030,261,248");
  CHECK(CountText(-1000) == "-1,000");
  CHECK(CountText(999) == "999");
  CHECK(Counted(1, "parameter") == "1 parameter");
  CHECK(Counted(2, "parameter") == "2 parameters");
  CHECK(Counted(0, "axis", "axes") == "0 axes");
}

TEST_CASE("wording: hostile names are shown harmless") {
  CHECK(Printable("a\x1b[31m\n") == "a\\x1b[31m\\x0a");
  CHECK(Printable("\xE2\x80\xAEx") == "\\u202ex");
  CHECK(Printable("\xC2\x9B") == "\\u009b");
  CHECK(Printable("\xFFz\xC3") == "\\xffz\\xc3");
  CHECK(Printable("h\xC3\xA9llo \xF0\x9F\x98\x80") ==
        "h\xC3\xA9llo \xF0\x9F\x98\x80");
}

TEST_CASE("wording: code in Markdown holds any backticks and bars") {
  constexpr std::pair<std::string_view, std::string_view> kSpans[] = {
      {"a.b", "`a.b`"},         {"a`b", "``a`b``"},
      {"``a`", "``` ``a` ```"}, {"a ` b`", "`` a ` b` ``"},
      {" a", "` a`"},           {" a ", "`  a  `"},
      {"  ", "`  `"},           {"a|b\\", "`a|b\\`"},
      {"\x1b", "`\\x1b`"},
  };
  for (const auto& [text, span] : kSpans) CHECK(CodeSpan(text) == span);
  CHECK(CodeCell("a|`|") == "``a\\|`\\|``");
}

TEST_CASE("wording: the nearest name") {
  const std::vector<std::string> names = {"fsdp", "tp", "replicated", "TP2"};
  CHECK(Nearest("fdsp", names) == "fsdp");
  CHECK(Nearest("REPLICATE", names) == "replicated");
  CHECK(Nearest("Tp", names) == "tp");
  CHECK_FALSE(Nearest("expert", names));
  // The first part of a name is near to it.
  CHECK(Nearest("h100", std::vector<std::string>{"tpu-v4", "h100-sxm"}) ==
        "h100-sxm");
  CHECK_FALSE(Nearest("", names));
  // If two names have the same distance, the first one is suggested.
  const std::vector<std::string> alike = {"abcd", "abce"};
  CHECK(Nearest("abcx", alike) == "abcd");
}

}  // namespace
}  // namespace shardc
