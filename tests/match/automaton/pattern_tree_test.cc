#include "match/automaton/pattern_tree.h"

#include <doctest/doctest.h>

#include <string>

#include "match/automaton/nfa.h"

namespace shardc {
namespace {

// Returns the tree as a pattern, with sets in brackets and other parts in
// groups.
std::string Text(const PatternTree& tree) {
  std::string out;
  switch (tree.kind) {
    case PatternTree::Kind::kPoint:
      AppendUtf8(out, tree.point);
      return "[" + out + "]";
    case PatternTree::Kind::kSet:
      for (const CodeRange& range : tree.set) {
        AppendUtf8(out, range.low);
        if (range.high > range.low) AppendUtf8(out += '-', range.high);
      }
      return "[" + out + "]";
    case PatternTree::Kind::kAssertion:
      return "<" + std::to_string(tree.assertion) + ">";
    case PatternTree::Kind::kSequence:
      for (const PatternTree& part : tree.parts) out += Text(part);
      return out;
    case PatternTree::Kind::kChoice:
      for (const PatternTree& part : tree.parts) out += "|" + Text(part);
      return "(" + out.substr(1) + ")";
    case PatternTree::Kind::kRepeat:
      return "(" + Text(tree.parts[0]) + "){" + std::to_string(tree.least) +
             "," + (tree.most < 0 ? "" : std::to_string(tree.most)) + "}";
  }
  return out;
}

std::string Read(std::string_view pattern) {
  const auto tree = ReadPatternTree(pattern);
  return tree ? Text(*tree) : "outside";
}

TEST_CASE("patterns are parsed as RE2 parses them") {
  struct Case {
    std::string_view pattern;
    std::string_view tree;
  };
  const Case cases[] = {
      {"", ""},
      {"ab|c", "([a][b]|[c])"},
      {"a+?b{2}c{,3}", "([a]){1,}([b]){2,2}[c][{][,][3][}]"},
      {"a{02}", "[a][{][0][2][}]"},
      {"(?i)k(?-i)s", "[Kk\xE2\x84\xAA][s]"},
      {"(a(?i)b|c)d", "([a][Bb]|[Cc])[d]"},
      {"(?P<n>a|)$", "([a]|)<2>"},
      {"(?m)^$", "<4><8>"},
      {"[]a-c^]", "[]-^a-c]"},
      {"[^[:^word:]_]", "[0-9A-Za-z]"},
      {"[[:alpha:]-]", "[-A-Za-z]"},
      {"[[:x]", "[:[x]"},
      {"\\x41\\x{e9}\\.", "[A][\xC3\xA9][.]"},
      {"]}", "[]][}]"},
      {"\\pL", "outside"},
      {"(?i)\xC3\xA9", "outside"},
      {"a(?i)*", "outside"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.pattern);
    CHECK(Read(c.pattern) == c.tree);
  }
}

TEST_CASE("ends are trimmed to their minimum") {
  struct Case {
    std::string_view pattern;
    std::string_view tree;
  };
  const Case cases[] = {
      {".*a", "[a]"},
      {"a.*", "[a]"},
      {"(x|.*)a+b*", "[a]"},
      {"^b*a", "<1>([b]){0,}[a]"},
      {"[[:digit:]]+/a", "[0-9][/][a]"},
      {"(ab?)+", "[a]"},
      {"a{2,5}", "([a]){2,2}"},
      {".*", ""},
      {"(a|b*c)x", "([a]|[c])[x]"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.pattern);
    auto tree = ReadPatternTree(c.pattern);
    REQUIRE(tree);
    TrimEnds(*tree);
    CHECK(Text(*tree) == c.tree);
  }
}

TEST_CASE("a symbol is the code points that all sets treat in the same way") {
  const std::vector<CharSet> sets = {
      {{'a', 'z'}},
      Canonical({{'a', 'a'}, {'e', 'e'}, {'u', 'u'}}),
      Complement({{'\n', '\n'}})};
  const Alphabet alphabet(sets, 0);
  CHECK(alphabet.symbols() == 4);
  CHECK(alphabet.SymbolOf('a') == alphabet.SymbolOf('u'));
  CHECK(alphabet.SymbolOf('b') == alphabet.SymbolOf('z'));
  CHECK(alphabet.SymbolOf('a') != alphabet.SymbolOf('b'));
  CHECK(alphabet.SymbolOf('A') == alphabet.SymbolOf(kLastCodePoint));
  CHECK(alphabet.Holds(1, alphabet.SymbolOf('e')));
  CHECK_FALSE(alphabet.Holds(1, alphabet.SymbolOf('b')));
  CHECK_FALSE(alphabet.Holds(2, alphabet.SymbolOf('\n')));
  for (const CharSet& members : alphabet.Members()) {
    REQUIRE_FALSE(members.empty());
    for (const CodeRange& range : members) {
      CHECK(alphabet.SymbolOf(range.low) == alphabet.SymbolOf(range.high));
    }
  }
  const Alphabet words(sets, kWordEdge);
  CHECK(words.SymbolOf('A') != words.SymbolOf('!'));
  CHECK(words.KindOf(words.SymbolOf('7')) == Neighbour::kWord);
}

}  // namespace
}  // namespace shardc
