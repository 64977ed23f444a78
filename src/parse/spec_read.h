// Partition specs and what else names axes, as YAML.
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

// A list with an entry for each dimension: null, a name, or a group.
std::optional<SpecList> ReadSpecList(const YamlContext& context,
                                     const YamlNode& node);
// The above, a bundle's name, or (where `like_allowed`) `{like: ...}`.
std::optional<SpecSource> ReadSpecSource(const YamlContext& context,
                                         const YamlNode& node,
                                         bool like_allowed);
// null, the name of a mesh axis, or a list of such names.
std::optional<AxisValue> ReadAxisValue(const YamlContext& context,
                                       const YamlNode& node,
                                       std::string_view what);
// A registration's rule: null, a name, `{axis: x}`, or a list of these.
std::optional<RegisteredRule> ReadRegisteredRule(const YamlContext& context,
                                                 const YamlNode& node);

// The token that a registration's name stands for: `X` serves for `__X__`.
std::string CanonicalToken(std::string_view name);
using TokenSet = std::set<std::string, std::less<>>;  // canonical
// An axis that `list` names twice (finding `spec`). Tokens, built in or
// registered, and axis-rule names may stand twice: their repetition arises
// by resolution and is judged there.
void CheckRepeats(const SpecList& list, const TokenSet& registered,
                  Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_SPEC_READ_H_
