// Reads manifests in shardc's JSON (a list or object of parameters) and nested
// trees whose leaves are {"shape", "dtype"}.
#ifndef SHARDC_PARSE_MANIFEST_H_
#define SHARDC_PARSE_MANIFEST_H_

#include <optional>
#include <string>
#include <string_view>

#include "model/manifest.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

std::optional<Manifest> ParseManifest(const JsonDocument& document,
                                      Findings& findings);

// If the manifest does not state the separator of names, infers it from the
// names. It is `/` or `.`, whichever occurs in more names. If no name contains
// either, the separator stays 0. Adds a finding (`separator`) if both occur in
// equally many names.
void SettleSeparator(Manifest& manifest, Findings& findings);

// Returns a description of the value for a message, such as "a list", "the
// number 4", "the string `x`" or "null".
std::string DescribeJson(const JsonValue& value);

// Returns false after a finding (`name`) if the name is empty or contains
// control characters.
bool CheckParameterName(std::string_view name, const JsonValue& at,
                        Findings& findings);

// Reads `shape` and `dtype` of the object `leaf`; other keys are ignored.
// `name` is the parameter's name for messages, and `at` is its place. Returns
// nullopt after a finding: schema, number, dtype, overflow or size.
std::optional<TensorType> ReadTensorType(const JsonValue& leaf,
                                         std::string_view name,
                                         const JsonValue& at,
                                         Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_MANIFEST_H_
