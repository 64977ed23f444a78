// Renders a JSON value as a text for comparisons: members are sorted by name
// and spacing is uniform. Numbers keep their text. For example, an object is
// rendered as follows:
//
//   {"b":1, "a":[ 2 ]}  ->  {"a": [2], "b": 1}
#include "source/json_members.h"

#include <map>
#include <set>

#include "source/json_writer.h"

namespace shardc {

std::string NormalText(const JsonValue& value) {
  std::string out;
  switch (value.kind()) {
    case JsonKind::kString:
      return JsonString(value.string());
    case JsonKind::kArray:
      for (const JsonValue item : value.items()) {
        out += (out.empty() ? "[" : ", ") + NormalText(item);
      }
      return out.empty() ? "[]" : out + "]";
    case JsonKind::kObject: {
      std::map<std::string_view, JsonValue> sorted;
      for (const JsonMember member : value.members()) {
        sorted.emplace(member.name(), member.value);
      }
      for (const auto& [name, member] : sorted) {
        out += (out.empty() ? "{" : ", ") + JsonString(name) + ": " +
               NormalText(member);
      }
      return out.empty() ? "{}" : out + "}";
    }
    default: {
      const Place place = value.place();
      return std::string(
          place.source->text().substr(place.begin, place.end - place.begin));
    }
  }
}

JsonMembers MembersOf(const std::optional<JsonValue>& value) {
  JsonMembers out;
  if (!value || !value->IsObject()) return out;
  for (const JsonMember member : value->members()) {
    out.emplace(member.name(), member.value);
  }
  return out;
}

std::optional<JsonValue> MemberAt(const JsonMembers& members,
                                  std::string_view name) {
  const auto at = members.find(name);
  return at == members.end() ? std::nullopt : std::optional(at->second);
}

std::string_view SchemaOf(const JsonValue& root) {
  if (!root.IsObject()) return {};
  const auto schema = root.Find("schema");
  return schema && schema->IsString() ? schema->string() : std::string_view();
}

std::string MemberText(const JsonMembers& members, std::string_view name,
                       std::string_view absent) {
  const auto value = MemberAt(members, name);
  return value ? NormalText(*value) : std::string(absent);
}

std::vector<std::string_view> NamesOfEither(
    const std::optional<JsonValue>& first,
    const std::optional<JsonValue>& second) {
  std::vector<std::string_view> out;
  std::set<std::string_view> seen;
  for (const auto& value : {first, second}) {
    if (!value || !value->IsObject()) continue;
    for (const JsonMember member : value->members()) {
      if (seen.insert(member.name()).second) out.push_back(member.name());
    }
  }
  return out;
}

}  // namespace shardc
