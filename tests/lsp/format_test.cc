#include "lsp/references.h"

#include <doctest/doctest.h>

#include <string>

#include "draws.h"

namespace shardc::lsp {
namespace {

std::string Formatted(const std::string& text) {
  const SourceRef source = MakeSource("rules.yaml", text);
  RuleFix all;
  all.edits = FormatEdits(source);
  return Fixed(text, {&all, 1});
}

TEST_CASE("format: indentation, spaces and empty lines") {
  CHECK(Formatted("rules:\n-   match:   'q_proj$'  \n    spec: [ FSDP,TP ]\n"
                  "\n\n\n- { match : a ,spec: []}\n\n") ==
        "rules:\n  - match: 'q_proj$'\n    spec: [FSDP, TP]\n"
        "\n  - {match: a, spec: []}\n");
  CHECK(Formatted("bundles:\n    A:   [x]\n    B:\n        axes: [y]\n"
                  "        mode: decode") ==
        "bundles:\n  A: [x]\n  B:\n    axes: [y]\n    mode: decode\n");
  CHECK(Formatted("\n\nversion: 1\n") == "version: 1\n");
  CHECK(Formatted("a: 1\r\nb:   2  \r\n") == "a: 1\r\nb: 2\r\n");
  CHECK(Formatted("a: 1\r\nb: 2") == "a: 1\r\nb: 2\r\n");
}

TEST_CASE("format: comments move with what they are aligned with") {
  CHECK(Formatted("rules:\n# first\n- match: a  # why\n  spec: []\n"
                  "  # of the rule\n# second\n- match: b\n  spec: []\n"
                  "# of the file\npolicy: {}\n") ==
        "rules:\n  # first\n  - match: a  # why\n    spec: []\n"
        "    # of the rule\n  # second\n  - match: b\n    spec: []\n"
        "# of the file\npolicy: {}\n");
}

TEST_CASE("format: texts and lists over several lines") {
  CHECK(Formatted("rules:\n- match: a\n  note: |\n    one\n\n\n      two\n"
                  "  spec:   [x,\n    y]\n") ==
        "rules:\n  - match: a\n    note: |\n      one\n\n\n        two\n"
        "    spec: [x,\n      y]\n");
}

TEST_CASE("format: what is formatted, is not YAML or would change stays") {
  const std::string formatted =
      "rules:\n  - match: 'a  b'\n    spec: [[x, y], _]\n";
  CHECK(Formatted(formatted) == formatted);
  CHECK(Formatted("rules: [\n") == "rules: [\n");
  CHECK(Formatted("a:  1\na:  2\n") == "a:  1\na:  2\n");
  CHECK(Formatted("a:   'x   y'\n") == "a: 'x   y'\n");
}

TEST_CASE("format: a second time changes nothing, for random texts") {
  Draws draws(5);
  const std::string parts[] = {"a: ",  "b:\n", "- ",   "[x,y]", "{c:  d}",
                               "  ",   "\n",   "\n\n", "# n\n", "'q r'",
                               "|\n ", "e",    " ",    ",",     ":"};
  int changed = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (size_t left = 1 + draws() % 14; left > 0; --left) {
      text += parts[draws() % std::size(parts)];
    }
    const std::string once = Formatted(text);
    if (once != text) ++changed;
    REQUIRE_MESSAGE(Formatted(once) == once, text);
  }
  CHECK(changed > 500);
}

}  // namespace
}  // namespace shardc::lsp
