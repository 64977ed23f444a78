// Imports an eformer PartitionAxis from JSON as axis rules. An axis rule, such
// as `head: tp`, states the mesh axes for one kind of dimension. A
// PartitionAxis is a JSON object whose fields are named after axis rules, with
// the ending `_axis`: `head_axis` sets the axis rule `head`. A PartitionAxis
// may be nested in another object, such as a PartitionManager. The outermost
// object that has such a field is read. eformer ignores the axis name "", so ""
// is imported as no axis:
//
//   {"paxis": {"head_axis": "tp", "batch_axis": ["fsdp", ""]}}
//     ->  head: tp, batch: [fsdp]
#include "importers/eformer.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/wording.h"

namespace shardc {
namespace {

std::vector<std::string> FieldNames() {
  std::vector<std::string> names;
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    names.push_back(AxisFieldName(static_cast<AxisRule>(i)));
  }
  return names;
}

bool HasField(JsonValue value) {
  if (!value.IsObject()) return false;
  for (JsonMember member : value.members()) {
    if (ParseAxisField(member.name())) return true;
  }
  return false;
}

// Searches the JSON tree level by level, from the root down. Stops at the first
// level that has objects with fields of a PartitionAxis, and returns all of
// these objects.
std::vector<JsonValue> FindAxes(JsonValue root) {
  std::vector<JsonValue> level = {root}, found;
  while (!level.empty()) {
    std::copy_if(level.begin(), level.end(), std::back_inserter(found),
                 HasField);
    if (!found.empty()) return found;
    std::vector<JsonValue> inside;
    for (const JsonValue value : level) {
      if (value.IsArray()) {
        for (const JsonValue item : value.items()) inside.push_back(item);
      }
      if (!value.IsObject()) continue;
      for (const JsonMember member : value.members()) {
        inside.push_back(member.value);
      }
    }
    level = std::move(inside);
  }
  return found;
}

std::string_view TextOf(JsonValue value) {
  const Place place = value.place();
  return place.source->text().substr(place.begin, place.end - place.begin);
}

// Returns the JSON text of each member's value, keyed by the member's name.
std::map<std::string_view, std::string_view> MembersOf(JsonValue value) {
  std::map<std::string_view, std::string_view> out;
  for (const JsonMember member : value.members()) {
    out.emplace(member.name(), TextOf(member.value));
  }
  return out;
}

// Returns the PartitionAxis of the file. If the file contains several, they
// must be equal. Returns nullopt after a finding if the file contains none, or
// if two of them differ.
std::optional<JsonValue> OnlyAxes(JsonValue root, Findings& findings) {
  const std::vector<JsonValue> found = FindAxes(root);
  if (found.empty()) {
    findings.Add(code::kSchema, root.place(),
                 "this holds no field of a PartitionAxis",
                 "expected fields such as `head_axis` and `batch_axis`, alone "
                 "or inside a PartitionManager's or OperationMetadata's JSON");
    return std::nullopt;
  }
  for (const JsonValue other : found) {
    if (TextOf(other) == TextOf(found[0])) continue;
    if (MembersOf(other) == MembersOf(found[0])) continue;
    findings
        .Add(code::kSchema, other.place(),
             "this holds two PartitionAxis that differ",
             "leave the one that counts")
        .labels.push_back({found[0].place(), "the first is here"});
    return std::nullopt;
  }
  return found[0];
}

// Appends the axes of a field to `axes`. Skips the name "", which eformer
// ignores when it builds a spec. A field that eformer derives from others, such
// as `batch_axis`, holds their values in a list, as lists or nulls: the lists
// are flattened, and the nulls left out. Returns false if the value has another
// type.
bool AddAxes(JsonValue value, AxisGroup& axes) {
  if (value.IsNull()) return true;
  if (value.IsArray()) {
    for (JsonValue item : value.items()) {
      if (!AddAxes(item, axes)) return false;
    }
    return true;
  }
  if (!value.IsString()) return false;
  if (!value.string().empty()) axes.emplace_back(value.string());
  return true;
}

std::optional<AxisValue> ReadField(JsonMember member, Findings& findings) {
  AxisValue out;
  const JsonValue value = member.value;
  if (value.IsNull()) return out;
  out.is_null = false;
  if (AddAxes(value, out.axes)) return out;
  findings.Add(code::kSchema, value.place(),
               "`" + std::string(member.name()) +
                   "` is not a mesh axis, a list of mesh axes or null",
               "write it as `\"tp\"` or `[\"fsdp\", \"dp\"]`");
  return std::nullopt;
}

}  // namespace

bool IsEformerAxes(const JsonDocument& document) {
  return !FindAxes(document.root()).empty();
}

std::optional<AxisRules> ImportEformerAxes(const JsonDocument& document,
                                           Findings& findings) {
  const size_t errors = findings.errors();
  const auto fields = OnlyAxes(document.root(), findings);
  if (!fields) return std::nullopt;
  AxisRules rules;
  for (JsonMember member : fields->members()) {
    auto rule = ParseAxisField(member.name());
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
