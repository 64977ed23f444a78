#include "emit/emit.h"

#include <doctest/doctest.h>

namespace shardc {
namespace {

TEST_CASE("columns: the last cell of a row to the left has any width") {
  Columns table;
  table.Row({"a heading that is wider than its column"});
  table.Row({"name", "", "x"});
  table.Row({"n\x1b", "22", ""});
  CHECK(table.Text() ==
        "a heading that is wider than its column\n"
        "name       x\n"
        "n\\x1b  22\n");
  CHECK(Columns().Text().empty());
}

TEST_CASE("columns: numbers are aligned to the right") {
  Columns table(Columns::Align::kRight);
  table.Row({"rank", "held"});
  table.Row({"10", "123456"});
  CHECK(table.Text() ==
        "rank    held\n"
        "  10  123456\n");
}

}  // namespace
}  // namespace shardc
