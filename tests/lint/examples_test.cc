// Uses the examples of the documentation as tests: the bad example of each lint
// gives its code, and the good one does not.
#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "doctest/doctest.h"
#include "emit/emit.h"
#include "emit/findings/formats.h"
#include "lint/rules/lint.h"
#include "lint/target.h"

namespace shardc {
namespace {

const Finding* FindCodeIn(const std::vector<Finding>& findings,
                          const Code& code) {
  const auto at =
      std::find_if(findings.begin(), findings.end(),
                   [&](const Finding& f) { return f.code == &code; });
  return at == findings.end() ? nullptr : &*at;
}

// Returns the name of a code or the message of a finding; "none" for null.
std::string_view NameOf(const Code* code) {
  return code == nullptr ? "none" : code->name;
}
std::string MessageOf(const Finding* finding) {
  return finding == nullptr ? "none" : finding->message;
}

std::string TextsOf(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& finding : findings) out += FindingText(finding, {});
  return out;
}

TEST_CASE("every lint finds its bad example and passes its good one") {
  REQUIRE(AllLints().size() >= 45);
  for (const Lint* lint : AllLints()) {
    CAPTURE(lint->code.Id());
    CAPTURE(lint->code.name);
    std::string errors;
    const LintExamples& examples = ExamplesOf(lint->code.name);
    // Commands read programs: the golden files of codes have such examples.
    if (!examples.bad.program.empty()) continue;
    const LintResult bad = LintExampleText(examples.bad, &errors);
    CHECK(errors == "");
    const Finding* found = FindCodeIn(bad.findings, lint->code);
    INFO("bad example gives:\n", TextsOf(bad.findings));
    CHECK(MessageOf(found) != "none");
    if (found != nullptr) CHECK(found->level == lint->code.level);

    const LintResult good =
        LintExampleText(Filled(examples.bad, examples.good), &errors);
    CHECK(errors == "");
    INFO("good example gives:\n", TextsOf(good.findings));
    CHECK(MessageOf(FindCodeIn(good.findings, lint->code)) == "none");
    // The corrected example must not have another error.
    for (const Finding& finding : good.findings) {
      CHECK(finding.level != Level::kError);
    }
  }
}

TEST_CASE("every lint states what it finds, why, and what to write instead") {
  std::set<int> numbers;
  std::set<std::string_view> names;
  int errors = 0;
  for (const Code* code : AllCodes()) {
    CAPTURE(code->Id());
    CHECK(numbers.insert(code->number).second);
    CHECK(names.insert(code->name).second);
    CHECK(NameOf(FindCode(code->Id())) == code->name);
    CHECK(NameOf(FindCode(code->name)) == code->name);
    CHECK_FALSE(code->meaning.empty());
    CHECK_FALSE(code->meaning.ends_with("."));
  }
  for (const Lint* lint : AllLints()) {
    CAPTURE(lint->code.Id());
    CHECK(lint->code.number >= 100);
    const CodePage* page = FindPage(lint->code);
    REQUIRE(page != nullptr);
    for (std::string_view text : {page->what(), page->why(), page->fix()}) {
      CHECK(text.ends_with("."));
    }
    if (lint->code.level == Level::kError) ++errors;
  }
  // Only what is surely wrong or costly is an error.
  CHECK(errors >= 10);
  CHECK(errors <= 20);
  CHECK(NameOf(FindCode("SHD999")) == "none");
  CHECK(NameOf(FindCode("no-such-thing")) == "none");
}

TEST_CASE("lints are listed by number, each with its examples") {
  REQUIRE(AllLints().size() == AllExamples().size());
  for (size_t i = 0; i < AllLints().size(); ++i) {
    CHECK(AllLints()[i]->code.name == AllExamples()[i].lint);
    if (i == 0) continue;
    CHECK(AllLints()[i]->code.number > AllLints()[i - 1]->code.number);
  }
}

}  // namespace
}  // namespace shardc
