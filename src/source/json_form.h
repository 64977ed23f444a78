// Checks the form of JSON by the files of schemas/: which members each object
// has, and the types and ranges of their values. Readers of a value that has
// its form need not check these again.
#ifndef SHARDC_SOURCE_JSON_FORM_H_
#define SHARDC_SOURCE_JSON_FORM_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "source/file.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

// Returns the files of schemas/, sorted by name. The build generates the table.
std::span<const EmbeddedFile> EmbeddedSchemas();

enum class FormMembers : uint8_t {
  kAll,
  // Only the members that readers use. Unknown members and those that the
  // schema marks with `readOnly` are not checked, and a member may be absent if
  // it may be null.
  kRead,
};

// Returns whether the value has the form of the schema in the file
// `SCHEMA.schema.json` or, if `definition` is not empty, the form of this
// definition of the schema. If it has not, adds a finding for each value that
// differs. The code is unknown-key for an unknown member, number for a number
// that is not an integer or out of range, and otherwise schema.
//
// The messages name an object, and describe the form of other values, by the
// `title` in the schema. Only the keywords that the schema of plans has are
// implemented.
bool HasForm(const JsonValue& value, std::string_view schema,
             std::string_view definition, FormMembers members,
             Findings& findings);

// Returns a member that the form of the object requires. Returns null if it is
// absent, which only a member with `readOnly` may be.
inline JsonValue MemberOrNull(const JsonValue& object, std::string_view name) {
  return object.Find(name).value_or(JsonValue());
}

}  // namespace shardc

#endif  // SHARDC_SOURCE_JSON_FORM_H_
