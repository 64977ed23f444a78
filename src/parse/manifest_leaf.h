// Reads one parameter of a JSON manifest: name, shape and dtype.
#ifndef SHARDC_PARSE_MANIFEST_LEAF_H_
#define SHARDC_PARSE_MANIFEST_LEAF_H_

#include <optional>
#include <string>
#include <string_view>

#include "model/manifest.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

// Returns "a list", "the number 4", "the string `x`", "null" ...
std::string DescribeJson(const JsonValue& value);

// Returns false after a finding (`name`) if the name is empty or contains
// control characters.
bool CheckParameterName(std::string_view name, const JsonValue& at,
                        Findings& findings);

// Reads `shape` and `dtype` of the object `leaf`; other keys are ignored. `at`
// is the parameter's name, for messages. Returns nullopt after a finding:
// schema, number, dtype, overflow or size.
std::optional<TensorType> ReadTensorType(const JsonValue& leaf,
                                         std::string_view name,
                                         const JsonValue& at,
                                         Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_MANIFEST_LEAF_H_
