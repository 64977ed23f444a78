// Checks that a plan was not edited after the compiler wrote it. The
// fingerprint covers the plan's meaning: mesh, modes, attention specs, stages,
// and the shape, dtype, specs, parts of dimensions, placement, stages, weight
// decay and unevenness of each parameter. Members that follow from these
// members, such as shard shapes, are recomputed and compared:
//
//   "shape": [8], "spec": ["tp"] with tp 4, "shard_shape": [4]
//     ->  `shard_shape` is [4], and the rest of the plan gives [2]
//
// The fingerprint is computed from the JSON itself, and not from the structs
// into which it is read, so it also covers members that are not read.
#include "plan/read.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/memory.h"
#include "legalize/legalize.h"
#include "model/axis_rules.h"
#include "model/mesh_layout.h"
#include "plan/fingerprint.h"
#include "plan/kv_layout.h"
#include "plan/view.h"
#include "schedule/table.h"
#include "source/digest.h"
#include "source/finding.h"
#include "source/json.h"
#include "source/json_writer.h"
#include "source/sink.h"
#include "source/size.h"

namespace shardc {
namespace {

// Checks the form of a plan: which members each object has, and their types. A
// table lists the members of each kind of object. The rules are those of
// schemas/plan.schema.json, which the Python package uses. A test changes plans
// at random and checks that both implementations agree. For example, a
// parameter may have a member `shard_shape`, but not `shard`:
//
//   {"shape": [8], "dtype": "F32", "spec": ["tp"], "shard": [4]}
//     ->  `shard` is not a member of a parameter

using Check = bool (*)(const JsonValue& value);

struct Field {
  std::string_view name;
  Check has_form;
  // What the value must be, as text for messages, such as "a list of strings".
  std::string_view form;
  bool required = true;
};

bool IsCount(const JsonValue& value) {
  return value.kind() == JsonKind::kInteger && value.integer() >= 0;
}

bool IsPositive(const JsonValue& value) {
  return IsCount(value) && value.integer() > 0;
}

bool IsCountOrNull(const JsonValue& value) {
  return value.IsNull() || IsCount(value);
}

bool IsIntegerOrNull(const JsonValue& value) {
  return value.IsNull() || value.kind() == JsonKind::kInteger;
}

bool IsPositiveOrNull(const JsonValue& value) {
  return value.IsNull() || IsPositive(value);
}

bool IsText(const JsonValue& value) { return value.IsString(); }

bool IsTextOrNull(const JsonValue& value) {
  return value.IsNull() || value.IsString();
}

// Plans of earlier versions have the index of a rule in place of its name.
bool IsRule(const JsonValue& value) {
  return IsTextOrNull(value) || IsCount(value);
}

bool IsBool(const JsonValue& value) { return value.kind() == JsonKind::kBool; }

bool IsTrue(const JsonValue& value) { return IsBool(value) && value.boolean(); }

bool IsObject(const JsonValue& value) { return value.IsObject(); }

bool IsArray(const JsonValue& value) { return value.IsArray(); }

template <Check kItem>
bool IsListOf(const JsonValue& value) {
  if (!value.IsArray()) return false;
  for (const JsonValue item : value.items()) {
    if (!kItem(item)) return false;
  }
  return true;
}

bool IsOneOf(const JsonValue& value, std::span<const std::string_view> known) {
  return value.IsString() &&
         std::find(known.begin(), known.end(), value.string()) != known.end();
}

// Returns whether the value is the short name of a mode, such as "train".
bool IsMode(const JsonValue& value) {
  return value.IsString() &&
         std::any_of(kAllModes.begin(), kAllModes.end(), [&](Mode mode) {
           return ModeName(mode) == value.string();
         });
}

bool IsAxisType(const JsonValue& value) {
  static constexpr std::array<std::string_view, 3> kKnown = {"auto", "explicit",
                                                             "manual"};
  return IsOneOf(value, kKnown);
}

bool IsReason(const JsonValue& value) {
  static constexpr std::array<std::string_view, 6> kKnown = {
      "indivisible", "missing_axis", "repeated_axis",
      "too_long",    "min_size",     "scalar"};
  return IsOneOf(value, kKnown);
}

bool IsAttentionReason(const JsonValue& value) {
  static constexpr std::array<std::string_view, 2> kKnown = {"missing_axis",
                                                             "repeated_axis"};
  return IsOneOf(value, kKnown);
}

bool IsLevel(const JsonValue& value) {
  static constexpr std::array<std::string_view, 3> kKnown = {"error", "warning",
                                                             "note"};
  return IsOneOf(value, kKnown);
}

bool IsKvKind(const JsonValue& value) { return IsOneOf(value, kKvKindNames); }

bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
}

bool IsFingerprint(const JsonValue& value) {
  constexpr std::string_view kPrefix = "sha256:";
  constexpr size_t kDigits = 64;
  return value.IsString() && value.string().starts_with(kPrefix) &&
         value.string().size() == kPrefix.size() + kDigits &&
         IsHex(value.string().substr(kPrefix.size()));
}

bool IsCode(const JsonValue& value) {
  if (!value.IsString() || value.string().size() != 6) return false;
  const std::string_view digits = value.string().substr(3);
  return value.string().starts_with("SHD") &&
         std::all_of(digits.begin(), digits.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

bool IsGroup(const JsonValue& value) {
  return IsTextOrNull(value) || IsListOf<IsText>(value);
}

bool IsEntry(const JsonValue& value) {
  return IsTextOrNull(value) || (IsListOf<IsText>(value) && value.size() > 0);
}

bool IsSpec(const JsonValue& value) { return IsListOf<IsEntry>(value); }

bool IsGroupOrSpec(const JsonValue& value) {
  return IsGroup(value) || IsSpec(value);
}

bool IsShape(const JsonValue& value) {
  return value.IsNull() || IsListOf<IsCount>(value);
}

bool IsRange(const JsonValue& value) {
  return IsListOf<IsCount>(value) && value.size() == 2;
}

bool IsStagePlacement(const JsonValue& value) {
  return value.IsString() && schedule::FindPlacement(value.string());
}

bool IsPart(const JsonValue& value) {
  static constexpr std::array<std::string_view, 2> kKnown = {"first", "last"};
  return IsOneOf(value, kKnown);
}

constexpr std::string_view kRange = "[first, end], two integers of 0 or more";
constexpr std::string_view kCount = "an integer of 0 or more";
constexpr std::string_view kPositive = "an integer of 1 or more";
constexpr std::string_view kCountOrNull = "an integer of 0 or more, or null";
constexpr std::string_view kPositiveOrNull = "an integer of 1 or more, or null";
constexpr std::string_view kText = "a string";
constexpr std::string_view kTextOrNull = "a string or null";
constexpr std::string_view kObject = "an object";
constexpr std::string_view kList = "a list";
constexpr std::string_view kMode =
    "one of `train`, `prefill`, `decode` and `insert`";
constexpr std::string_view kCounts = "a list of integers of 0 or more";
constexpr std::string_view kShape = "a list of integers of 0 or more, or null";
constexpr std::string_view kSpec =
    "a list with null, an axis or a list of axes for each dimension";
constexpr std::string_view kGroup = "null, an axis or a list of axes";
constexpr std::string_view kReason = "a reason that shardc-plan(5) lists";

constexpr Field kPlanFields[] = {
    {"schema", IsText, kText},
    {"fingerprint", IsFingerprint, "`sha256:` and 64 hexadecimal digits"},
    {"mesh", IsObject, kObject},
    {"modes", IsListOf<IsMode>, "a list of modes"},
    {"stages", IsObject, kObject, false},
    {"rules", IsArray, kList},
    {"params", IsObject, kObject},
    {"attention", IsObject, kObject},
    {"attention_corrections", IsArray, kList, false},
    {"activations", IsObject, kObject, false},
    {"activations_stated", IsListOf<IsText>, "a list of names", false},
    {"activations_digest", IsFingerprint, "`sha256:` and 64 hexadecimal digits",
     false},
    {"activation_corrections", IsArray, kList, false},
    {"kv", IsArray, kList, false},
    {"summary", IsObject, kObject},
    {"diagnostics", IsArray, kList, false}};
constexpr Field kMeshFields[] = {
    {"axes", IsArray, kList},
    {"devices", IsPositive, kPositive},
    {"processes", IsPositive, kPositive, false},
    {"slices", IsPositive, kPositive, false},
    {"dcn", IsListOf<IsPositive>, "a list of integers of 1 or more", false}};
constexpr Field kAxisFields[] = {
    {"name", IsText, kText},
    {"size", IsPositive, kPositive},
    {"type", IsAxisType, "one of `auto`, `explicit` and `manual`"}};
constexpr Field kRuleFields[] = {{"match", IsText, kText},
                                 {"source", IsText, kText},
                                 {"params", IsCount, kCount},
                                 {"matched", IsCount, kCount, false}};
constexpr Field kParamFields[] = {
    {"shape", IsShape, kShape},
    {"dtype", IsTextOrNull, kTextOrNull},
    {"spec", IsSpec, kSpec},
    {"rule", IsRule, "the name of a rule, or null"},
    {"shard_shape", IsShape, kShape},
    {"bytes_per_device", IsCountOrNull, kCountOrNull},
    {"kv_replicate", IsObject, kObject, false},
    {"modes", IsObject, kObject, false},
    {"parts", IsListOf<IsPositiveOrNull>,
     "a list of integers of 1 or more, or null", false},
    {"corrections", IsArray, kList, false},
    {"placement", IsObject, kObject, false},
    {"stages", IsListOf<IsCount>, kCounts, false},
    {"slices", IsObject, kObject, false},
    {"uneven", IsTrue, "true", false},
    {"weight_decay", IsBool, "true or false", false}};
constexpr Field kLayoutFields[] = {
    {"spec", IsSpec, kSpec},
    {"shard_shape", IsShape, kShape},
    {"bytes_per_device", IsCountOrNull, kCountOrNull},
    {"kv_replicate", IsObject, kObject, false}};
constexpr Field kReplicasFields[] = {{"dim", IsCount, kCount},
                                     {"axes", IsGroup, kGroup},
                                     {"heads", IsPositive, kPositive}};
constexpr Field kCorrectionFields[] = {
    {"dim", IsCountOrNull, kCountOrNull},
    {"from", IsGroupOrSpec, kGroup},
    {"to", IsGroupOrSpec, kGroup},
    {"reason", IsReason, kReason},
    {"bytes_per_device_added", IsIntegerOrNull, "an integer or null"},
    {"mode", IsMode, kMode, false}};
constexpr Field kPlacementFields[] = {{"axis", IsText, kText},
                                      {"coordinate", IsCount, kCount}};
constexpr Field kActivationFields[] = {
    {"mode", IsMode, kMode},  {"tensor", IsText, kText},
    {"dim", IsCount, kCount}, {"from", IsGroup, kGroup},
    {"to", IsGroup, kGroup},  {"reason", IsAttentionReason, kReason}};
constexpr Field kSummaryFields[] = {
    {"params", IsCount, kCount},
    {"elements", IsCountOrNull, kCountOrNull},
    {"bytes", IsCountOrNull, kCountOrNull},
    {"bytes_per_device", IsCountOrNull, kCountOrNull},
    {"bytes_by_rank", IsObject, kObject, false},
    {"unmatched", IsCount, kCount},
    {"corrected", IsCount, kCount}};
constexpr Field kByRankFields[] = {
    {"most", IsCountOrNull, kCountOrNull},
    {"least", IsCountOrNull, kCountOrNull},
    {"of", IsListOf<IsCountOrNull>,
     "a list of integers of 0 or more, or null"}};
constexpr Field kStagesFields[] = {
    {"axis", IsText, kText},
    {"copies", IsArray, kList, false},
    {"hidden", IsListOf<IsText>, "a list of names of axes", false},
    {"microbatches", IsPositive, kPositive},
    {"of", IsArray, kList},
    {"placement", IsStagePlacement, "one of `loop`, `v`, `both` and `listed`"},
    {"schedule", IsText, kText},
    {"table", IsFingerprint, "`sha256:` and 64 hexadecimal digits"},
    {"virtual", IsPositive, kPositive}};
constexpr Field kStageFields[] = {
    {"layers", IsRange, kRange},
    {"parts", IsListOf<IsPart>, "a list of `first` and `last`"},
    {"ranks", IsListOf<IsCount>, kCounts}};
constexpr Field kCopyFields[] = {{"param", IsText, kText},
                                 {"ranks", IsListOf<IsCount>, kCounts},
                                 {"stages", IsListOf<IsCount>, kCounts}};
constexpr Field kSlicesFields[] = {
    {"dim", IsCount, kCount},
    {"dims", IsPositive, kPositive, false},
    {"of", IsListOf<IsRange>, "a list of [first, end]"}};
constexpr Field kKvFields[] = {
    {"axes", IsObject, kObject, false},
    {"head_dim", IsPositive, kPositive, false},
    {"heads", IsPositive, kPositive, false},
    {"kind", IsKvKind, "a kind that shardc-plan(5) lists"},
    {"layers", IsListOf<IsRange>, "a list of [first, end]"},
    {"value_dim", IsPositive, kPositive, false},
    {"window", IsPositive, kPositive, false}};
constexpr Field kDiagnosticFields[] = {
    {"code", IsCode, "`SHD` and three digits"},
    {"name", IsText, kText},
    {"level", IsLevel, "one of `error`, `warning` and `note`"},
    {"message", IsText, kText},
    {"file", IsTextOrNull, kTextOrNull},
    {"line", IsPositiveOrNull, kPositiveOrNull},
    {"column", IsPositiveOrNull, kPositiveOrNull},
    {"end_line", IsPositiveOrNull, kPositiveOrNull},
    {"end_column", IsPositiveOrNull, kPositiveOrNull},
    {"help", IsTextOrNull, kTextOrNull},
    {"params", IsListOf<IsText>, "a list of strings"}};

class FormChecker {
 public:
  explicit FormChecker(Findings& findings) : findings_(findings) {}

  bool Plan(const JsonValue& root) {
    if (!Object(root, "the plan", kPlanFields)) return false;
    const JsonValue mesh = *root.Find("mesh");
    if (!Object(mesh, "the mesh", kMeshFields) ||
        !Objects(*mesh.Find("axes"), "an axis", kAxisFields) ||
        !Objects(*root.Find("rules"), "a rule", kRuleFields) || !Kv(root) ||
        !Object(*root.Find("summary"), "the summary", kSummaryFields) ||
        !Stages(root)) {
      return false;
    }
    for (const JsonMember param : root.Find("params")->members()) {
      if (!Param(param.value)) return false;
    }
    for (const std::string_view key : {"attention", "activations"}) {
      const auto modes = root.Find(key);
      if (!modes) continue;
      for (const JsonMember mode : modes->members()) {
        if (!Activations(mode)) return false;
      }
    }
    for (const std::string_view key :
         {"attention_corrections", "activation_corrections"}) {
      const auto corrections = root.Find(key);
      if (corrections && !Objects(*corrections, "a correction of an activation",
                                  kActivationFields)) {
        return false;
      }
    }
    const auto diagnostics = root.Find("diagnostics");
    return (!diagnostics ||
            Objects(*diagnostics, "a diagnostic", kDiagnosticFields));
  }

 private:
  bool Refuse(const JsonValue& at, std::string message) {
    findings_.Add(code::kSchema, at.place(), std::move(message));
    return false;
  }

  // Checks the members that only plans with stages have. The stages of
  // parameters are checked in another function.
  bool Stages(const JsonValue& root) {
    const auto by_rank = root.Find("summary")->Find("bytes_by_rank");
    if (by_rank && !Object(*by_rank, "`bytes_by_rank`", kByRankFields)) {
      return false;
    }
    const auto stages = root.Find("stages");
    if (!stages) return true;
    if (!Object(*stages, "`stages`", kStagesFields) ||
        !Objects(*stages->Find("of"), "a stage", kStageFields)) {
      return false;
    }
    const auto copies = stages->Find("copies");
    return !copies || Objects(*copies, "a copy", kCopyFields);
  }

  bool Kv(const JsonValue& root) {
    const auto kv = root.Find("kv");
    if (!kv) return true;
    if (!Objects(*kv, "an entry of `kv`", kKvFields)) return false;
    for (const JsonValue kind : kv->items()) {
      const auto axes = kind.Find("axes");
      if (!axes) continue;
      for (const JsonMember mode : axes->members()) {
        if (!IsMode(mode.key)) return NoMode(mode.key);
        if (!IsGroup(mode.value)) {
          return Refuse(mode.value,
                        "the axes of a mode are " + std::string(kGroup));
        }
      }
    }
    return true;
  }

  bool Param(const JsonValue& param) {
    if (!Object(param, "a parameter", kParamFields) || !Replicas(param)) {
      return false;
    }
    for (const JsonMember member : param.members()) {
      if (member.name() == "modes") {
        for (const JsonMember mode : member.value.members()) {
          if (!IsMode(mode.key)) return NoMode(mode.key);
          if (!Object(mode.value, "a mode of a parameter", kLayoutFields) ||
              !Replicas(mode.value)) {
            return false;
          }
        }
      } else if (member.name() == "corrections") {
        if (member.value.size() == 0) {
          return Refuse(member.value, "`corrections` is an empty list");
        }
        if (!Objects(member.value, "a correction", kCorrectionFields)) {
          return false;
        }
      } else if (member.name() == "placement" &&
                 !Object(member.value, "a placement", kPlacementFields)) {
        return false;
      } else if (member.name() == "slices" &&
                 !Object(member.value, "`slices`", kSlicesFields)) {
        return false;
      }
    }
    return true;
  }

  bool Replicas(const JsonValue& layout) {
    const auto replicas = layout.Find("kv_replicate");
    return !replicas || Object(*replicas, "`kv_replicate`", kReplicasFields);
  }

  bool Activations(const JsonMember& mode) {
    if (!IsMode(mode.key)) return NoMode(mode.key);
    if (!mode.value.IsObject()) {
      return Refuse(mode.value, "the activations of a mode are an object");
    }
    for (const JsonMember tensor : mode.value.members()) {
      if (!IsSpec(tensor.value)) {
        return Refuse(tensor.value,
                      "the spec of an activation is " + std::string(kSpec));
      }
    }
    return true;
  }

  bool NoMode(const JsonValue& key) {
    return Refuse(key, "`" + std::string(key.string()) + "` is not " +
                           std::string(kMode));
  }

  bool Objects(const JsonValue& list, std::string_view what,
               std::span<const Field> fields) {
    for (const JsonValue item : list.items()) {
      if (!Object(item, what, fields)) return false;
    }
    return true;
  }

  bool Object(const JsonValue& value, std::string_view what,
              std::span<const Field> fields) {
    if (!value.IsObject()) {
      return Refuse(value, std::string(what) + " is not an object");
    }
    size_t required = 0;
    for (const JsonMember member : value.members()) {
      const auto field = std::find_if(
          fields.begin(), fields.end(),
          [&](const Field& one) { return one.name == member.name(); });
      if (field == fields.end()) {
        findings_.Add(code::kUnknownKey, member.key.place(),
                      "`" + std::string(member.name()) +
                          "` is not a member of " + std::string(what));
        return false;
      }
      if (!field->has_form(member.value)) {
        return Refuse(member.value, "`" + std::string(field->name) + "` of " +
                                        std::string(what) + " is not " +
                                        std::string(field->form));
      }
      if (field->required) ++required;
    }
    for (const Field& field : fields) {
      if (required == static_cast<size_t>(std::count_if(
                          fields.begin(), fields.end(),
                          [](const Field& one) { return one.required; }))) {
        break;
      }
      if (field.required && !value.Find(field.name)) {
        return Refuse(value, std::string(what) + " has no `" +
                                 std::string(field.name) + "`");
      }
    }
    return true;
  }

  Findings& findings_;
};

// Returns whether the plan has the form that schemas/plan.schema.json
// describes: it has all required members and no unknown member, and each member
// has its type. If not, adds one finding. Its code is unknown-key for an
// unknown member, or schema for a value of the wrong type or an object that
// lacks a member.
bool HasPlanForm(const JsonValue& root, Findings& findings) {
  return FormChecker(findings).Plan(root);
}

constexpr std::string_view kHelp =
    "write the plan again with `shardc plan -o FILE`, or pass `--allow-edited` "
    "to use it as it is";

void WriteCanonical(JsonWriter& json, const JsonValue& value);

// Writes an object without the member `left_out`. The other members are sorted,
// as RFC 8785 requires.
void WriteSorted(JsonWriter& json, const JsonValue& object,
                 std::string_view left_out = {}) {
  std::vector<std::string_view> names;
  std::vector<JsonValue> values;
  for (const JsonMember member : object.members()) {
    if (!left_out.empty() && member.name() == left_out) continue;
    names.push_back(member.name());
    values.push_back(member.value);
  }
  json.BeginObject();
  for (const uint32_t at : CanonicalOrder(names)) {
    json.Key(names[at]);
    WriteCanonical(json, values[at]);
  }
  json.EndObject();
}

void WriteCanonical(JsonWriter& json, const JsonValue& value) {
  if (value.IsObject()) {
    WriteSorted(json, value);
  } else if (value.IsArray()) {
    json.BeginArray();
    for (const JsonValue item : value.items()) WriteCanonical(json, item);
    json.EndArray();
  } else if (value.IsString()) {
    json.String(value.string());
  } else if (value.kind() == JsonKind::kInteger) {
    json.Integer(value.integer());
  } else if (value.kind() == JsonKind::kUnsigned) {
    json.Unsigned(value.unsigned_());
  } else if (value.kind() == JsonKind::kReal) {
    json.Real(value.real());
  } else if (value.kind() == JsonKind::kBool) {
    json.Bool(value.boolean());
  } else {
    json.Null();
  }
}

// Returns the members of a parameter that the fingerprint covers, sorted. Of
// each mode, the fingerprint covers only the spec.
std::string CanonicalEntry(const JsonValue& param) {
  return TextOf([&](Sink& out) {
    JsonWriter json(out, JsonStyle::kCanonical);
    json.BeginObject();
    for (const std::string_view key :
         {"dtype", "modes", "parts", "placement", "shape", "slices", "spec",
          "stages", "uneven", "weight_decay"}) {
      const auto value = param.Find(key);
      if (!value || value->IsNull()) continue;
      if (key != "modes") {
        json.Member(key, WrittenBy(WriteCanonical, *value));
        continue;
      }
      std::vector<std::pair<std::string_view, JsonValue>> specs;
      for (const JsonMember mode : value->members()) {
        specs.emplace_back(mode.name(), *mode.value.Find("spec"));
      }
      if (specs.empty()) continue;
      std::sort(specs.begin(), specs.end(),
                [](const auto& a, const auto& b) { return a.first < b.first; });
      json.Key(key);
      json.BeginObject();
      for (const auto& [mode, spec] : specs) {
        json.Member(mode, WrittenBy(WriteCanonical, spec));
      }
      json.EndObject();
    }
    json.EndObject();
  });
}

std::string FingerprintOf(const JsonValue& root, const PlanClasses& classes) {
  std::vector<std::string> entries;
  for (const JsonMember param : root.Find("params")->members()) {
    entries.push_back(CanonicalEntry(param.value));
  }
  Sha256Sink digest;
  JsonWriter json(digest, JsonStyle::kCanonical);
  json.BeginObject();
  for (const std::string_view key :
       {"activations", "attention", "kv", "mesh", "modes"}) {
    const auto value = root.Find(key);
    if (!value || (key == "attention" && value->size() == 0)) continue;
    // Specs that follow from the axis rules are not part of it.
    if (key == "activations" && !root.Find("activations_stated")) continue;
    json.Member(key, WrittenBy(WriteCanonical, *value));
  }
  json.Key("params");
  json.BeginObject();
  for (const uint32_t at : CanonicalOrder(classes.names)) {
    json.Key(classes.names[at]);
    json.Written(entries[classes.class_of[at]]);
  }
  json.EndObject();
  if (const auto stages = root.Find("stages")) {
    json.Key("stages");
    // The member `schedule`, the name of the pipeline schedule, is left out.
    // The fingerprint covers the schedule's tasks instead, by the member
    // `table`.
    WriteSorted(json, *stages, "schedule");
  }
  json.EndObject();
  return "sha256:" + digest.Hex();
}

// Returns the digest of the activations; an empty text for a plan without them.
std::string ActivationsDigestOf(const JsonValue& root) {
  if (!root.Find("activations")) return {};
  Sha256Sink digest;
  JsonWriter json(digest, JsonStyle::kCanonical);
  json.BeginObject();
  for (const std::string_view key : {"activations", "activations_stated"}) {
    const auto value = root.Find(key);
    if (value) json.Member(key, WrittenBy(WriteCanonical, *value));
  }
  json.EndObject();
  return "sha256:" + digest.Hex();
}

// The shard of a parameter on one device in one mode. Unknown members are
// nullopt.
struct Held {
  std::optional<Shape> shape;
  std::optional<int64_t> bytes;
};

// Returns the largest shard of a parameter with this spec. The sizes of an
// illegal spec are unknown. Only a plan that was written with --keep-going has
// illegal specs.
Held HeldOf(const ReadParam& param, const Spec& spec, const Mesh& mesh) {
  Held out;
  const TensorType& type = param.type;
  if (!type.shape) return out;
  const LegalizeOptions options{.illegal = param.Illegal(),
                                .parts = param.parts};
  if (!LegalizeStored(spec, type, mesh, options).problems.empty()) return out;
  out.shape = ShardShape(mesh, *type.shape, spec);
  const auto elements = CheckedProduct(*out.shape);
  if (elements && type.dtype) out.bytes = BytesOf(*elements, *type.dtype);
  return out;
}

std::string TextOfNumber(std::optional<int64_t> number) {
  return number ? std::to_string(*number) : "null";
}

class Checker {
 public:
  Checker(const JsonValue& root, const ReadPlan& plan,
          const PlanClasses& classes, Findings& findings)
      : root_(root),
        plan_(plan),
        classes_(classes),
        findings_(findings),
        counts_(plan.params.size(), 0) {
    for (const uint32_t of_class : classes.class_of) ++counts_[of_class];
    if (plan.stages) by_rank_.emplace(*plan.stages);
  }

  bool Run() { return CheckSizes() && CheckTotals() && CheckFingerprint(); }

 private:
  // Compares a member with the value that it should have. `name` is the
  // member's name, `written` its value in the file and `given` the expected
  // value. Adds a finding and returns false if they differ.
  bool Equal(const JsonValue& written, std::string_view name,
             const std::string& given) {
    if (NormalText(written) == given) return true;
    findings_.Add(code::kSchema, written.place(),
                  "the plan was edited: `" + std::string(name) + "` is " +
                      NormalText(written) +
                      ", and the rest of the plan gives " + given,
                  std::string(kHelp));
    return false;
  }

  bool Equal(const JsonValue& object, std::string_view name,
             std::optional<int64_t> number) {
    const JsonValue written = *object.Find(name);
    // The numbers are compared first. Most numbers are equal, so the text of a
    // number is built only for the few that may differ.
    if (number ? written.kind() == JsonKind::kInteger &&
                     written.integer() == *number
               : written.IsNull()) {
      return true;
    }
    return Equal(written, name, TextOfNumber(number));
  }

  // Checks the member `kv_replicate` of a layout: its heads over its axes give
  // the spec.
  bool CheckReplicas(const JsonValue& layout, const Spec& spec) {
    const auto replicas = layout.Find("kv_replicate");
    if (!replicas) return true;
    AxisGroup axes;
    const JsonValue written = *replicas->Find("axes");
    if (written.IsString()) axes.emplace_back(written.string());
    if (written.IsArray()) {
      for (const JsonValue axis : written.items()) {
        axes.emplace_back(axis.string());
      }
    }
    const auto dim = static_cast<size_t>(replicas->Find("dim")->integer());
    const auto divided =
        KvHeadAxes(plan_.mesh, axes, replicas->Find("heads")->integer());
    if (divided && *divided == AxesAt(spec, dim)) return true;
    findings_.Add(code::kSchema, replicas->place(),
                  "the plan was edited: `kv_replicate` is " +
                      NormalText(*replicas) + ", and the spec is " +
                      SpecText(spec),
                  std::string(kHelp));
    return false;
  }

  bool CheckHeld(const JsonValue& layout, const Held& held) {
    const std::string shape = held.shape ? TextOf([&](Sink& out) {
      JsonWriter json(out);
      json.Array(*held.shape);
    })
                                         : "null";
    return Equal(*layout.Find("shard_shape"), "shard_shape", shape) &&
           Equal(layout, "bytes_per_device", held.bytes);
  }

  // Checks that the axes of a parameter with the member `uneven` do not divide
  // its shape in some mode.
  bool CheckUneven(const JsonValue& param, const ReadParam& read) {
    if (!read.uneven) return true;
    for (const Mode mode : plan_.modes) {
      const Spec& spec = read.SpecOf(mode);
      if (HeldOf(read, spec, plan_.mesh).shape &&
          !DividesEvenly(plan_.mesh, *read.type.shape, spec)) {
        return true;
      }
    }
    return Equal(*param.Find("uneven"), "uneven", "absent");
  }

  // Checks the sizes of every parameter and adds them to the plan's totals.
  bool CheckSizes() {
    const JsonValue rules = *root_.Find("rules");
    won_.assign(rules.size(), 0);
    std::vector<std::string_view> patterns;
    for (const JsonValue rule : rules.items()) {
      patterns.push_back(rule.Find("match")->string());
    }
    rules_.emplace(patterns);
    size_t i = 0;
    for (const JsonMember param : root_.Find("params")->members()) {
      const ReadParam& read = plan_.params[i];
      const Held train = HeldOf(read, read.spec, plan_.mesh);
      if (!CheckHeld(param.value, train) || !CheckUneven(param.value, read) ||
          !CheckReplicas(param.value, read.spec)) {
        return false;
      }
      if (const auto modes = param.value.Find("modes")) {
        size_t mode = 0;
        for (const JsonMember member : modes->members()) {
          const Spec& spec = read.modes[mode++].second;
          if (!CheckHeld(member.value, HeldOf(read, spec, plan_.mesh)) ||
              !CheckReplicas(member.value, spec)) {
            return false;
          }
        }
      }
      if (!AddTotals(param.value, read, train, counts_[i])) return false;
      ++i;
    }
    return true;
  }

  bool AddTotals(const JsonValue& param, const ReadParam& read,
                 const Held& train, int64_t count) {
    const auto add = [&](std::optional<int64_t>& sum,
                         std::optional<int64_t> term) {
      if (term) term = CheckedMul(*term, count);
      sum = sum && term ? CheckedAdd(*sum, *term) : std::nullopt;
    };
    add(elements_, read.type.Elements());
    add(bytes_, read.type.Bytes());
    if (by_rank_) {
      const auto& placed = read.placement;
      by_rank_->Add(read.stages, train.bytes, count,
                    placed ? &placed->axis : nullptr,
                    placed ? placed->coordinate : 0);
    }
    const auto held =
        train.bytes ? CheckedMul(*train.bytes, count) : std::nullopt;
    known_ = known_ && held.has_value();
    if (held && read.placement) {
      held_.AddAt(read.placement->axis, read.placement->coordinate, *held);
    } else if (held) {
      held_.Add(*held);
    }
    if (param.Find("corrections")) corrected_ += count;
    const JsonValue rule = *param.Find("rule");
    const bool scalar = read.type.shape && read.type.shape->empty();
    if (rule.IsNull()) {
      if (!scalar) unmatched_ += count;
    } else if (const auto index = rules_->Find(rule)) {
      won_[AsIndex(*index)] += count;
    } else {
      findings_.Add(code::kSchema, rule.place(), "the plan has no such rule");
      return false;
    }
    return true;
  }

  bool CheckTotals() {
    const auto params = static_cast<int64_t>(classes_.names.size());
    size_t i = 0;
    for (const JsonValue rule : root_.Find("rules")->items()) {
      const int64_t won = won_[i++];
      if (!Equal(rule, "params", won)) return false;
      // A pattern may also match parameters that an earlier rule matches first.
      // `matched` may therefore be larger than `won`.
      const auto matched = rule.Find("matched");
      if (matched &&
          (matched->integer() < won || matched->integer() > params)) {
        return Equal(*matched, "matched",
                     std::to_string(won) + " to " + std::to_string(params));
      }
    }
    const JsonValue summary = *root_.Find("summary");
    auto fullest = known_ ? held_.Fullest() : std::nullopt;
    if (by_rank_) {
      const auto bytes = by_rank_->Fullest();
      fullest = MostOf(bytes);
      const std::string given = TextOf([&](Sink& out) {
        JsonWriter json(out);
        WriteBytesByRank(json, bytes);
      });
      const auto written = summary.Find("bytes_by_rank");
      if (!written) {
        findings_.Add(code::kSchema, summary.place(),
                      "the summary has no `bytes_by_rank`", std::string(kHelp));
        return false;
      }
      if (!Equal(*written, "bytes_by_rank", given)) return false;
    }
    if (!Equal(summary, "params", params) ||
        !Equal(summary, "elements", elements_) ||
        !Equal(summary, "bytes", bytes_) ||
        !Equal(summary, "bytes_per_device", fullest) ||
        !Equal(summary, "unmatched", unmatched_)) {
      return false;
    }
    // The compiler also counts corrections in modes that the plan does not
    // list, so `corrected` may exceed the number that is found here.
    const int64_t corrected = summary.Find("corrected")->integer();
    return (corrected >= corrected_ && corrected <= params) ||
           Equal(summary, "corrected", corrected_);
  }

  bool CheckFingerprint() {
    const auto digest = root_.Find("activations_digest");
    if (ActivationsDigestOf(root_) != (digest ? digest->string() : "")) {
      findings_.Add(
          code::kSchema,
          root_.Find(digest ? "activations_digest" : "activations")->place(),
          "the plan was edited: its activations do not have the "
          "digest that it states",
          std::string(kHelp));
      return false;
    }
    const std::string now = FingerprintOf(root_, classes_);
    if (now == plan_.fingerprint) return true;
    findings_.Add(code::kSchema, root_.Find("fingerprint")->place(),
                  "the plan was edited: its content has the fingerprint `" +
                      now + "`, not the one that it states",
                  std::string(kHelp));
    return false;
  }

  const JsonValue root_;
  const ReadPlan& plan_;
  const PlanClasses& classes_;
  Findings& findings_;
  // Indexed by class (parameters with the same entry, see PlanClasses): the
  // number of parameters of the class.
  std::vector<int64_t> counts_;
  std::optional<RuleIndex> rules_;
  // Indexed by rule: the number of parameters that it is the first to match.
  std::vector<int64_t> won_;
  std::optional<int64_t> elements_ = 0, bytes_ = 0;
  HeldBytes held_;
  // The bytes of parameters that the devices of each pipeline rank hold;
  // nullopt for a plan without stages.
  std::optional<BytesByRank> by_rank_;
  // Whether the bytes of all parameters are known.
  bool known_ = true;
  int64_t unmatched_ = 0, corrected_ = 0;
};

}  // namespace

bool IsUnedited(const JsonValue& root, const ReadPlan& plan,
                const PlanClasses& classes, Findings& findings) {
  return HasPlanForm(root, findings) &&
         Checker(root, plan, classes, findings).Run();
}

}  // namespace shardc
