// Looks up members of JSON objects by name, and renders values as texts that
// can be compared.
#ifndef SHARDC_SOURCE_JSON_MEMBERS_H_
#define SHARDC_SOURCE_JSON_MEMBERS_H_

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "source/json.h"

namespace shardc {

// Returns the value's text with uniform spacing and sorted members: two values
// are equal if and only if their texts are. Numbers are compared as they are
// written, so 1 and 1.0 differ.
std::string NormalText(const JsonValue& value);

using JsonMembers = std::unordered_map<std::string_view, JsonValue>;
// Returns the members of an object by name. Returns no members if the value is
// absent or is not an object.
JsonMembers MembersOf(const std::optional<JsonValue>& value);
std::optional<JsonValue> MemberAt(const JsonMembers& members,
                                  std::string_view name);
// Returns the object's member `schema`. Returns "" if there is no such member
// or if it is not a string.
std::string_view SchemaOf(const JsonValue& root);
// Returns the NormalText of a member, or `absent` if there is no such member.
std::string MemberText(const JsonMembers& members, std::string_view name,
                       std::string_view absent);
// Returns the names of the members that at least one object has: all names of
// `first`, then the names that only `second` has.
std::vector<std::string_view> NamesOfEither(
    const std::optional<JsonValue>& first,
    const std::optional<JsonValue>& second);

}  // namespace shardc

#endif  // SHARDC_SOURCE_JSON_MEMBERS_H_
