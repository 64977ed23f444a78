#include "importers/rules/exact.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

namespace shardc::imports {
namespace {

SpecList ListOf(const std::vector<std::vector<std::string>>& dims) {
  SpecList out;
  for (const auto& names : dims) {
    SpecEntry entry;
    for (const std::string& name : names) entry.names.push_back({name, {}});
    entry.is_group = names.size() > 1;
    out.entries.push_back(std::move(entry));
  }
  return out;
}

NamedRule RuleFor(std::string name, SpecSource spec) {
  NamedRule out;
  out.name = std::move(name);
  out.made.rule.spec = std::move(spec);
  return out;
}

// Returns the patterns of the rules that two layers with these specs get.
std::vector<std::string> PatternsOf(std::vector<NamedRule> params) {
  Imported imported;
  Findings findings;
  CHECK(AddExact(std::move(params), imported, findings));
  std::vector<std::string> out;
  for (const ImportedRule& made : imported.rules) {
    out.push_back(made.rule.match);
  }
  return out;
}

size_t RulesOf(const SpecSource& a, const SpecSource& b) {
  return PatternsOf({RuleFor("layers/0/w", a), RuleFor("layers/1/w", b)})
      .size();
}

TEST_CASE("layers of one spec get one rule, of other specs a rule each") {
  const SpecList split = ListOf({{"tp"}, {}});
  CHECK(RulesOf(split, split) == 1);
  CHECK(RulesOf(ListOf({}), ListOf({})) == 1);
  CHECK(RulesOf(ListOf({{"dp", "tp"}}), ListOf({{"dp", "tp"}})) == 1);
  CHECK(RulesOf(split, ListOf({{}, {"tp"}})) == 2);
  CHECK(RulesOf(split, ListOf({{"tp"}})) == 2);
  CHECK(RulesOf(ListOf({{"dp", "tp"}}), ListOf({{"tp", "dp"}})) == 2);
  CHECK(RulesOf(ListOf({{"dp", "tp"}}), ListOf({{"dp"}})) == 2);
  CHECK(RulesOf(split, ListOf({{"tq"}, {}})) == 2);
}

TEST_CASE("bundles are compared by name, and with no list") {
  CHECK(RulesOf(SpecBundle{"ColumnWise", {}}, SpecBundle{"ColumnWise", {}}) ==
        1);
  CHECK(RulesOf(SpecBundle{"ColumnWise", {}}, SpecBundle{"RowWise", {}}) == 2);
  CHECK(RulesOf(SpecBundle{"ColumnWise", {}}, ListOf({{"tp"}})) == 2);
  CHECK(RulesOf(ListOf({{"tp"}}), SpecBundle{"ColumnWise", {}}) == 2);
}

TEST_CASE("specs that copy another parameter's are never joined") {
  CHECK(RulesOf(SpecLike{"a", {}}, SpecLike{"a", {}}) == 2);
}

TEST_CASE("specs of modes have to be equal too") {
  const auto rules = [](Mode a, const SpecSource& spec_a, Mode b,
                        const SpecSource& spec_b) {
    NamedRule first = RuleFor("layers/0/w", ListOf({{"tp"}}));
    NamedRule second = RuleFor("layers/1/w", ListOf({{"tp"}}));
    first.made.rule.modes[a] = spec_a;
    second.made.rule.modes[b] = spec_b;
    return PatternsOf({std::move(first), std::move(second)}).size();
  };
  const SpecList dp = ListOf({{"dp"}}), none = ListOf({{}});
  CHECK(rules(Mode::kDecode, dp, Mode::kDecode, dp) == 1);
  CHECK(rules(Mode::kDecode, dp, Mode::kDecode, none) == 2);
  CHECK(rules(Mode::kDecode, dp, Mode::kInsert, dp) == 2);
}

TEST_CASE("a mesh axis is not joined with an axis rule of the same name") {
  NamedRule first = RuleFor("layers/0/w", ListOf({{"decode_head"}}));
  NamedRule second = first;
  second.name = "layers/1/w";
  const auto change = [](NamedRule& rule) {
    SpecName& name =
        std::get<SpecList>(rule.made.rule.spec).entries[0].names[0];
    name.is_mesh_axis = !name.is_mesh_axis;
  };
  change(second);
  CHECK(PatternsOf({first, second}).size() == 2);
  change(first);
  CHECK(PatternsOf({first, second}).size() == 1);
}

TEST_CASE("a name that occurs twice is reported") {
  Imported imported;
  Findings findings;
  CHECK_FALSE(AddExact({RuleFor("a/w", ListOf({})), RuleFor("a/w", ListOf({}))},
                       imported, findings));
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all()[0].message == "`a/w` is given twice");
}

TEST_CASE("a number is generalised only if two names differ in it") {
  using Patterns = std::vector<std::string>;
  const SpecList list = ListOf({{"tp"}});
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
