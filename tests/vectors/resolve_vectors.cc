// Runs the recorded vectors of the families resolve, register, bundles,
// attn_rules and logical_rules.
#include "reference/legalize.h"
#include "reference/logical_rules.h"
#include "reference/resolve.h"
#include "vectors.h"

namespace shardc::vectors {
namespace {

using reference::DynamicAxes;
using reference::Error;
using reference::Failure;
using reference::Get;
using reference::PartitionAxis;
using reference::PartitionSpec;
using reference::Registry;
using reference::Value;

// Compares the raw axes, and the spec made from them, or the error of either
// step.
Verdict CompareResolution(const PartitionAxis& axis, const Registry& registry,
                          JsonValue input, JsonValue holder) {
  const auto axes =
      reference::ResolveAxis(axis, registry, ToValues(At(input, "axes"), true),
                             StringAt(input, "mode"));
  const auto expected_error = holder.Find("error");
  if (const Error* error = Failure(axes)) {
    if (!expected_error) return Fail("error " + error->message);
    return CompareError(*error, *expected_error);
  }
  const auto& raw = std::get<std::vector<Value>>(axes);
  if (expected_error) return Fail("no error, got " + Text(raw));
  const JsonValue expect = holder.Find("expect").value_or(holder);
  Verdict verdict = CompareValues(raw, At(expect, "axes"), "axes");
  if (verdict.outcome != Outcome::kPassed) return verdict;
  const auto spec = reference::MakePartitionSpec(raw);
  if (const Error* error = Failure(spec)) {
    auto spec_error = expect.Find("spec_error");
    return spec_error ? CompareError(*error, *spec_error)
                      : Fail("spec error " + error->message);
  }
  auto wanted = expect.Find("spec");
  if (!wanted) return Fail("no spec error");
  return CompareValues(std::get<PartitionSpec>(spec), *wanted, "spec");
}

reference::ModeArgument ToMode(JsonValue json) {
  if (json.IsString()) return std::string(json.string());
  // In Python, True and False are 1 and 0.
  if (json.kind() == JsonKind::kBool) return int64_t{json.boolean() ? 1 : 0};
  if (json.IsNull()) return std::string();
  return json.integer();
}

DynamicAxes ToDynamicAxes(JsonValue json) {
  return {ToValues(At(json, "axes"), true), ToMode(At(json, "mode"))};
}

Verdict CompareManager(
    const reference::Result<reference::ManagerResult>& result, JsonValue test) {
  auto expected_error = test.Find("error");
  auto expect = test.Find("expect");
  if (!expected_error && expect) expected_error = expect->Find("spec_error");
  if (const Error* error = Failure(result)) {
    if (!expected_error) return Fail("error " + error->message);
    return CompareError(*error, *expected_error);
  }
  const auto& manager = std::get<reference::ManagerResult>(result);
  if (expected_error) return Fail("no error, got " + Text(manager.spec));
  if (!expect) return Fail("no `expect`");
  if (manager.effective_mode != StringAt(*expect, "effective_mode")) {
    return Fail("effective mode " + manager.effective_mode);
  }
  return CompareValues(manager.spec, At(*expect, "spec"), "spec");
}

Verdict RunManager(JsonValue test) {
  const JsonValue input = At(test, "input");
  reference::ResolveCall call;
  if (auto axes = input.Find("axes"); axes && axes->IsArray()) {
    call.axes = ToValues(*axes, true);
  }
  if (auto mode = input.Find("mode")) call.mode = ToMode(*mode);
  if (auto shape = input.Find("shape"); shape && shape->IsArray()) {
    call.shape = ToShape(*shape);
  }
  if (auto dynamic = input.Find("dynamic_axes")) {
    if (dynamic->IsNull()) {
      call.dynamic_axes_none = true;
    } else {
      call.dynamic_axes = ToDynamicAxes(*dynamic);
    }
  }
  return CompareManager(
      reference::Resolve(ToPartitionAxis(input), Registry(), call), test);
}

Verdict RunResolve(JsonValue test) {
  const JsonValue input = At(test, "input");
  const auto op = StringAt(input, "op");
  if (op == "resolve_axis") {
    return CompareResolution(ToPartitionAxis(input), Registry(), input, test);
  }
  if (op == "manager_resolve") return RunManager(test);
  return Fail("op " + std::string(op) + " is not known");
}

// Compares the registry with a recorded list of its entries.
Verdict CompareListing(const Registry& registry, JsonValue expected) {
  if (expected.size() != registry.entries().size()) {
    return Fail("registered " + std::to_string(registry.entries().size()));
  }
  for (JsonMember member : expected.members()) {
    const auto* entry = registry.Find(member.name());
    if (entry == nullptr) return Fail("missing " + std::string(member.name()));
    if (!Same(entry->rule, At(member.value, "axis_rule"))) {
      return Fail("axis_rule " + Text(entry->rule));
    }
    auto generation = member.value.Find("generation_axis_rule");
    if (generation.has_value() != entry->generation.has_value() ||
        (generation && !Same(*entry->generation, *generation))) {
      return Fail("generation_axis_rule of " + std::string(member.name()));
    }
  }
  return Pass();
}

Verdict CompareStep(const std::optional<Error>& error, JsonValue expected) {
  auto expected_error = expected.Find("error");
  if (!error) return expected_error ? Fail("no error") : Pass();
  if (!expected_error) return Fail("error " + error->message);
  return CompareError(*error, *expected_error);
}

bool Flag(JsonValue step, std::string_view key, bool otherwise) {
  auto flag = step.Find(key);
  return flag ? flag->boolean() : otherwise;
}

Verdict RunStep(const PartitionAxis& axis, Registry& registry, JsonValue step,
                JsonValue expected) {
  const auto op = StringAt(step, "op");
  if (op == "register") {
    std::optional<Value> generation;
    if (auto given = step.Find("generation_rule")) generation = ToValue(*given);
    return CompareStep(
        registry.Register(StringAt(step, "name"), ToValue(At(step, "rule")),
                          std::move(generation), Flag(step, "override", false)),
        expected);
  }
  if (op == "unregister") {
    return CompareStep(registry.Unregister(StringAt(step, "name"),
                                           Flag(step, "missing_ok", true)),
                       expected);
  }
  if (op == "clear") {
    registry.Clear();
    return Pass();
  }
  if (op == "list") {
    return CompareListing(registry, At(expected, "registered"));
  }
  if (op == "resolve") {
    return CompareResolution(axis, registry, step, expected);
  }
  return Fail("step " + std::string(op) + " is not known");
}

Verdict RunRegister(JsonValue test) {
  const JsonValue input = At(test, "input");
  const PartitionAxis axis = ToPartitionAxis(input);
  Registry registry;
  std::vector<JsonValue> expected;
  for (JsonValue step : At(At(test, "expect"), "steps").items()) {
    expected.push_back(step);
  }
  size_t i = 0;
  for (JsonValue step : At(input, "steps").items()) {
    if (i >= expected.size()) return Fail("more steps than results");
    Verdict verdict = RunStep(axis, registry, step, expected[i]);
    if (verdict.outcome != Outcome::kPassed) {
      verdict.why = "step " + std::to_string(i) + ": " + verdict.why;
      return verdict;
    }
    ++i;
  }
  return Pass();
}

// Compares the axes and the mode of a bundle with the recorded ones.
Verdict CompareBundle(const DynamicAxes& bundle, JsonValue expect) {
  Verdict verdict = CompareValues(bundle.axes, At(expect, "axes"), "axes");
  if (verdict.outcome != Outcome::kPassed) return verdict;
  if (bundle.mode != ToMode(At(expect, "bundle_mode"))) {
    return Fail("bundle_mode");
  }
  return Pass();
}

Verdict CompareCorrected(const PartitionSpec& spec, JsonValue input,
                         JsonValue expect) {
  auto wanted = expect.Find("corrected_spec");
  auto wanted_error = expect.Find("corrected_error");
  if (!wanted && !wanted_error) return Pass();
  const auto corrected = reference::CorrectedNamedSharding(
      ToShape(At(input, "shape")), spec, ToMesh(At(input, "mesh")));
  if (const Error* error = Failure(corrected)) {
    return wanted_error ? CompareError(*error, *wanted_error)
                        : Fail("corrected: " + error->message);
  }
  if (!wanted) return Fail("no error when corrected");
  return CompareValues(std::get<PartitionSpec>(corrected), *wanted,
                       "corrected");
}

Verdict RunBundles(JsonValue test) {
  const JsonValue input = At(test, "input");
  const auto name = StringAt(input, "bundle");
  // Only the base class takes its fields from the case; other bundles are found
  // by name.
  auto bundle = name == "DynamicShardingAxes"
                    ? std::optional(ToDynamicAxes(At(input, "instance")))
                    : reference::FindDynamicAxes(name);
  if (!bundle) return Fail("no bundle " + std::string(name));
  auto expect = test.Find("expect");
  if (expect) {
    Verdict verdict = CompareBundle(*bundle, *expect);
    if (verdict.outcome != Outcome::kPassed) return verdict;
  }
  reference::ResolveCall call;
  if (StringAt(input, "via") == "axes") {
    call.axes_bundle = bundle;
  } else {
    call.dynamic_axes = bundle;
  }
  if (auto mode = input.Find("mode_argument")) call.mode = ToMode(*mode);
  if (auto shape = input.Find("shape"); shape && shape->IsArray()) {
    call.shape = ToShape(*shape);
  }
  const auto result =
      reference::Resolve(ToPartitionAxis(input), Registry(), call);
  Verdict verdict = CompareManager(result, test);
  const auto* manager = Get<reference::ManagerResult>(result);
  if (verdict.outcome != Outcome::kPassed || manager == nullptr) {
    return verdict;
  }
  return CompareCorrected(manager->spec, input, *expect);
}

Verdict RunAttention(JsonValue test) {
  const JsonValue input = At(test, "input");
  reference::AttentionCall call;
  call.mode = ToMode(At(input, "mode"));
  call.layout = StringAt(input, "layout");
  call.mni = Flag(input, "qkv_mni_sharding", false);
  auto aux = input.Find("softmax_aux_ndim");
  if (aux && !aux->IsNull()) call.softmax_aux_ndim = aux->integer();
  const auto result =
      reference::AttentionShardings(ToPartitionAxis(input), Registry(), call);
  auto expected_error = test.Find("error");
  if (const Error* error = Failure(result)) {
    return expected_error ? CompareError(*error, *expected_error)
                          : Fail("error " + error->message);
  }
  if (expected_error) return Fail("no error");
  const JsonValue expect = At(test, "expect");
  const auto& specs = std::get<std::vector<reference::AttentionSpec>>(result);
  if (specs.size() != expect.size()) return Fail("number of specs");
  for (const auto& [name, spec] : specs) {
    const JsonValue wanted = At(expect, name);
    if (!spec) {
      if (!wanted.IsNull()) return Fail(std::string(name) + " is absent");
      continue;
    }
    Verdict verdict = CompareValues(*spec, wanted, name);
    if (verdict.outcome != Outcome::kPassed) return verdict;
  }
  return Pass();
}

// Reads an entry of a spec as a group. A single axis may be written as a
// string.
AxisGroup ToGroup(JsonValue json) {
  if (json.IsString()) return {std::string(json.string())};
  return json.IsArray() ? ToStrings(json) : AxisGroup{};
}

Verdict RunLogical(JsonValue test) {
  Mesh mesh;
  for (JsonValue axis : At(At(test, "mesh"), "axes").items()) {
    mesh.axes.push_back(
        {std::string(StringAt(axis, "name")), At(axis, "size").integer()});
  }
  std::vector<reference::LogicalRule> rules;
  for (JsonValue pair : At(test, "rules").items()) {
    auto it = pair.items().begin();
    reference::LogicalRule rule;
    rule.name = (*it).string();
    ++it;
    rule.axes = ToGroup(*it);
    rules.push_back(std::move(rule));
  }
  for (JsonValue param : At(test, "params").items()) {
    std::vector<std::optional<std::string>> names;
    for (JsonValue name : At(param, "logical").items()) {
      names.push_back(name.IsString()
                          ? std::optional(std::string(name.string()))
                          : std::nullopt);
    }
    Spec expected;
    for (JsonValue entry : At(param, "spec").items()) {
      expected.push_back(ToGroup(entry));
    }
    Spec spec = reference::ResolveLogicalAxes(rules, names, mesh);
    expected.resize(spec.size());  // trailing nulls may be absent
    if (spec != expected) {
      return Fail(std::string(StringAt(param, "name")) + ": " + SpecText(spec) +
                  ", expected " + SpecText(expected));
    }
  }
  return Pass();
}

}  // namespace

Runner ResolveFamily() { return RunResolve; }
Runner RegisterFamily() { return RunRegister; }
Runner BundlesFamily() { return RunBundles; }
Runner AttentionFamily() { return RunAttention; }
Runner LogicalFamily() { return RunLogical; }

}  // namespace shardc::vectors
