#include "plan/nearest.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "model/name.h"
#include "source/wording.h"

namespace shardc {
namespace {

using Random = std::mt19937;

template <class List>
auto Drawn(Random& random, const List& list) {
  return list[random() % list.size()];
}

const std::vector<std::string> kWords = {
    "attn",   "atn",    "mlp",  "mpl",  "q_proj", "q_porj", "k_proj", "kernel",
    "kernle", "kernal", "bias", "baes", "w1",     "w2",     "experts"};

std::string RandomPattern(Random& random) {
  static const std::vector<std::string> kWild = {
      ".*", "\\d+", "(up|down)", "q.proj", "[^/]+", "x?", "(q|k)_proj", ""};
  std::string out = random() % 8 == 0 ? "^" : "";
  const size_t parts = 1 + random() % 5;
  for (size_t i = 0; i < parts; ++i) {
    if (i > 0) out += '/';
    out += Drawn(random, random() % 5 == 0 ? kWild : kWords);
  }
  return out + (random() % 4 == 0 ? "$" : "");
}

std::string RandomName(Random& random) {
  std::string out;
  const size_t parts = 1 + random() % 5;
  for (size_t i = 0; i < parts; ++i) {
    if (i > 0) out += '/';
    out += random() % 6 == 0 ? std::to_string(random() % 20)
                             : Drawn(random, kWords);
  }
  return out;
}

// Returns whether a name is near a rule, by the definition in plan/nearest.h.
bool IsNear(const std::string& pattern, const std::string& name) {
  const Sketch sketch = SketchOf(pattern);
  const std::string general = NameTemplate(name, '/');
  const std::vector<std::string_view> words = SplitName(general, '/');
  for (const std::string& text : sketch.texts) {
    const std::vector<std::string> parts = SketchSegments(text, '/');
    for (size_t skip = 0; skip < std::min<size_t>(words.size(), 2); ++skip) {
      int equal = 0;
      std::vector<std::pair<std::string, std::string>> differ;
      for (size_t i = 0; i < std::min(parts.size(), words.size() - skip); ++i) {
        const std::string& part = parts[parts.size() - 1 - i];
        const std::string word(words[words.size() - 1 - skip - i]);
        if (part.empty()) continue;
        std::string marked = part;
        const std::string wild(1, Sketch::kWild);
        if (i + 1 == parts.size() && !sketch.begin_anchor) marked = wild + part;
        if (i == 0 && !sketch.end_anchor) marked += wild;
        if (!SketchFits(marked, word)) {
          differ.emplace_back(part, word);
        } else if (marked.find_first_not_of("\x01\x02") != marked.npos) {
          ++equal;
        }
      }
      if (differ.size() != 1) continue;
      const auto& [written, found] = differ[0];
      const int64_t edits = PartEdits(written, found);
      const auto longest =
          static_cast<int64_t>(std::max(written.size(), found.size()));
      if (equal >= 2 || (edits <= 2 && 3 * edits <= longest)) return true;
    }
  }
  return false;
}

std::vector<Rule> RandomRules(Random& random, size_t count) {
  std::vector<Rule> rules(count);
  for (Rule& rule : rules) rule.match = RandomPattern(random);
  return rules;
}

TEST_CASE("a rule is found for a name if a comparison of all parts finds it") {
  Random random(1);
  int near = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::vector<Rule> rules = RandomRules(random, 1);
    const std::string name = RandomName(random);
    CAPTURE(rules[0].match);
    CAPTURE(name);
    const bool expected = IsNear(rules[0].match, name);
    near += expected ? 1 : 0;
    REQUIRE(NearestRules(rules, {}, '/').Of(name).has_value() == expected);
  }
  CHECK(near > 500);
}

TEST_CASE("the nearest of many rules is the best of those found one by one") {
  Random random(2);
  const auto order = [](const NearRule& near) {
    const int64_t edits = PartEdits(near.written, near.found);
    const bool typing_error = IsTypingError(near.written, near.found);
    return std::tuple(typing_error, typing_error ? -edits : 0, near.matched,
                      near.run, -edits);
  };
  for (int i = 0; i < 300; ++i) {
    const std::vector<Rule> rules = RandomRules(random, 60);
    const NearestRules all(rules, {}, '/');
    const std::string name = RandomName(random);
    CAPTURE(name);
    std::optional<NearRule> best;
    for (size_t r = 0; r < rules.size(); ++r) {
      auto one = NearestRules(std::span(rules).subspan(r, 1), {}, '/').Of(name);
      if (!one || (best && order(*one) <= order(*best))) continue;
      one->rule = static_cast<int32_t>(r);
      best = one;
    }
    const auto found = all.Of(name);
    REQUIRE(found.has_value() == best.has_value());
    if (!best) continue;
    CHECK(found->rule == best->rule);
    CHECK(found->written == best->written);
    CHECK(found->found == best->found);
  }
}

// Work is counted and not timed: with ten times as many rules, no more rules
// are compared with the name.
TEST_CASE("rules without a common part are no candidates") {
  for (const size_t count : {100, 1000, 10000}) {
    std::vector<PatternText> texts;
    for (size_t r = 0; r < count; ++r) {
      const std::string number = std::to_string(r);
      texts.push_back({static_cast<uint32_t>(r),
                       {"block" + number, "unit" + number, "kernel"}});
    }
    const NearestIndex index(texts);
    const std::vector<std::string_view> parts = {"layers", "block7", "unit8",
                                                 "kernel"};
    CAPTURE(count);
    CHECK(index.Candidates(parts).size() <= 30);
  }
}

}  // namespace
}  // namespace shardc
