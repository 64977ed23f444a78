#include "lsp/position.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "draws.h"

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
  // Positions inside of the emoji, between \r and \n, and after the end.
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

TEST_CASE("positions: of a long line, in any order") {
  std::string text = "x\n";
  for (int i = 0; i < 1500; ++i) text += "a\xC3\xA9\xF0\x9F\x98\x80";
  const Lines lines(text);
  for (const int64_t group : {1499, 0, 1200, 700, 1201, 1}) {
    const size_t at = 2 + static_cast<size_t>(group) * 7 + 3;  // of the emoji
    CAPTURE(group);
    CHECK(lines.PositionOf(at, Encoding::kUtf16) == Position{1, group * 4 + 2});
    CHECK(lines.PositionOf(at, Encoding::kUtf32) == Position{1, group * 3 + 2});
    CHECK(lines.PositionOf(at, Encoding::kUtf8) == Position{1, group * 7 + 3});
    CHECK(lines.PositionOf(0, Encoding::kUtf8) == Position{0, 0});
  }
  // In one encoding, so that places counted before are found.
  for (const int64_t group : {1499, 0, 1200, 700, 1201, 1}) {
    const size_t at = 2 + static_cast<size_t>(group) * 7;
    CHECK(lines.PositionOf(at, Encoding::kUtf16) == Position{1, group * 4});
  }
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
    EditBuffer buffer(text);
    buffer.Apply(one.change, Encoding::kUtf16);
    CHECK(buffer.Take() == one.after);
  }
}

// Applies a change by its definition: the positions are looked up in the lines
// of the entire text. EditBuffer is compared with this.
void ApplySlowly(const Change& change, std::string& text) {
  if (!change.range) {
    text = change.text;
    return;
  }
  const Lines lines(text);
  const size_t start = lines.OffsetOf(change.range->start, Encoding::kUtf16);
  const size_t end =
      std::max(start, lines.OffsetOf(change.range->end, Encoding::kUtf16));
  text.replace(start, end - start, change.text);
}

TEST_CASE("documents: many changes give the text that single changes give") {
  Draws draws(7);
  const auto between = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(draws() %
                                      static_cast<uint64_t>(high - low + 1));
  };
  const std::string_view pieces[] = {
      "\r", "\n", "\r\n", "a", "\xC3\xA9", "\xF0\x9F\x98\x80", "", "\n\n"};
  const auto piece = [&] {
    return std::string(pieces[draws() % std::size(pieces)]);
  };
  for (int round = 0; round < 60; ++round) {
    std::string text;
    // Texts of one block and of several, with long lines and with short ones.
    const bool one_line = round % 5 == 0;
    for (int64_t i = between(0, round % 3 == 0 ? 20 : 16000); i > 0; --i) {
      text += between(0, round % 2 == 0 ? 3 : 400) > 0 ? "b"
              : one_line                               ? pieces[3 + draws() % 3]
                                                       : piece();
    }
    EditBuffer buffer(text);
    for (int i = 0; i < 40; ++i) {
      const auto lines = static_cast<int64_t>(Lines(text).count());
      const auto position = [&] {
        return Position{between(-1, lines + 1),
                        between(-1, one_line ? 17000 : 9)};
      };
      Change change{Range{position(), position()}, ""};
      if (between(0, 2) > 0) change.range->end = change.range->start;
      if (between(0, 30) == 0) change.range.reset();
      for (int64_t k = between(0, 3); k > 0; --k) change.text += piece();
      if (between(0, 20) == 0) change.text += std::string(9000, '\n');
      ApplySlowly(change, text);
      buffer.Apply(std::move(change), Encoding::kUtf16);
    }
    CHECK(buffer.Take() == text);
  }
}

TEST_CASE("documents: 2,000 changes of one message do not read the text each") {
  constexpr int64_t kRules = 50'000;
  const std::string rule = "  - {match: 'layer.*.weight$', spec: [TP, FSDP]}";
  const auto length = static_cast<int64_t>(rule.size()) + 1;
  for (const bool one_line : {false, true}) {
    CAPTURE(one_line);
    std::string text;
    for (int64_t i = 0; i < kRules; ++i) text += rule + (one_line ? ' ' : '\n');
    const auto size = static_cast<int64_t>(text.size());
    EditBuffer buffer(std::move(text));
    for (int64_t i = 0; i < 2000; ++i) {
      const int64_t at = i * 7919 % kRules;
      const Position position =
          one_line ? Position{0, at * length} : Position{at, 4};
      buffer.Apply({Range{position, position}, "x"}, Encoding::kUtf16);
    }
    CHECK(static_cast<int64_t>(buffer.Take().size()) == size + 2000);
    // The bytes that are read are those of dividing the text, of joining it,
    // and of a few blocks for each change. If each change read all lines, they
    // would be 2,000 times the size.
    CHECK(buffer.work() < 12 * size);
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
