#include "plan/nearest.h"

#include <doctest/doctest.h>

#include <string>

namespace shardc {
namespace {

std::vector<Rule> RulesOf(std::initializer_list<const char*> patterns) {
  std::vector<Rule> rules;
  for (const char* pattern : patterns) rules.emplace_back().match = pattern;
  return rules;
}

// Returns for example `1: up|gate -> moe/gate/kernel`; `-` for nullopt.
std::string Text(const std::optional<NearRule>& near) {
  if (!near) return "-";
  return std::to_string(near->rule) + ": " + near->written + "|" + near->found +
         (near->rewrite.empty() ? "" : " -> " + near->rewrite);
}

TEST_CASE("one part may differ, and two must be equal") {
  const auto rules = RulesOf({"mlp/up/kernel", "moe/(up|down)/kernel$",
                              "experts/\\d+/w1/bias", "norm", ".*"});
  const NearestRules nearest(rules, {}, '/');
  struct Case {
    const char* name;
    const char* near;
  };
  const Case cases[] = {
      {"ffn/up/kernel", "0: mlp|ffn -> ffn/up/kernel"},
      // The words of rule 0 are longer, but only one of its parts agrees.
      {"layers/7/moe/gate/kernel", "1: up|gate -> moe/(gate|down)/kernel$"},
      // The name may have one part more at its end, not two.
      {"moe/gate/kernel/scale", "1: up|gate -> moe/(gate|down)/kernel$"},
      {"moe/gate/kernel/scale/0", "-"},
      // Digits match any number. If the parts that differ are digits, no
      // rewritten pattern is suggested.
      {"experts/31/w2/bias", "2: w1|w2 -> experts/\\d+/w2/bias"},
      {"layers/0/mlp/3/kernel", "0: up|*"},
      {"layers/attn/kernel", "-"},
      {"visual/patch/position", "-"},
      {"norm", "-"},
      {"", "-"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    CHECK(Text(nearest.Of(c.name)) == c.near);
  }
}

TEST_CASE("a number in a pattern is any number of the name") {
  const auto rules = RulesOf({"^h/0/attn/c_atn/weight$", "1/mlp/c_fc/wieght"});
  const NearestRules nearest(rules, {}, '/');
  CHECK(Text(nearest.Of("h/0/attn/c_attn/weight")) ==
        "0: c_atn|c_attn -> ^h/0/attn/c_attn/weight$");
  CHECK(Text(nearest.Of("h/7/attn/c_attn/weight")) ==
        "0: c_atn|c_attn -> ^h/0/attn/c_attn/weight$");
  CHECK(Text(nearest.Of("h/1/mlp/c_fc/weight")) ==
        "1: wieght|weight -> 1/mlp/c_fc/weight");
}

TEST_CASE(
    "dead rules are nearest, then more equal parts, fewer edits, untaken "
    "rules, "
    "a longer end") {
  const auto rules =
      RulesOf({"a/b/x/d", "b/x/d", "c/b/x/d", "b/c/y", "a/b/c/y"});
  Matches matches;
  matches.rules = {0, 1, 2};
  const NearestRules some(rules, matches, '/');
  CHECK(some.Of("a/b/c/d")->rule == 4);  // dead, and more of it agrees
  CHECK(some.Of("q/b/c/d")->rule == 3);  // dead, though [1] agrees as much
  const NearestRules all(rules, {}, '/');
  CHECK(all.Of("a/b/c/d")->rule == 0);  // as many agree, and the end does
  CHECK(all.Of("q/b/c/d")->rule == 1);
  const auto alike = RulesOf({"a/b/x", "a/b/y"});
  const NearestRules twins(alike, {}, '/');
  CHECK(twins.Of("a/b/z")->rule == 0);
  CHECK(twins.Of("a/b/z", NearestRules::Among::kAll, {0})->rule == 1);
  CHECK(twins.Of("a/b/z", NearestRules::Among::kAll, {0, 1})->rule == 0);
  Matches most;
  most.rules = {0, 1, 2, 3, 4};
  const NearestRules none_dead(rules, most, '/');
  CHECK(none_dead.Of("q/b/c/d")->rule == 1);
  CHECK_FALSE(none_dead.Of("q/b/c/d", NearestRules::Among::kDead));
}

TEST_CASE("a typing error comes first, and needs no second equal part") {
  const auto rules = RulesOf({"layers/\\d+/mlp/c_proj/kernel", "atn/c_proj",
                              "embed_tokns", "q_porj/kernel", "head"});
  const NearestRules nearest(rules, {}, '/');
  CHECK(Text(nearest.Of("layers/0/attn/c_proj/kernel")) ==
        "1: atn|attn -> attn/c_proj");
  CHECK(Text(nearest.Of("model/embed_tokens")) ==
        "2: embed_tokns|embed_tokens -> embed_tokens");
  CHECK(Text(nearest.Of("attn/q_proj/kernel")) ==
        "3: q_porj|q_proj -> q_proj/kernel");
  CHECK(Text(nearest.Of("attn/k_proj/bias")) == "-");
  CHECK(Text(nearest.Of("model/hidden")) == "-");
}

TEST_CASE("each side is split at its own separator") {
  auto rules = RulesOf({"mlp\\.up\\.weight$", "attn.q.weight"});
  for (Rule& rule : rules) rule.separator = '.';
  const NearestRules nearest(rules, {}, '/');
  CHECK(Text(nearest.Of("layers/0/ffn/up/weight")) ==
        "0: mlp|ffn -> ffn\\.up\\.weight$");
  CHECK(nearest.Of("layers/0/attn/k/weight")->rule == 1);
  const NearestRules none(rules, {}, 0);
  CHECK_FALSE(none.Of("layers.0.ffn.up.weight"));
}

}  // namespace
}  // namespace shardc
