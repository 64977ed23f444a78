// Reads the roles of a `model:` section. A role states what a parameter does,
// such as the query projection.
#ifndef SHARDC_PARSE_MODEL_ROLES_H_
#define SHARDC_PARSE_MODEL_ROLES_H_

#include "parse/model_section.h"
#include "yaml/fields.h"

namespace shardc {

// Reads the mapping `params`. An invalid role is omitted after a finding.
SectionEntries<SectionRole> ReadModelRoles(const YamlContext& context,
                                           const YamlNode& node);

}  // namespace shardc

#endif  // SHARDC_PARSE_MODEL_ROLES_H_
