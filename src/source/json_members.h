// Members of JSON objects by name, and values as texts that can be compared.
#ifndef SHARDC_SOURCE_JSON_MEMBERS_H_
#define SHARDC_SOURCE_JSON_MEMBERS_H_

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "source/json.h"

namespace shardc {

// A value's text with one spacing and members in one order, so that equal
// texts are equal values.
std::string NormalText(const JsonValue& value);

using JsonMembers = std::unordered_map<std::string_view, JsonValue>;
// An object's members; none of what is no object.
JsonMembers MembersOf(const std::optional<JsonValue>& value);
std::optional<JsonValue> MemberAt(const JsonMembers& members,
                                  std::string_view name);
// An object's `schema`; empty where it has none that is a text.
std::string_view SchemaOf(const JsonValue& root);
// The member's normal text, or `absent`.
std::string MemberText(const JsonMembers& members, std::string_view name,
                       std::string_view absent);
// Every name of either object, in the order of `first` and then of `second`.
std::vector<std::string_view> NamesOfEither(
    const std::optional<JsonValue>& first,
    const std::optional<JsonValue>& second);

}  // namespace shardc

#endif  // SHARDC_SOURCE_JSON_MEMBERS_H_
