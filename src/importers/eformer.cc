// A PartitionAxis as JSON, alone or as `paxis` of a manager: a field is an
// axis rule whose name ends in `_axis`. "" is no axis, for eformer drops it:
//
//   {"paxis": {"head_axis": "tp", "batch_axis": ["fsdp", ""]}}
//     ->  head: tp, batch: [fsdp]
#include "importers/eformer.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/wording.h"

namespace shardc {
namespace {

constexpr std::string_view kSuffix = "_axis";
constexpr std::string_view kManagerKey = "paxis";

std::optional<AxisRule> FieldOf(std::string_view name) {
  if (!name.ends_with(kSuffix)) return std::nullopt;
  return ParseAxisRule(name.substr(0, name.size() - kSuffix.size()));
}

std::vector<std::string> FieldNames() {
  std::vector<std::string> names;
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    names.push_back(std::string(AxisRuleName(static_cast<AxisRule>(i))) +
                    std::string(kSuffix));
  }
  return names;
}

JsonValue FieldsOf(JsonValue root) {
  if (root.IsObject()) {
    if (auto inner = root.Find(kManagerKey)) return *inner;
  }
  return root;
}

// eformer treats "" as no axis when the spec is built.
bool AddAxis(JsonValue value, AxisGroup& axes) {
  if (!value.IsString()) return false;
  if (!value.string().empty()) axes.emplace_back(value.string());
  return true;
}

std::optional<AxisValue> ReadField(JsonMember member, Findings& findings) {
  AxisValue out;
  const JsonValue value = member.value;
  if (value.IsNull()) return out;
  out.is_null = false;
  bool fine = true;
  if (value.IsArray()) {
    for (JsonValue item : value.items()) fine = fine && AddAxis(item, out.axes);
  } else {
    fine = AddAxis(value, out.axes);
  }
  if (fine) return out;
  findings.Add(code::kSchema, value.place(),
               "`" + std::string(member.name()) +
                   "` is not a mesh axis, a list of mesh axes or null",
               "write it as `\"tp\"` or `[\"fsdp\", \"dp\"]`");
  return std::nullopt;
}

}  // namespace

bool IsEformerAxes(const JsonDocument& document) {
  const JsonValue fields = FieldsOf(document.root());
  if (!fields.IsObject()) return false;
  for (JsonMember member : fields.members()) {
    if (FieldOf(member.name())) return true;
  }
  return false;
}

std::optional<AxisRules> ImportEformerAxes(const JsonDocument& document,
                                           Findings& findings) {
  const size_t errors = findings.errors();
  const JsonValue fields = FieldsOf(document.root());
  if (!fields.IsObject()) {
    findings.Add(code::kSchema, fields.place(),
                 "this is not a PartitionAxis object",
                 "expected fields such as `head_axis` and `batch_axis`");
    return std::nullopt;
  }
  AxisRules rules;
  for (JsonMember member : fields.members()) {
    auto rule = FieldOf(member.name());
    if (!rule) {
      Finding finding;
      finding.code = &code::kUnknownKey;
      finding.level = Level::kWarning;
      finding.message = "PartitionAxis has no field `" +
                        std::string(member.name()) + "`: it is left out";
      finding.place = member.key.place();
      finding.help = DidYouMean(member.name(), FieldNames());
      findings.Add(std::move(finding));
      continue;
    }
    if (auto value = ReadField(member, findings)) {
      rules.Set(*rule, std::move(*value));
    }
  }
  if (findings.errors() > errors) return std::nullopt;
  return rules;
}

}  // namespace shardc
