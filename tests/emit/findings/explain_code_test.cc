#include "emit/findings/formats.h"

#include <doctest/doctest.h>

#include "lint/rules/lint.h"
#include "tables.h"

namespace shardc {
namespace {

TEST_CASE("every code is explained, by number and by name") {
  for (const Code* code : AllCodes()) {
    CAPTURE(code->Id());
    const auto text = ExplainCode(code->Id());
    REQUIRE(text);
    CHECK(text->find(code->meaning) != std::string::npos);
    CHECK(text->ends_with("\n"));
    CHECK(ExplainCode(code->name) == text);
    CHECK(CodesMarkdown().find("| " + code->Id() + " |") != std::string::npos);
  }
  CHECK_FALSE(ExplainCode("SHD999"));
  CHECK_FALSE(ExplainCode("no-such-thing"));
}

TEST_CASE("an input error is explained with both examples") {
  for (const Code* code : ReadingCodes()) {
    CAPTURE(code->Id());
    const std::string text = *ExplainCode(code->Id());
    for (const char* part :
         {"\nWhat it means\n", "\nWhy that is bad\n", "\nHow to fix it\n",
          "\nExample\n", "\nFixed\n", "  command:\n    ", "shardc "}) {
      CHECK(text.find(part) != std::string::npos);
    }
  }
}

TEST_CASE("a lint is explained with what it does and both examples") {
  for (const Lint* lint : AllLints()) {
    CAPTURE(lint->code.Id());
    const std::string text = *ExplainCode(lint->code.Id());
    for (const char* part : {"What it does", "Why that is bad", "Example",
                             "What to write instead"}) {
      CHECK(text.find(part) != std::string::npos);
    }
    CHECK((text.find("In preview") != std::string::npos) == lint->preview);
  }
}

TEST_CASE("what is explained of codes of each kind") {
  CheckTable("emit_codes.txt", [](const TableCase& given) {
    return ExplainCode(given.title).value_or("not explained\n");
  });
}

}  // namespace
}  // namespace shardc
