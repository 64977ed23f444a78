#include "emit/report/page.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardc::report {
namespace {

template <class Write>
std::string Written(const Write& write) {
  return TextOf([&](Sink& sink) {
    Html html(sink);
    write(html);
  });
}

TEST_CASE("what means something in HTML is escaped") {
  CHECK(Written([](Html& html) { html.Text("<a href=\"x\" b='&'>"); }) ==
        "&lt;a href=&quot;x&quot; b=&#39;&amp;&#39;&gt;");
  CHECK(Written([](Html& html) { html.Name("</style>.</script>"); }) ==
        "&lt;/<wbr>style&gt;.<wbr>&lt;/<wbr>script&gt;");
}

TEST_CASE("invisible characters and those that reorder a line are escaped") {
  const std::string text = Written(
      [](Html& html) { html.Text("a\u202eb\u200bc\u2028d\x1b[1m\x7f\xff"); });
  for (std::string_view bad :
       {"\u202e", "\u200b", "\u2028", "\x1b", "\x7f", "\xff"}) {
    CHECK(text.find(bad) == std::string::npos);
  }
  CHECK(text.find("\\u202e") != std::string::npos);
}

TEST_CASE("a long name is truncated between characters, with its length") {
  std::string name;
  for (int i = 0; i < 5000; ++i) name += "é";
  const std::string text = Written([&](Html& html) { html.Name(name); });
  CHECK(text.size() < 500);
  CHECK(text.ends_with("é… (10,000 bytes)"));
}

TEST_CASE("backticks are code where they come in pairs") {
  CHECK(Written([](Html& html) { html.Message("rule `a<b` wins"); }) ==
        "rule <code>a&lt;b</code> wins");
  CHECK(Written([](Html& html) { html.Message("a ` b"); }) == "a ` b");
  CHECK(Written([](Html& html) { html.Message(""); }).empty());
}

TEST_CASE("numbers are written shortest, units behind a no-break space") {
  CHECK(Written([](Html& html) { html.Fixed(12.5).Raw(" ").Fixed(3); }) ==
        "12.5 3");
  CHECK(Written([](Html& html) { html.Fixed(-0.001); }) == "0");
  CHECK(Written([](Html& html) { html.Bytes(2048); }) == "2\u00a0KiB");
  CHECK(Written([](Html& html) { html.Bytes(std::optional<int64_t>()); }) ==
        "–");
}

}  // namespace
}  // namespace shardc::report
