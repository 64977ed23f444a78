// Runs the recorded vectors of the family names, and defines the table of
// deliberate differences.
#include "importers/eformer.h"
#include "reference/match.h"
#include "reference/mesh.h"
#include "reference/resolve.h"
#include "vectors.h"

namespace shardc::vectors {
namespace {

using reference::Error;
using reference::Failure;
using reference::PartitionAxis;
using reference::PartitionSpec;
using reference::Value;

constexpr Quirk kQuirks[] = {
    {"remembered-mesh", "mesh",
     "eformer hands out the first mesh it made for given sizes and names, "
     "also when the number of devices is another by then",
     "the mesh is the one for the devices that there are"},
    {"manager-json", "names",
     "eformer's PartitionManager cannot read the JSON that it writes",
     "the importer reads it as the axis rules inside"},
};

// Compares a result with the recorded result or error.
template <class T, class Compare>
Verdict CompareResult(const reference::Result<T>& result, JsonValue test,
                      Compare compare) {
  auto expected_error = test.Find("error");
  if (const Error* error = Failure(result)) {
    if (error->kind == "python_only_syntax" && !expected_error) {
      return {Outcome::kPythonOnly, {}};
    }
    return expected_error ? CompareError(*error, *expected_error)
                          : Fail("error " + error->message);
  }
  if (expected_error) return Fail("no error");
  return compare(std::get<T>(result), At(test, "expect"));
}

// Converts JSON to a value. Specs are normalised as JAX does, and a dictionary
// becomes the tuple of its values.
Value ToNamesValue(JsonValue json) {
  if (json.IsObject()) {
    if (auto spec = json.Find("$spec")) {
      auto made = reference::MakePartitionSpec(ToValues(*spec));
      if (const auto* entries = reference::Get<PartitionSpec>(made)) {
        return Value::Tuple(*entries);
      }
      return Value::None();
    }
    std::vector<Value> values;
    for (JsonMember member : json.members()) {
      values.push_back(ToNamesValue(member.value));
    }
    return Value::Tuple(std::move(values));
  }
  if (!json.IsArray()) return ToValue(json);
  std::vector<Value> values;
  for (JsonValue item : json.items()) values.push_back(ToNamesValue(item));
  return Value::List(std::move(values));
}

Verdict SpecNames(JsonValue test) {
  const auto names =
      reference::NamesIn(ToNamesValue(At(At(test, "input"), "value")));
  const std::vector<std::string> sorted(names.begin(), names.end());
  return sorted == ToStrings(At(At(test, "expect"), "names"))
             ? Pass()
             : Fail("names differ");
}

Verdict InMesh(JsonValue test) {
  const JsonValue input = At(test, "input");
  std::vector<std::string> axes;
  for (const MeshAxis& axis : ToMesh(At(input, "mesh")).axes) {
    axes.push_back(axis.name);
  }
  const bool in_mesh =
      reference::NamesInMesh(ToStrings(At(input, "names")), axes);
  return in_mesh == At(At(test, "expect"), "result").boolean()
             ? Pass()
             : Fail("membership");
}

std::string PathKey(JsonValue element) {
  for (std::string_view key : {"key", "index", "name"}) {
    auto value = element.Find(key);
    if (!value) continue;
    if (value->IsString()) return std::string(value->string());
    if (value->IsNull()) return "None";
    if (value->kind() == JsonKind::kBool) {
      return value->boolean() ? "True" : "False";
    }
    return Text(*value);
  }
  return {};
}

Verdict PathString(JsonValue test) {
  const JsonValue input = At(test, "input");
  const JsonValue expect = At(test, "expect");
  std::vector<std::string> path;
  for (JsonValue element : At(input, "path").items()) {
    path.push_back(PathKey(element));
  }
  const JsonValue separator = At(input, "sep");
  if (separator.IsNull()) {
    return path == ToStrings(At(expect, "keys")) ? Pass() : Fail("keys");
  }
  const std::string joined = reference::JoinPath(path, separator.string());
  return joined == StringAt(expect, "string") ? Pass() : Fail(joined);
}

Verdict NamedMap(JsonValue test) {
  const JsonValue input = At(test, "input");
  const JsonValue expect = At(test, "expect");
  const reference::Tree tree = ToTree(At(input, "tree"));
  const auto leaves = reference::Flatten(tree);
  const JsonValue separator = At(input, "sep");
  if (leaves.size() != At(expect, "visited").size()) return Fail("visits");
  size_t i = 0;
  for (JsonValue visit : At(expect, "visited").items()) {
    const auto& path = leaves[i++].path;
    const bool same =
        separator.IsNull()
            ? path == ToStrings(visit)
            : reference::JoinPath(path, separator.string()) == visit.string();
    if (!same) return Fail("visit " + std::to_string(i));
  }
  auto flat = expect.Find("flat");
  if (!flat || separator.IsNull()) return Pass();
  std::map<std::string, std::string> ours;
  for (const auto& leaf : leaves) {
    ours[reference::JoinPath(leaf.path, separator.string())] =
        leaf.value->host_text;
  }
  if (ours.size() != flat->size()) return Fail("flat");
  for (JsonMember member : flat->members()) {
    auto it = ours.find(std::string(member.name()));
    if (it == ours.end() ||
        (!it->second.empty() && it->second != Text(member.value))) {
      return Fail("flat " + std::string(member.name()));
    }
  }
  return Pass();
}

Verdict DecayMask(JsonValue test) {
  const JsonValue input = At(test, "input");
  const auto mask = reference::WeightDecayMask(
      ToStrings(At(input, "exclusions")), ToTree(At(input, "tree")));
  return CompareResult(mask, test, [](const auto& ours, JsonValue expect) {
    const JsonValue wanted = At(expect, "mask");
    if (wanted.size() != ours.size()) return Fail("number of paths");
    for (JsonMember member : wanted.members()) {
      auto it = ours.find(std::string(member.name()));
      if (it == ours.end() || it->second != member.value.boolean()) {
        return Fail(std::string(member.name()));
      }
    }
    return Pass();
  });
}

Verdict RanksAndSize(JsonValue test) {
  const JsonValue input = At(test, "input");
  const auto ranks = reference::RanksAndSize(
      ToMesh(At(input, "mesh")), At(input, "local_device_count").integer(),
      At(input, "process_count").integer(),
      At(input, "process_index").integer());
  return CompareResult(ranks, test, [](const auto& ours, JsonValue expect) {
    const reference::Ranks wanted{At(expect, "mp_node_size").integer(),
                                  At(expect, "dp_node_size").integer(),
                                  At(expect, "dp_node_rank").integer(),
                                  At(expect, "mp_node_rank").integer()};
    return ours == wanted ? Pass() : Fail("ranks differ");
  });
}

Verdict CompareDict(const PartitionAxis& axis, JsonValue dict) {
  if (dict.size() != kAxisRuleCount) return Fail("number of fields");
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const auto rule = static_cast<AxisRule>(i);
    const std::string name = reference::FieldName(rule);
    if (!Same(axis.Field(rule), At(dict, name))) {
      return Fail(name + " " + Text(axis.Field(rule)));
    }
  }
  return Pass();
}

Verdict ToDict(JsonValue test) {
  const PartitionAxis axis = ToPartitionAxis(At(test, "input"));
  const JsonValue expect = At(test, "expect");
  Verdict verdict = CompareDict(axis, At(expect, "dict"));
  auto manager = expect.Find("dict_of_manager");
  if (verdict.outcome != Outcome::kPassed || !manager) return verdict;
  return CompareDict(axis, At(*manager, "paxis"));
}

Verdict RoundTrip(JsonValue test) {
  const JsonValue input = At(test, "input");
  const JsonValue expect = At(test, "expect");
  const PartitionAxis axis = ToPartitionAxis(input);
  Verdict verdict = CompareDict(axis, At(expect, "dict"));
  if (verdict.outcome != Outcome::kPassed) return verdict;
  // After a round trip through JSON every field is set, and tuples are lists.
  const PartitionAxis back(ToGiven(At(expect, "dict"), true));
  if ((back == axis) != At(expect, "equal_to_original").boolean()) {
    return Fail("equality with the original");
  }
  const auto axes = reference::ResolveAxis(back, reference::Registry(),
                                           ToValues(At(input, "axes"), true),
                                           StringAt(input, "mode"));
  if (const Error* error = Failure(axes)) return Fail(error->message);
  const auto spec =
      reference::MakePartitionSpec(std::get<std::vector<Value>>(axes));
  if (const Error* error = Failure(spec)) return Fail(error->message);
  return CompareValues(std::get<PartitionSpec>(spec), At(expect, "spec"),
                       "spec");
}

Verdict FromDict(JsonValue test) {
  const JsonValue dict = At(At(test, "input"), "dict");
  return CompareDict(PartitionAxis(ToGiven(dict, true)),
                     At(At(test, "expect"), "dict"));
}

// Quirk `manager-json`: the reference refuses this JSON, and shardc reads it.
Verdict ManagerFromJson(JsonValue test) {
  auto error = test.Find("error");
  if (!error || StringAt(*error, "kind") != "expected_partition_axis") {
    return Fail("an answer, where the reference has none");
  }
  Findings findings;
  auto document = JsonDocument::Parse(
      MakeSource("manager", std::string(StringAt(At(test, "input"), "json"))),
      findings);
  if (!document) return Fail("not JSON");
  const auto rules = ImportEformerAxes(*document, findings);
  auto fields = document->root().Find("paxis");
  if (!rules || !fields) return Fail("not read");
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const auto rule = static_cast<AxisRule>(i);
    auto field = fields->Find(reference::FieldName(rule));
    if (!field) continue;
    const AxisGroup axes = rules->Value(rule).axes;
    const bool same = field->IsArray() ? axes == ToStrings(*field)
                      : field->IsNull()
                          ? axes.empty()
                          : axes == AxisGroup{std::string(field->string())};
    if (!same) return Fail(reference::FieldName(rule));
  }
  return Differs("manager-json");
}

