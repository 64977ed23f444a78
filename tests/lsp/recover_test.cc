#include "lsp/recover.h"

#include <doctest/doctest.h>

#include <string>

namespace shardc::lsp {
namespace {

std::string Blanks(const std::string& text, const std::set<size_t>& offsets) {
  const auto out = BlankEntries(MakeSource("rules.yaml", text), offsets);
  if (!out) return "none";
  CHECK(out->text.size() == text.size());
  // Remove the blanks at the ends of lines.
  std::string trimmed;
  for (const char c : out->text) {
    while (c == '\n' && trimmed.ends_with(' ')) trimmed.pop_back();
    trimmed += c;
  }
  return trimmed;
}

TEST_CASE("recover: the rule with an error is blanked, all others stay") {
  const std::string text =
      "rules:\n- match: a\n  spec: [x]\n# note\n- {match: b, spec: [y]}\n";
  CHECK(Blanks(text, {text.find("[x]")}) ==
        "rules:\n\n\n# note\n- {match: b, spec: [y]}\n");
  CHECK(Blanks(text, {text.find("[y]")}) ==
        "rules:\n- match: a\n  spec: [x]\n# note\n\n");
  CHECK(Blanks("rules: [{match: a}, {match: b}]\n", {8}) ==
        "rules: [            {match: b}]\n");
  CHECK(Blanks("rules: [{match: a}, {match: b}]\n", {20}) ==
        "rules: [{match: a},           ]\n");
}

TEST_CASE("recover: entries of other sections, and a section as a whole") {
  CHECK(Blanks("bundles:\n  A: 5\n  B: [x]\n", {14}) ==
        "bundles:\n\n  B: [x]\n");
  CHECK(Blanks("axes: {head: 5, batch: x}\n", {13}) ==
        "axes: {         batch: x}\n");
  CHECK(Blanks("extends: [a.yaml, b.yaml]\n", {12}) ==
        "extends: [        b.yaml]\n");
  CHECK(Blanks("nope: 1\nrules: []\n", {0}) == "\nrules: []\n");
  // An offset outside of all entries blanks nothing.
  CHECK(Blanks("rules: []\n# end\n", {14}) == "none");
}

TEST_CASE("recover: an entry that is not YAML ends where its lines end") {
  CHECK(Blanks("rules:\n- match: 'a\n  spec: []\n- match: 'b'\n", {16}) ==
        "rules:\n\n\n- match: 'b'\n");
  CHECK(Blanks("rules:\n  - match: [a\n  - match: b\n  - match: {c\n", {16}) ==
        "rules:\n\n  - match: b\n\n");
  CHECK(Blanks("bundles:\n  A: [x\n  B: [y]\nrules:\n- a\n", {14}) ==
        "bundles:\n\n  B: [y]\nrules:\n- a\n");
  // An entry with an alias is kept if another entry defines `&x`.
  CHECK(Blanks("rules:\n- &x a\n- *x\n- 'b\n", {21}) ==
        "rules:\n- &x a\n- *x\n\n");
  CHECK(Blanks("{\nrules:\n- match: a\n", {0}) == "none");
  CHECK(Blanks("rules: [a\n", {7}) == "none");
}

TEST_CASE("recover: comments of an entry do not become the next one's") {
  const std::string ignore = "# shardc: ignore[SHD105] why\n";
  const std::string next = "- match: b\n";
  // The comment behind the entry, and the ignore above it.
  CHECK(Blanks("rules:\n" + ignore + "\n# a\n- match: 5  # c\n" + next,
               {7 + ignore.size() + 14}) == "rules:\n\n\n\n\n" + next);
  CHECK(Blanks("rules:\n- c: d\n" + ignore + "- match: 'a\n" + next, {0}) ==
        "rules:\n- c: d\n\n\n" + next);
  // Those of the next entry stay.
  CHECK(Blanks("rules:\n- match: 'a\n" + ignore + "\n" + next, {0}) ==
        "rules:\n\n" + ignore + "\n" + next);
  CHECK(Blanks("rules: [{match: 5},  # c\n  {match: b}]\n", {8}) ==
        "rules: [\n  {match: b}]\n");
}

TEST_CASE("recover: errors of further entries that are not YAML are kept") {
  const auto out = BlankEntries(
      MakeSource("rules.yaml", "rules:\n- 'a\n- b\n- 'c\n- [d\n"), {9});
  REQUIRE(out);
  CHECK(out->errors.errors() == 2);
  CHECK(out->errors.all()[0]
            .place.source->At(out->errors.all()[0].place.begin)
            .line == 4);
}

}  // namespace
}  // namespace shardc::lsp
