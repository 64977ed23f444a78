// Runs the recorded vectors of the families match and correct.
#include "reference/legalize.h"
#include "reference/match.h"
#include "vectors.h"

namespace shardc::vectors {
namespace {

using reference::Error;
using reference::Failure;
using reference::PartitionSpec;

reference::Result<std::vector<reference::PartitionRule>> ToRules(
    JsonValue json) {
  std::vector<reference::PartitionRule> rules;
  for (JsonValue rule : json.items()) {
    auto spec = reference::MakePartitionSpec(ToValues(At(rule, "spec")));
    if (const Error* error = Failure(spec)) return *error;
    rules.push_back({std::string(StringAt(rule, "pattern")),
                     std::get<PartitionSpec>(std::move(spec))});
  }
  return rules;
}

reference::Result<reference::Specs> Match(JsonValue input) {
  auto rules = ToRules(At(input, "rules"));
  if (const Error* error = Failure(rules)) return *error;
  const auto& list = std::get<std::vector<reference::PartitionRule>>(rules);
  const reference::Tree tree = ToTree(At(input, "tree"));
  if (StringAt(input, "impl") == "fjformer") {
    return reference::MatchFjformer(list, tree);
  }
  reference::EformerOptions options;
  if (auto strict = input.Find("strict")) options.strict = strict->boolean();
  if (auto size = input.Find("min_size")) {
    options.min_size =
        size->IsNull() ? reference::kMinShardingSize : size->integer();
  }
  return reference::MatchEformer(list, tree, options);
}

Verdict RunMatch(JsonValue test) {
  const auto result = Match(At(test, "input"));
  auto expected_error = test.Find("error");
  if (const Error* error = Failure(result)) {
    // Such patterns are counted separately, to show if one is wrongly
    // classified as Python-only.
    if (error->kind == "python_only_syntax" && !expected_error) {
      return {Outcome::kPythonOnly, {}};
    }
    return expected_error ? CompareError(*error, *expected_error)
                          : Fail("error " + error->message);
  }
  if (expected_error)
    return Fail("no error, expected " + Text(*expected_error));
  const auto& specs = std::get<reference::Specs>(result);
  const JsonValue expected = At(At(test, "expect"), "specs");
  if (specs.size() != expected.size()) return Fail("number of paths");
  for (JsonMember member : expected.members()) {
    auto it = specs.find(std::string(member.name()));
    if (it == specs.end()) return Fail("no " + std::string(member.name()));
    Verdict verdict = CompareValues(it->second, member.value, it->first);
    if (verdict.outcome != Outcome::kPassed) return verdict;
  }
  return Pass();
}

Verdict RunNamedSharding(JsonValue test) {
  const JsonValue input = At(test, "input");
  auto raise = input.Find("raise_mesh_error");
  const auto result = reference::CorrectedNamedSharding(
      ToShape(At(input, "shape")), ToValues(At(input, "spec")),
      ToMesh(At(input, "mesh")), !raise || raise->boolean());
  auto expected_error = test.Find("error");
  if (const Error* error = Failure(result)) {
    return expected_error ? CompareError(*error, *expected_error)
                          : Fail("error " + error->message);
  }
  const auto& spec = std::get<PartitionSpec>(result);
  if (expected_error) return Fail("no error, got " + Text(spec));
  return CompareValues(spec, At(At(test, "expect"), "spec"), "spec");
}

Verdict RunConstraint(JsonValue test) {
  const JsonValue input = At(test, "input");
  const auto result = reference::ShardingConstraint(ToShape(At(input, "shape")),
                                                    ToValues(At(input, "spec")),
                                                    ToMesh(At(input, "mesh")));
  auto expected_error = test.Find("error");
  if (const Error* error = Failure(result)) {
    return expected_error ? CompareError(*error, *expected_error)
                          : Fail("error " + error->message);
  }
  const auto& applied = std::get<std::optional<PartitionSpec>>(result);
  if (expected_error) return Fail("no error");
  const JsonValue expect = At(test, "expect");
  if (applied.has_value() != At(expect, "applied").boolean()) {
    return Fail("applied");
  }
  if (!applied) return Pass();
  return CompareValues(*applied, At(expect, "spec"), "spec");
}

Verdict RunCorrect(JsonValue test) {
  const auto op = StringAt(At(test, "input"), "op");
  if (op == "named_sharding") return RunNamedSharding(test);
  if (op == "constraint") return RunConstraint(test);
  return Fail("op " + std::string(op) + " is not known");
}

}  // namespace

Runner MatchFamily() { return RunMatch; }
Runner CorrectFamily() { return RunCorrect; }

}  // namespace shardc::vectors
