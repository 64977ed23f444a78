// Tests how parameters with names and specs become rules.
#include "importers/rules/exact.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

namespace shardc::imports {
namespace {

NamedSpec RuleFor(std::string name, Spec spec) {
  NamedSpec out;
  out.name = std::move(name);
  out.spec = std::move(spec);
  return out;
}

// Returns the patterns of the rules that parameters get.
std::vector<std::string> PatternsOf(std::vector<NamedSpec> params) {
  Imported imported;
  Findings findings;
  CHECK(AddExact(std::move(params), imported, findings));
  std::vector<std::string> out;
  for (const ImportedRule& made : imported.rules) {
    out.push_back(made.rule.match);
  }
  return out;
}

size_t RulesOf(const Spec& a, const Spec& b) {
  return PatternsOf({RuleFor("layers/0/w", a), RuleFor("layers/1/w", b)})
      .size();
}

TEST_CASE("layers of one spec get one rule, of other specs a rule each") {
  const Spec split = {{"tp"}, {}};
  CHECK(RulesOf(split, split) == 1);
  CHECK(RulesOf({}, {}) == 1);
  CHECK(RulesOf({{"dp", "tp"}}, {{"dp", "tp"}}) == 1);
  CHECK(RulesOf(split, {{}, {"tp"}}) == 2);
  CHECK(RulesOf(split, {{"tp"}}) == 2);
  CHECK(RulesOf({{"dp", "tp"}}, {{"tp", "dp"}}) == 2);
  CHECK(RulesOf({{"dp", "tp"}}, {{"dp"}}) == 2);
  CHECK(RulesOf(split, {{"tq"}, {}}) == 2);
}

TEST_CASE("a name that occurs twice is reported") {
  Imported imported;
  Findings findings;
  CHECK_FALSE(
      AddExact({RuleFor("a/w", {}), RuleFor("a/w", {})}, imported, findings));
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all()[0].message == "`a/w` is given twice");
}

TEST_CASE("a number is generalised only if two names differ in it") {
  using Patterns = std::vector<std::string>;
  const Spec list = {{"tp"}};
  CHECK(PatternsOf({RuleFor("layers/0/w", list), RuleFor("layers/1/w", list),
                    RuleFor("Dense_0/w", list)}) ==
        Patterns{"^layers/[0-9]+/w$", "^Dense_0/w$"});
}

TEST_CASE("names of key paths lose their brackets and the last `.value`") {
  CHECK(NameOfPath("params['a'][0].kernel") == "a/0/kernel");
  CHECK(NameOfPath("params['a'].value") == "a");
  CHECK(NameOfPath("params['attn']['value']") == "attn/value");
  CHECK(NameOfPath("params['attn']['value'].value") == "attn/value");
  // Keys in quotes are Python's repr.
  CHECK(NameOfPath(R"(params['b\\']['c'])") == R"(b\/c)");
  CHECK(NameOfPath(R"(params['p\'q"']["it's"])") == R"(p'q"/it's)");
  CHECK(NameOfPath(R"(params['p\']"x']['y'])") == R"(p']"x/y)");
  CHECK(NameOfPath(R"(params['never ends\']x)") == R"(params['never ends\']x)");
  CHECK(NameOfPath("a.b") == "a.b");
  CHECK(NameOfPath("blocks[0]/attn/q") == "blocks[0]/attn/q");
}

}  // namespace
}  // namespace shardc::imports
