#include "source/source.h"

#include <doctest/doctest.h>

#include <set>

#include "source/finding.h"
#include "source/size.h"

namespace shardc {
namespace {

TEST_CASE("source: lines and columns count code points") {
  const SourceRef source = MakeSource("f",
                                      "\xEF\xBB\xBF"
                                      "ab\r\n\xC3\xA9x\n\nlast");
  const struct {
    size_t offset;
    int line, column;
  } cases[] = {{0, 1, 1},  {3, 1, 1},  {4, 1, 2},  {7, 2, 1}, {9, 2, 2},
               {11, 3, 1}, {12, 4, 1}, {16, 4, 5}, {99, 4, 5}};
  for (const auto& c : cases) {
    CAPTURE(c.offset);
    CHECK(source->At(c.offset).line == c.line);
    CHECK(source->At(c.offset).column == c.column);
  }
  CHECK(source->Line(1) == "ab");
  CHECK(source->Line(2) == "\xC3\xA9x");
  CHECK(source->Line(3).empty());
  CHECK(source->Line(4) == "last");
  CHECK(source->Line(5).empty());
  CHECK(source->Line(0).empty());
  CHECK(source->LineStart(4) == 12);
  CHECK(Place{source, 9, 10}.ToString() == "f:2:2");
  CHECK(Place{source}.ToString() == "f");
  CHECK(Place{}.ToString().empty());
}

TEST_CASE("source: columns of long lines count code points") {
  const std::string text = "ab\n" + [] {
    std::string line;
    for (int i = 0; i < 4000; ++i) line += i % 3 == 0 ? "\xC3\xA9" : "x";
    return line + line;
  }();
  const SourceRef source = MakeSource("f", text);
  int column = 0;
  for (size_t offset = 3; offset < text.size(); ++offset) {
    if ((static_cast<unsigned char>(text[offset]) & 0xC0) != 0x80) ++column;
    CAPTURE(offset);
    REQUIRE(source->At(offset).line == 2);
    REQUIRE(source->At(offset).column == column);
  }
  CHECK(source->At(text.size()).column == 8001);
}

TEST_CASE("findings: counted and sorted by place, then code") {
  const SourceRef a = MakeSource("a", "x\ny\n");
  const SourceRef b = MakeSource("b", "x\n");
  Findings findings;
  findings.Add(code::kSchema, {b, 0, 1}, "1");
  findings.Add(code::kNumber, {a, 2, 3}, "2");
  findings.Add(code::kSchema, {a, 2, 3}, "3");
  findings.Add(code::kSchema, {a}, "4");
  findings.Add(code::kSchema, {a, 2, 3}, "5");
  Finding note;
  note.code = &code::kUsage;
  note.level = Level::kNote;
  note.message = "6";
  findings.Add(note);
  CHECK(findings.errors() == 5);
  findings.Sort();
  std::string order;
  for (const Finding& finding : findings.all()) order += finding.message;
  CHECK(order == "643521");
  Findings more;
  more.Append(findings);
  CHECK(more.errors() == 5);
  CHECK(more.all().size() == 6);
}

TEST_CASE("codes: each number and name once") {
  std::set<int> numbers;
  std::set<std::string_view> names;
  for (const Code* code : ReadingCodes()) {
    CHECK(numbers.insert(code->number).second);
    CHECK(names.insert(code->name).second);
    CHECK(code->Id().size() == 6);
  }
  CHECK(code::kUsage.Id() == "SHD001");
  CHECK(Code{203, "x", Level::kNote, ""}.Id() == "SHD203");
  CHECK(LevelName(Level::kWarning) == "warning");
}

TEST_CASE("checked: products say when they do not fit") {
  const int64_t half = int64_t{1} << 62;
  CHECK(CheckedProduct(std::vector<int64_t>{}) == 1);
  CHECK(CheckedProduct(std::vector<int64_t>{half, 1}) == half);
  CHECK_FALSE(CheckedProduct(std::vector<int64_t>{half, 2}));
  CHECK_FALSE(CheckedProduct(std::vector<int64_t>{0, half, 2}));
  CHECK(CheckedProduct(std::vector<int64_t>{7, 0}) == 0);
  CHECK_FALSE(CheckedAdd(INT64_MAX, 1));
}

}  // namespace
}  // namespace shardc
