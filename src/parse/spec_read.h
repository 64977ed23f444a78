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

// The Read functions return nullopt after a finding.
//
// Reads a list with one entry per dimension: null, `_`, a name, or a group.
std::optional<SpecList> ReadSpecList(const YamlContext& context,
                                     const YamlNode& node);
// Reads a spec list, a bundle's name, or `{like: ...}` if `like_allowed`.
std::optional<SpecSource> ReadSpecSource(const YamlContext& context,
                                         const YamlNode& node,
                                         bool like_allowed);
// Reads null, the name of a mesh axis, or a list of such names, whose nulls are
// skipped.
std::optional<AxisValue> ReadAxisValue(const YamlContext& context,
                                       const YamlNode& node,
                                       std::string_view what);
// Reads the value of a logical axis under `register:`: null, the name of an
// axis rule, logical axis or mesh axis, `{axis: x}` for mesh axis x, or a list
// of names.
std::optional<RegisteredRule> ReadRegisteredRule(const YamlContext& context,
                                                 const YamlNode& node);

// Returns the canonical name of a logical axis: the short name of a built-in
// axis, and any other name without its surrounding `__`. Thus `X` and `__X__`
// have the same canonical name.
std::string CanonicalToken(std::string_view name);
using TokenSet = std::set<std::string, std::less<>>;  // canonical names
// Adds a finding (`spec`) for each mesh axis that occurs twice in `list`.
// Logical axes and axis rules may be repeated: whether they resolve to the same
// axis is checked during resolution.
void CheckRepeats(const SpecList& list, const TokenSet& registered,
                  Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_SPEC_READ_H_