Verdict SafeHash(JsonValue test) {
  const JsonValue input = At(test, "input");
  auto algorithm = input.Find("algorithm");
  const auto hash = reference::SafeHashInt(
      StringAt(input, "text"), algorithm ? algorithm->string() : "md5");
  return CompareResult(hash, test, [](const auto& ours, JsonValue expect) {
    return ours == StringAt(expect, "decimal") ? Pass() : Fail(ours);
  });
}

struct Operation {
  std::string_view name;
  Verdict (*run)(JsonValue test);
};
constexpr Operation kOperations[] = {
    {"get_names_from_partition_spec", SpecNames},
    {"names_in_mesh", InMesh},
    {"tree_path_to_string", PathString},
    {"named_tree_map", NamedMap},
    {"get_weight_decay_mask", DecayMask},
    {"get_ranks_and_size", RanksAndSize},
    {"partition_axis_to_dict", ToDict},
    {"partition_axis_round_trip", RoundTrip},
    {"partition_axis_from_dict", FromDict},
    {"partition_manager_from_json", ManagerFromJson},
    {"get_safe_hash_int", SafeHash},
};

Verdict RunNames(JsonValue test) {
  const auto op = StringAt(At(test, "input"), "op");
  for (const Operation& operation : kOperations) {
    if (operation.name == op) return operation.run(test);
  }
  return Fail("op " + std::string(op) + " is not known");
}

}  // namespace

Runner NamesFamily() { return RunNames; }

std::span<const Quirk> Quirks() { return kQuirks; }

}  // namespace shardc::vectors
