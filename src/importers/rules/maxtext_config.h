// Reads a configuration of MaxText with the files that it names, and checks
// what it states about the mesh and the logical axes. No manifest is needed.
#ifndef SHARDC_IMPORTERS_RULES_MAXTEXT_CONFIG_H_
#define SHARDC_IMPORTERS_RULES_MAXTEXT_CONFIG_H_

#include <string>

#include "source/finding.h"
#include "source/source.h"

namespace shardc::imports {

// Adds findings about what MaxText refuses (config-refused), and about what it
// accepts and does in another way (config-silent). `base_config` and the file
// of `model_name` are read, if they are next to the configuration or below a
// folder above it. Returns what the configuration states, for a line of text.
std::string CheckMaxtext(const SourceRef& source, Findings& findings);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_MAXTEXT_CONFIG_H_
