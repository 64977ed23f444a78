// Reads partition specs and other lists of axes from YAML.
#ifndef SHARDC_PARSE_SPEC_READ_H_
#define SHARDC_PARSE_SPEC_READ_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/axis_rules.h"
#include "model/rules.h"
#include "yaml/read.h"

namespace shardc {

// All functions whose names begin with Read return nullopt after a finding.
//
// Reads a list with one entry for each dimension. An entry is null, `_`, a
// name, `{axis: x}` for the mesh axis x, or a group of these.
std::optional<SpecList> ReadSpecList(const YamlContext& context,
                                     const YamlNode& node);
// Reads a spec list, or the name of a bundle. If `like_allowed` is true,
// `{like: ...}` is accepted too.
std::optional<SpecSource> ReadSpecSource(const YamlContext& context,
                                         const YamlNode& node,
                                         bool like_allowed);
// Reads null, the name of a mesh axis, or a list of such names. Nulls in the
// list are skipped.
std::optional<AxisValue> ReadAxisValue(const YamlContext& context,
                                       const YamlNode& node,
                                       std::string_view what);
// Reads the value of a logical axis under `register:`. The value is null, the
// name of an axis rule, a logical axis or a mesh axis, `{axis: x}` for the mesh
// axis x, or a list of names.
std::optional<RegisteredRule> ReadRegisteredRule(const YamlContext& context,
                                                 const YamlNode& node);

// Returns the name of a key of `register:` without surrounding blanks, as in
// eformer. A name that no spec could contain is an error.
std::optional<std::string> ReadTokenName(const YamlContext& context,
                                         const YamlNode& key);

using TokenSet = std::set<std::string, std::less<>>;  // canonical names
// Adds a finding (`spec`) for each mesh axis that occurs twice in `list`.
// Logical axes and axis rules may be repeated, because they may resolve to
// different mesh axes. Repetitions are checked again after resolution.
void CheckRepeats(const SpecList& list, const TokenSet& registered,
                  Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_SPEC_READ_H_
