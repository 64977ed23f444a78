// Checks the form of a plan: which members each object has, and their types. A
// table lists the members of each kind of object. The rules are those of
// schemas/plan.schema.json, which the Python package uses. A test changes plans
// at random and checks that both implementations agree. For example, a
// parameter may have a member `shard_shape`, but not `shard`:
//
//   {"shape": [8], "dtype": "F32", "spec": ["tp"], "shard": [4]}
//     ->  `shard` is not a member of a parameter
#include "plan/plan_form.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "model/axis_rules.h"
#include "plan/kv_layout.h"
#include "schedule/table.h"

namespace shardc {
namespace {

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
constexpr Field kAttentionFields[] = {
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
    for (const JsonMember mode : root.Find("attention")->members()) {
      if (!Attention(mode)) return false;
    }
    const auto corrections = root.Find("attention_corrections");
    const auto diagnostics = root.Find("diagnostics");
    return (!corrections || Objects(*corrections, "a correction of attention",
                                    kAttentionFields)) &&
           (!diagnostics ||
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

  bool Attention(const JsonMember& mode) {
    if (!IsMode(mode.key)) return NoMode(mode.key);
    if (!mode.value.IsObject()) {
      return Refuse(mode.value, "the attention specs of a mode are an object");
    }
    for (const JsonMember tensor : mode.value.members()) {
      if (!IsSpec(tensor.value)) {
        return Refuse(tensor.value, "the spec of an attention tensor is " +
                                        std::string(kSpec));
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

}  // namespace

bool HasPlanForm(const JsonValue& root, Findings& findings) {
  return FormChecker(findings).Plan(root);
}

}  // namespace shardc
