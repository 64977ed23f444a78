// Reads the roles of a `model:` section.
#ifndef SHARDC_PARSE_MODEL_ROLES_H_
#define SHARDC_PARSE_MODEL_ROLES_H_

#include "parse/model_section.h"
#include "yaml/fields.h"

namespace shardc {

// Reads the mapping `params`. A role that is wrong is left out, after a
// finding.
SectionEntries<SectionRole> ReadModelRoles(const YamlContext& context,
                                           const YamlNode& node);

}  // namespace shardc

#endif  // SHARDC_PARSE_MODEL_ROLES_H_
