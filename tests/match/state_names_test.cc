#include "match/sketch.h"

#include <doctest/doctest.h>

#include <string>

namespace shardc {
namespace {

using Views = std::vector<std::string_view>;

std::vector<MissedState> Missed(const Views& texts, const Views& names,
                                char separator = '/') {
  std::vector<Pattern> patterns;
  for (std::string_view text : texts) patterns.push_back({text, {}, separator});
  Findings findings;
  auto matcher = Matcher::Compile(patterns, findings);
  REQUIRE(matcher);
  return FindMissedStates(texts, matcher->Match(names, separator), names,
                          separator);
}

TEST_CASE("patterns that are anchored at the start are recognised") {
  for (std::string_view pattern :
       {"^model", "\\Amodel", "(^model/a)", "(?:^model)", "(?i)^model",
        "(?P<n>^a)b", "^(a|b)$", "^[|]a"}) {
    CAPTURE(pattern);
    CHECK(IsAnchoredAtStart(pattern));
  }
  for (std::string_view pattern :
       {"model", "", "a^b", "^a|b", "(a)^", "\\^a", "[^a]b", ".*^", "("}) {
    CAPTURE(pattern);
    CHECK_FALSE(IsAnchoredAtStart(pattern));
  }
}

const Views kState = {
    "step",
    "params/model/layers/0/kernel",
    "params/model/norm/scale",
    "opt_state/0/count",
    "opt_state/0/mu/model/layers/0/kernel",
    "opt_state/0/nu/model/layers/0/kernel/value",
    "opt_state/0/mu/model/norm/scale",
};

TEST_CASE("a pattern that is searched anywhere matches the moments") {
  CHECK(Missed({"layers/0/kernel", "norm/scale$", ".*"}, kState).empty());
}

TEST_CASE("a pattern anchored at the start does not match the moments") {
  const auto missed =
      Missed({"^params/model/layers", "norm/scale$", ".*"}, kState);
  REQUIRE(missed.size() == 2);
  CHECK(missed[0] == MissedState{0, 1, 4});
  CHECK(missed[1] == MissedState{0, 1, 5});
  CHECK(Missed({"^(params|opt_state)/.*layers", ".*"}, kState).empty());
}

TEST_CASE("names that contain each other without the prefix params") {
  const Views names = {"model.a.weight", "exp_avg.model.a.weight",
                       "exp_avg.model.ba.weight", "step"};
  const auto missed = Missed({"^model\\."}, names, '.');
  REQUIRE(missed.size() == 1);
  CHECK(missed[0] == MissedState{0, 0, 1});
}

TEST_CASE("a module that ends in the path of a parameter is no state") {
  const Views names = {"norm.weight",
                       "embed.weight",
                       "layers.0.norm.weight",
                       "layers.0.q.weight",
                       "layers.0.k.weight",
                       "exp_avg.norm.weight",
                       "exp_avg.embed.weight",
                       "exp_avg.layers.0.norm.weight",
                       "exp_avg.layers.0.q.weight",
                       "exp_avg.layers.0.k.weight"};
  const auto missed = Missed({"^norm", "."}, names, '.');
  REQUIRE(missed.size() == 1);
  CHECK(missed[0] == MissedState{0, 0, 5});
  CHECK(Missed({"^norm", "."}, Views(names.begin(), names.begin() + 5), '.')
            .empty());
}

TEST_CASE("a tree without states has no missed states") {
  const Views names = {"model/a", "model/b", "a"};
  // `model/a` ends in the path `a`, but the rule that wins `a` is not anchored.
  CHECK(Missed({"^model", "a"}, names).empty());
  CHECK(Missed({}, names).empty());
}

}  // namespace
}  // namespace shardc
