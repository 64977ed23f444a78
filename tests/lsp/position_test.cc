#include "lsp/position.h"

#include <doctest/doctest.h>

#include <string>

#include "lsp/documents.h"
#include "lsp/uri.h"

namespace shardc::lsp {
namespace {

// e acute, the euro sign, an emoji: 2, 3 and 4 bytes.
const std::string kText = "a\xC3\xA9z\r\n\xE2\x82\xAC\xF0\x9F\x98\x80q\n\rlast";

TEST_CASE("positions: lines end with any break, units are the encoding's") {
  const Lines lines(kText);
  CHECK(lines.count() == 4);
  CHECK(lines.Text(0) == "a\xC3\xA9z");
  CHECK(lines.Text(2).empty());
  CHECK(lines.Text(3) == "last");
  const size_t q = kText.find('q');
  CHECK(lines.PositionOf(q, Encoding::kUtf16) == Position{1, 3});
  CHECK(lines.PositionOf(q, Encoding::kUtf8) == Position{1, 7});
  CHECK(lines.PositionOf(q, Encoding::kUtf32) == Position{1, 2});
  // Inside of the emoji, between \r and \n, behind the end.
  CHECK(lines.PositionOf(q - 2, Encoding::kUtf16) == Position{1, 1});
  CHECK(lines.OffsetOf({1, 2}, Encoding::kUtf16) == q - 4);
  CHECK(lines.PositionOf(kText.find('\n'), Encoding::kUtf16) == Position{0, 3});
  CHECK(lines.OffsetOf({0, 99}, Encoding::kUtf16) == kText.find('\r'));
  CHECK(lines.OffsetOf({99, 0}, Encoding::kUtf16) == kText.size());
  CHECK(lines.OffsetOf({-1, 5}, Encoding::kUtf16) == 0);
  CHECK(lines.OffsetOf({0, -5}, Encoding::kUtf16) == 0);
}

TEST_CASE("positions: every character there and back, in every encoding") {
  const Lines lines(kText);
  for (const Encoding encoding :
       {Encoding::kUtf8, Encoding::kUtf16, Encoding::kUtf32}) {
    CHECK(ParseEncoding(EncodingName(encoding)) == encoding);
    for (size_t at = 0; at <= kText.size(); ++at) {
      const bool inside =
          at < kText.size() &&
          (static_cast<unsigned char>(kText[at]) & 0xC0) == 0x80;
      const bool in_break = at > 0 && kText.substr(at - 1, 2) == "\r\n";
      if (inside || in_break) continue;
      CHECK(lines.OffsetOf(lines.PositionOf(at, encoding), encoding) == at);
    }
  }
  CHECK_FALSE(ParseEncoding("utf-7"));
}

TEST_CASE("documents: changes of a range, of all, and past the end") {
  const struct {
    Change change;
    std::string after;
  } cases[] = {
      {{Range{{0, 1}, {0, 1}}, "X"},
       "aX\xF0\x9F\x98\x80"
       "b\r\nc"},
      {{Range{{0, 1}, {0, 3}}, ""}, "ab\r\nc"},
      {{Range{{0, 3}, {1, 0}}, "-"}, "a\xF0\x9F\x98\x80-c"},
      {{Range{{1, 9}, {9, 9}}, "!"},
       "a\xF0\x9F\x98\x80"
       "b\r\nc!"},
      {{Range{{1, 0}, {0, 0}}, "?"},
       "a\xF0\x9F\x98\x80"
       "b\r\n?c"},
      {{std::nullopt, "new"}, "new"},
  };
  for (const auto& one : cases) {
    std::string text =
        "a\xF0\x9F\x98\x80"
        "b\r\nc";
    Apply(one.change, Encoding::kUtf16, text);
    CHECK(text == one.after);
  }
}

TEST_CASE("uris: paths there and back") {
  for (const std::string path :
       {"/a/b.yaml", "/a b/%/\xC3\xA9/\xF0\x9F\x98\x80.yaml", "/x+y@z:1,2"}) {
    CHECK(PathOfUri(UriOfPath(path)) == path);
  }
  CHECK(UriOfPath("/a b") == "file:///a%20b");
  CHECK(PathOfUri("file://localhost/x") == "/x");
  for (const char* none : {"untitled:Untitled-1", "file://host/x", "file:///a%",
                           "file:///a%0", "file:///%zz", "file:///%00", ""}) {
    CHECK_FALSE(PathOfUri(none));
  }
}

}  // namespace
}  // namespace shardc::lsp
