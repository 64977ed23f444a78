// Finds lists and dicts that a Python file may change through several names.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_SHARING_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_SHARING_H_

#include <string_view>

#include "importers/rules/python_tree.h"
#include "source/finding.h"
#include "source/source.h"

namespace shardc::imports {

// Returns whether the evaluator knows every change of the values on which a
// symbol of the module depends, such as `RULES` or `Config.get_rules`. Returns
// false after a finding if the file may change one of them through another name
// than its own.
bool KnowsChanges(const SourceRef& source, const PyModule& module,
                  std::string_view symbol, Findings& findings);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_SHARING_H_
