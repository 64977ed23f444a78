// A parameter in a JSON manifest: its name, shape and dtype.
#ifndef SHARDC_PARSE_MANIFEST_LEAF_H_
#define SHARDC_PARSE_MANIFEST_LEAF_H_

#include <optional>
#include <string>
#include <string_view>

#include "model/manifest.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

// "a list", "the number 4", "the string `x`", "null" ...
std::string DescribeJson(const JsonValue& value);

// False with a finding (`name`) for one that is empty or holds control
// characters.
bool CheckParameterName(std::string_view name, const JsonValue& at,
                        Findings& findings);

// `leaf` is an object; `at` is its name. Findings: schema, number, dtype,
// overflow. Keys other than `shape` and `dtype` are left alone.
std::optional<TensorType> ReadTensorType(const JsonValue& leaf,
                                         std::string_view name,
                                         const JsonValue& at,
                                         Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_MANIFEST_LEAF_H_
