// Reads manifests in shardc's JSON (a list or object of parameters) and nested
// trees whose leaves are {"shape", "dtype"}.
#ifndef SHARDC_PARSE_MANIFEST_H_
#define SHARDC_PARSE_MANIFEST_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "model/manifest.h"
#include "source/finding.h"
#include "source/input_file.h"
#include "source/json.h"
#include "source/source.h"

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

// A fast reader of manifests in the usual syntax, in shardc's JSON or as trees
// (parse/plain_manifest.cc). It does not build a JsonDocument.

// Returns the manifest that ParseManifest would return, with `by_name` set, if
// the text has the usual syntax. Returns nullopt for any other text, even if it
// is valid. The caller then calls ParseManifest, which also reports errors.
// Names are views into the text where possible.
std::optional<Manifest> ReadPlainManifest(const SourceRef& source);

// Reads a file in shardc's JSON through a window of `window_bytes` bytes.
// Returns the same manifest as ReadPlainManifest, except that Manifest::source
// has the file's path but an empty text. Keeps only names and types, so the
// full text need not be in memory. Returns nullopt if parameters are nested
// objects instead of a list or an object of full names, for unusual syntax, for
// a parameter that is longer than the window, and if the file cannot be read.
// The default window fits in a second-level cache.
std::optional<Manifest> StreamPlainManifest(const InputFile& file,
                                            size_t window_bytes = size_t{1}
                                                                  << 18);

}  // namespace shardc

#endif  // SHARDC_PARSE_MANIFEST_H_
