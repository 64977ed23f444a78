#include "match/proof/prover.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "match/pattern_maker.h"

namespace shardc {
namespace {

Matcher Compiled(const std::vector<std::string>& texts, char separator = '/') {
  std::vector<Pattern> patterns;
  for (const std::string& text : texts) {
    patterns.push_back({text, {}, separator});
  }
  Findings findings;
  auto matcher = Matcher::Compile(patterns, findings);
  REQUIRE(matcher);
  return std::move(*matcher);
}

// Returns whether both patterns match the same names; if not, with a shortest
// name that only one of them matches.
PatternProof Same(std::string_view a, std::string_view b) {
  const PatternProof one = Contains({a, {}, '/'}, {b, {}, '/'});
  const PatternProof other = Contains({b, {}, '/'}, {a, {}, '/'});
  if (one.answer == Answer::kNo && other.answer == Answer::kNo) {
    return one.name.size() <= other.name.size() ? one : other;
  }
  if (one.answer == Answer::kNo) return one;
  if (other.answer == Answer::kNo) return other;
  return one.answer == Answer::kYes ? other : one;
}

TEST_CASE("two patterns match the same names, or there is a counterexample") {
  struct Case {
    std::string_view a;
    std::string_view b;
    std::string_view name;  // a counterexample; empty: none
  };
  const Case cases[] = {
      {".*q_proj", "q_proj", ""},
      {"(q|k)_proj/kernel$", "[qk]_proj/kernel$", ""},
      {"a.b", "a\\.b", "axb"},
      // The class has the digits of all scripts.
      {"layers/\\d+/attn", "layers/[0-9]+/attn", "layers/\xD9\xA0/attn"},
      {"layers/\\d+/attn", "layers/(\\d\\d*)/attn", ""},
      {"layers/\\d+/attn", "layers/.*/attn", "layers//attn"},
      {"^a", "a", "xa"},
      {"a$", "a", "ax"},
      {"", ".*", ""},
      {"^$", "$^", ""},
      {".", "", ""},           // no name is empty
      {"^.*$", ".*", ""},      // none has a newline
      {"\\n", "\\x{85}", ""},  // or another control character
      {"(?i)k", "[kK]", "\xE2\x84\xAA"},
      {"\\bq", "(^|[^\\w])q", ""},
      {"[0-9]", "[[:digit:]]", ""},
      {"\\d", "[[:digit:]]", "\xD9\xA0"},
      {"[^a]", ".", "a"},
      {"(a|b)*abb", "abb", ""},
      {"^(a|b)*abb$", "^(a*b)*abb$", "aabb"},
      {"^(a|b)*abb$", "^(b*ab)*b$", "b"},
      {"^(?:a{2}){3}$", "^a{6}$", ""},
      {"^(?:a{3}|a{4})*$", "^(?:a{3}(?:a{3,})?|a{4}|)$", ""},
      {"^(?:a{3}|a{5})*$", "^(?:a{3}(?:a{3,})?|a{5}|)$", "aaaaaaa"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.a);
    CAPTURE(c.b);
    const PatternProof proof = Same(c.a, c.b);
    CHECK(proof.answer == (c.name.empty() ? Answer::kYes : Answer::kNo));
    CHECK(proof.name == c.name);
  }
}

TEST_CASE("a pattern contains another, or there is a counterexample") {
  const auto contains = [](std::string_view outer, std::string_view inner) {
    return Contains({outer, {}, '/'}, {inner, {}, '/'});
  };
  CHECK(contains("kernel", "attn/kernel$").answer == Answer::kYes);
  CHECK(contains("attn/kernel$", "kernel").name == "kernel");
  CHECK(contains(".*", "a").answer == Answer::kYes);
  CHECK(contains("a", "a|b").name == "b");
  CHECK(contains("\\pL", "a").answer == Answer::kNotProven);
}

TEST_CASE("a rule that never wins has the rules that cover it") {
  const Matcher matcher =
      Compiled({"q_proj", "k_proj", "norm", "(q|k)_proj/kernel$", "v_proj",
                "^$", "a^b", ".*", "bias", "mlp.*norm"});
  Prover prover(matcher);
  using Kind = RuleProof::Kind;

  const RuleProof covered = prover.ProveRule(3);
  CHECK(covered.kind == Kind::kNeverWins);
  REQUIRE(covered.covers.size() == 2);
  CHECK(covered.covers[0].rule == 0);
  CHECK(covered.covers[0].name == "q_proj/kernel");
  CHECK(covered.covers[1].rule == 1);
  CHECK(covered.covers[1].name == "k_proj/kernel");

  CHECK(prover.ProveRule(4).kind == Kind::kWins);
  CHECK(prover.ProveRule(4).name == "v_proj");
  CHECK(prover.ProveRule(5).kind == Kind::kMatchesNothing);
  CHECK(prover.ProveRule(6).kind == Kind::kMatchesNothing);
  CHECK(prover.ProveRule(7).name == "x");

  const RuleProof behind = prover.ProveRule(8);
  CHECK(behind.kind == Kind::kNeverWins);
  REQUIRE(behind.covers.size() == 1);
  CHECK(behind.covers[0].rule == 7);

  // Each of several rules covers this one alone, and the proof has one of them.
  const RuleProof narrow = prover.ProveRule(9);
  CHECK(narrow.covers.size() == 1);
}

TEST_CASE("the relation of two rules has an example name for each part") {
  const Matcher matcher = Compiled(
      {"attn/kernel$", "kernel$", "bias$", "layers/\\d+", "(?:attn)/kernel$"});
  Prover prover(matcher);
  using Kind = PairProof::Kind;
  CHECK(prover.ProvePair(0, 1).kind == Kind::kWithin);
  CHECK(prover.ProvePair(1, 0).kind == Kind::kContains);
  CHECK(prover.ProvePair(1, 0).both == "attn/kernel");
  CHECK(prover.ProvePair(1, 0).only_first == "kernel");
  CHECK(prover.ProvePair(1, 2).kind == Kind::kApart);
  CHECK(prover.ProvePair(0, 4).kind == Kind::kSame);
  const PairProof overlap = prover.ProvePair(2, 3);
  CHECK(overlap.kind == Kind::kOverlap);
  CHECK(overlap.both == "layers/0bias");
  CHECK(overlap.only_first == "bias");
  CHECK(overlap.only_second == "layers/0");
}

TEST_CASE("patterns with both separators: names have either") {
  const std::vector<Pattern> patterns = {{"mlp/up", {}, '/'},
                                         {"mlp\\.up", {}, '.'},
                                         {"mlp.up", {}, '.'},
                                         {"mlp/up$", {}, '/'}};
  Findings findings;
  const auto matcher = Matcher::Compile(patterns, findings);
  REQUIRE(matcher);
  Prover prover(*matcher);
  // In names with the separator `.`, the first rule matches all names that the
  // second one matches. In names with `/`, a `.` is an ordinary character.
  CHECK(prover.ProveRule(1).name == "mlp.up");
  CHECK(prover.ProveRule(2).name == "mlpxup");
  const RuleProof last = prover.ProveRule(3);
  CHECK(last.kind == RuleProof::Kind::kNeverWins);
  REQUIRE(last.covers.size() == 1);
  CHECK(last.covers[0].rule == 0);
}

TEST_CASE("a question beyond the bounds is not proven") {
  // The deterministic automaton of `many` has a million states. A proof that
  // needs few of them is fast, and one that needs all gives up.
  const Pattern many = {"^(a|b)*a(a|b){20}$", {}, '/'};
  CHECK(Contains({"^[ab]*$", {}, '/'}, many).answer == Answer::kYes);
  CHECK(Contains({"^[ab]*a[ab]{20}$", {}, '/'}, many).answer ==
        Answer::kNotProven);
  const Matcher matcher = Compiled(
      {"^(a|b)*a(a|b){18}$|^(a|b)*b(a|b){18}$|^(a|b){0,18}$", "^(a|b)*$"});
  Prover small(matcher, {.work_per_question = 2000});
  CHECK(small.ProveRule(1).kind == RuleProof::Kind::kNotProven);
  Prover none(matcher, {.work = 0});
  CHECK(none.ProveRule(1).kind == RuleProof::Kind::kNotProven);
}

TEST_CASE("the related pairs of a list, without those that are apart") {
  const Matcher matcher =
      Compiled({"attn/kernel$", "kernel$", "bias$", "^(a|b)*a(a|b){20}$"});
  Prover prover(matcher, {.work_per_question = 20'000});
  const RelatedRules related = ProvePairs(prover);
  REQUIRE(related.pairs.size() == 1);
  CHECK(related.pairs[0].first == 0);
  CHECK(related.pairs[0].second == 1);
  CHECK(related.pairs[0].proof.kind == PairProof::Kind::kWithin);
  CHECK(related.pairs_apart + related.pairs_not_proven == 5);
}

TEST_CASE("two lists have the same outcomes, or there is a counterexample") {
  struct Case {
    std::vector<std::pair<std::string_view, uint32_t>> before, after;
    std::string_view name;  // a counterexample; empty: none
  };
  const Case cases[] = {
      // These rules may be removed: a duplicate, a rule that never wins, and a
      // rule whose names are all matched by the rules before it together.
      {{{"q", 0}, {"k", 1}, {"q", 2}}, {{"q", 0}, {"k", 1}}, ""},
      {{{"q", 0}, {"aq", 1}, {".*", 2}}, {{"q", 0}, {".*", 2}}, ""},
      {{{"q", 0}, {"[^q]", 1}, {".*", 2}}, {{"q", 0}, {"[^q]", 1}}, ""},
      // Rules with the same outcome may be swapped, others may not.
      {{{"q", 0}, {"k", 0}, {".*", 1}}, {{"k", 0}, {"q", 0}, {".*", 1}}, ""},
      {{{"q", 0}, {"k", 1}}, {{"k", 1}, {"q", 0}}, "kq"},
      // The order of patterns that share no name has no effect.
      {{{"q$", 0}, {"k$", 1}}, {{"k$", 1}, {"q$", 0}}, ""},
      // One pattern is rewritten so that it matches the same names or fewer, or
      // a rule is removed, added or narrowed.
      {{{"(q|k)", 0}, {".*", 1}}, {{"[kq]", 0}, {".*", 1}}, ""},
      {{{"q", 0}, {".*", 1}}, {{"q$", 0}, {".*", 1}}, "qx"},
      {{{"q", 0}, {".*", 0}}, {{"q$", 0}, {".*", 0}}, ""},
      {{{"a", 0}, {"q", 1}}, {{"a", 0}, {"q$", 1}}, "qx"},
      {{{"a", 0}}, {}, "a"},
      {{}, {{"^$", 0}}, ""},
      {{{"\\pL", 0}}, {{"a", 0}}, "?"},
  };
  for (const Case& c : cases) {
    const auto list = [](const auto& rules) {
      std::vector<RuledPattern> out;
      for (const auto& [text, outcome] : rules) {
        out.push_back({{text, {}, '/'}, outcome});
      }
      return out;
    };
    const PatternProof proof = SameOutcomes(list(c.before), list(c.after));
    CAPTURE(proof.name);
    if (c.name == "?") {
      CHECK(proof.answer == Answer::kNotProven);
    } else if (c.name.empty()) {
      CHECK(proof.answer == Answer::kYes);
    } else {
      CHECK(proof.answer == Answer::kNo);
      CHECK(proof.name.size() == c.name.size());
    }
  }
}

// Returns all texts of `letters` with at most `longest` letters, the shortest
// first.
std::vector<std::string> AllNames(std::string_view letters, size_t longest) {
  std::vector<std::string> out = {""};
  for (size_t begin = 0, size = 0; size < longest; ++size) {
    const size_t end = out.size();
    for (; begin < end; ++begin) {
      for (char letter : letters) out.push_back(out[begin] + letter);
    }
  }
  out.erase(out.begin());
  return out;
}

// Compares proofs with a search over all short names: each proven statement
// must hold for all of them, and no other example may be shorter than that of a
// proof.
TEST_CASE("random patterns: proofs agree with trying all short names") {
  PatternMaker maker(7);
  const std::vector<std::string> names = AllNames("ab/x-", 5);
  const std::vector<std::string_view> views(names.begin(), names.end());
  int proven = 0;
  int given = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<std::string> texts;
    while (texts.size() < 4) {
      std::string text = maker.SmallPattern(2);
      Findings ignored;
      const Pattern pattern{text, {}, '/'};
      if (Matcher::Compile({&pattern, 1}, ignored)) texts.push_back(text);
    }
    const Matcher matcher = Compiled(texts);
    const Matches matches = matcher.Match(views, '/', {.engine = Engine::kRe2});
    Prover prover(matcher);
    for (uint32_t rule = 0; rule < texts.size(); ++rule) {
      CAPTURE(texts);
      CAPTURE(rule);
      const RuleProof proof = prover.ProveRule(rule);
      size_t shortest = 0;
      bool found = false;
      for (size_t i = names.size(); i > 0;) {
        --i;
        if (matches.first[i] == static_cast<int32_t>(rule)) {
          shortest = names[i].size();
        }
        const auto all = matches.Of(i);
        found = found || std::find(all.begin(), all.end(), rule) != all.end();
      }
      REQUIRE(proof.kind != RuleProof::Kind::kNotProven);
      if (proof.kind == RuleProof::Kind::kWins) {
        ++given;
        if (shortest > 0) CHECK(proof.name.size() == shortest);
        if (shortest == 0) CHECK(proof.name.size() > 5);
        continue;
      }
      ++proven;
      CHECK(shortest == 0);
      if (proof.kind == RuleProof::Kind::kMatchesNothing) CHECK_FALSE(found);
      for (const Cover& cover : proof.covers) {
        CHECK(matcher.Find(rule, cover.name, '/'));
        for (const Cover& other : proof.covers) {
          CHECK(matcher.Find(other.rule, cover.name, '/').has_value() ==
                (other.rule == cover.rule));
        }
      }
    }
  }
  CHECK(proven > 200);
  CHECK(given > 500);
}

TEST_CASE("random rules: all at once are proven as one by one") {
  PatternMaker maker(10);
  int64_t wins = 0;
  int64_t loses = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> texts;
    std::vector<Pattern> patterns;
    const bool either = maker.Below(2) == 0;
    for (int i = 0; i < 5; ++i) texts.push_back(maker.SmallPattern(2));
    for (const std::string& text : texts) {
      patterns.push_back({text, {}, either && maker.Below(2) == 0 ? '.' : '/'});
    }
    Findings ignored;
    const auto matcher = Matcher::Compile(patterns, ignored);
    if (!matcher) continue;
    CAPTURE(texts);
    Prover at_once(*matcher);
    Prover each(*matcher);
    const std::vector<RuleProof> proofs = at_once.ProveRules();
    REQUIRE(proofs.size() == texts.size());
    for (uint32_t rule = 0; rule < texts.size(); ++rule) {
      const RuleProof proof = each.ProveRule(rule);
      CHECK(proofs[rule].kind == proof.kind);
      CHECK(proofs[rule].name == proof.name);
      CHECK(proofs[rule].covers.size() == proof.covers.size());
      ++(proof.kind == RuleProof::Kind::kWins ? wins : loses);
    }
  }
  CHECK(wins > 200);
  CHECK(loses > 100);
}

TEST_CASE("random pairs: relations agree with trying all short names") {
  PatternMaker maker(8);
  const std::vector<std::string> names = AllNames("ab/x-", 5);
  const std::vector<std::string_view> views(names.begin(), names.end());
  std::vector<int> kinds(6);
  for (int round = 0; round < 600; ++round) {
    const std::vector<std::string> texts = {maker.SmallPattern(2),
                                            maker.SmallPattern(2)};
    Findings ignored;
    const std::vector<Pattern> patterns = {{texts[0], {}, '/'},
                                           {texts[1], {}, '/'}};
    if (!Matcher::Compile(patterns, ignored)) continue;
    const Matcher matcher = Compiled(texts);
    const Matches matches = matcher.Match(views, '/', {.engine = Engine::kRe2});
    Prover prover(matcher);
    const PairProof proof = prover.ProvePair(0, 1);
    CAPTURE(texts);
    ++kinds[static_cast<size_t>(proof.kind)];
    // The length of the shortest name by the rules that match it: 1 the first
    // only, 2 the second only, 3 both.
    std::vector<size_t> shortest(4);
    for (size_t i = names.size(); i > 0;) {
      --i;
      size_t bits = 0;
      for (uint32_t rule : matches.Of(i)) bits |= size_t{1} << rule;
      shortest[bits] = names[i].size();
    }
    const auto agrees = [&](const std::string& name, size_t bits) {
      if (shortest[bits] > 0) return name.size() == shortest[bits];
      return name.empty() || name.size() > 5;
    };
    CHECK(agrees(proof.both, 3));
    if (proof.kind == PairProof::Kind::kApart) continue;
    CHECK(agrees(proof.only_first, 1));
    CHECK(agrees(proof.only_second, 2));
  }
  for (size_t kind = 0; kind < 5; ++kind) {
    CAPTURE(kind);
    CHECK(kinds[kind] > 10);
  }
}

// Returns random rules with `^`, `$` and literal ends; some lists have rules
// with both separators.
std::vector<Pattern> RandomEnds(PatternMaker& maker,
                                std::vector<std::string>& texts) {
  const bool either = maker.Below(3) == 0;
  texts.clear();
  for (int rule = 0; rule < 6; ++rule) {
    std::string text = maker.Below(3) == 0 ? "^" : "";
    for (uint32_t part = maker.Below(4); part > 0; --part) {
      text += std::vector<std::string>{"a", "b", "/", "\\."}[maker.Below(4)];
    }
    if (maker.Below(2) == 0) text += maker.SmallPattern(1);
    for (uint32_t part = maker.Below(3); part > 0; --part) {
      text += std::vector<std::string>{"a", "b", "/", "\\."}[maker.Below(4)];
    }
    texts.push_back(text + (maker.Below(3) > 0 ? "$" : ""));
  }
  std::vector<Pattern> out;
  for (const std::string& text : texts) {
    out.push_back({text, {}, either && maker.Below(2) == 0 ? '.' : '/'});
  }
  return out;
}

TEST_CASE("random rules: the pairs are those of asking for each pair") {
  PatternMaker maker(9);
  int64_t related = 0;
  int64_t apart = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<std::string> texts;
    const std::vector<Pattern> patterns = RandomEnds(maker, texts);
    Findings ignored;
    const auto matcher = Matcher::Compile(patterns, ignored);
    if (!matcher) continue;
    CAPTURE(texts);
    Prover all(*matcher);
    const RelatedRules found = ProvePairs(all);
    Prover each(*matcher);
    RelatedRules expected;
    for (uint32_t second = 0; second < texts.size(); ++second) {
      for (uint32_t first = 0; first < second; ++first) {
        PairProof proof = each.ProvePair(first, second);
        if (proof.kind == PairProof::Kind::kApart) {
          ++expected.pairs_apart;
        } else if (proof.kind != PairProof::Kind::kNotProven) {
          expected.pairs.push_back({first, second, std::move(proof)});
        }
      }
    }
    CHECK(found.pairs_apart == expected.pairs_apart);
    REQUIRE(found.pairs.size() == expected.pairs.size());
    for (size_t i = 0; i < found.pairs.size(); ++i) {
      CHECK(found.pairs[i].first == expected.pairs[i].first);
      CHECK(found.pairs[i].second == expected.pairs[i].second);
      CHECK(found.pairs[i].proof.kind == expected.pairs[i].proof.kind);
      CHECK(found.pairs[i].proof.both == expected.pairs[i].proof.both);
    }
    related += static_cast<int64_t>(found.pairs.size());
    apart += found.pairs_apart;
  }
  CHECK(related > 1000);
  CHECK(apart > 500);
}

TEST_CASE("without work left, literal ends still exclude pairs") {
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) {
    texts.push_back("w" + std::to_string(1000 + i) + "/kernel$");
  }
  texts.emplace_back("kernel$");
  const Matcher matcher = Compiled(texts);
  Prover prover(matcher, {.work = 0});
  const RelatedRules related = ProvePairs(prover);
  CHECK(related.pairs.empty());
  CHECK(related.pairs_apart == 300 * 299 / 2);
  CHECK(related.pairs_not_proven == 300);
}

}  // namespace
}  // namespace shardc
