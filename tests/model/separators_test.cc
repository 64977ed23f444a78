// Tests the separator with which the patterns of a file are matched.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/name.h"
#include "model/rules.h"
#include "source/source.h"

namespace shardc {
namespace {

Rule RuleOf(SeparatorFrom from, const SourceRef& source, char separator) {
  Rule rule;
  rule.separator_from = from;
  rule.separator = separator;
  rule.place.source = source;
  rule.match_place.source = source;
  return rule;
}

TEST_CASE("separators that no file gives follow from names or the reference") {
  using From = SeparatorFrom;
  const SourceRef source = MakeSource("r.yaml", "rules");
  struct Case {
    From from;
    char own;
    char names;  // 0: the names have none
    Compat compat;
    char expected;
    From from_then;
  };
  const std::vector<Case> cases = {
      {From::kFile, '.', '/', Compat::kNone, '.', From::kFile},
      {From::kFile, '.', '/', Compat::kEformer, '.', From::kFile},
      {From::kPatterns, '.', '/', Compat::kNone, '.', From::kPatterns},
      {From::kPatterns, '.', '.', Compat::kFjformer, '/', From::kCompat},
      {From::kNames, '/', '.', Compat::kNone, '.', From::kNames},
      {From::kNames, '.', 0, Compat::kNone, '/', From::kNames},
      {From::kNames, '.', '.', Compat::kEformer, '/', From::kCompat},
      {From::kBoth, '.', '.', Compat::kEformer, '/', From::kCompat},
  };
  for (const Case& c : cases) {
    CAPTURE(c.from);
    CAPTURE(c.compat);
    RuleSet rules;
    rules.rules.push_back(RuleOf(c.from, source, c.own));
    Findings findings;
    SettleSeparators(rules, c.names, c.compat, findings);
    CHECK(rules.rules[0].separator == c.expected);
    CHECK(rules.rules[0].separator_from == c.from_then);
    CHECK(findings.empty());
  }
}

TEST_CASE("a file that is written with both separators is reported once") {
  const SourceRef a = MakeSource("a.yaml", "a"), b = MakeSource("b.yaml", "b");
  RuleSet rules;
  for (const SourceRef& source : {a, a, b, b}) {
    rules.rules.push_back(RuleOf(SeparatorFrom::kBoth, source, '/'));
  }
  Findings findings;
  SettleSeparators(rules, '.', Compat::kNone, findings);
  REQUIRE(findings.all().size() == 2);
  CHECK(findings.all()[0].place.source == a);
  CHECK(findings.all()[1].place.source == b);
  CHECK(findings.all()[0].message ==
        "some patterns of this file are written with `/` and some with `\\.`");
  CHECK(findings.all()[0].help ==
        "say which of them separates the parts of a name: `separator: \"/\"` "
        "or `separator: \".\"`");
}

TEST_CASE("a name with a slash is separated by slashes") {
  CHECK(SeparatorOf("a.b") == '.');
  CHECK(SeparatorOf("a.b/c") == '/');
  CHECK(SeparatorOf("a") == '.');
  CHECK(SeparatorOf("/") == '/');
}

TEST_CASE("digits are those of ASCII") {
  CHECK(AllDigits("0123456789"));
  for (const std::string_view text : {"", "1a", "a1", "-1", "/", ":", "1 "}) {
    CAPTURE(text);
    CHECK_FALSE(AllDigits(text));
  }
}

TEST_CASE("embeddings are found by a part of their name or by GPT-2's names") {
  for (const std::string_view part :
       {"embed", "embed_tokens", "token_embedding", "wte", "wpe"}) {
    CAPTURE(part);
    CHECK(NamesEmbedding(part));
  }
  for (const std::string_view part :
       {"", "emb", "wt", "wtex", "xwpe", "w", "embed_out"}) {
    CAPTURE(part);
    CHECK_FALSE(NamesEmbedding(part));
  }
}

}  // namespace
}  // namespace shardc
