// Finds the rule sets among the values of a Python file.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_SETS_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_SETS_H_

#include <vector>

#include "importers/rules/python_value.h"

namespace shardc::imports {

// Returns whether the value is a pattern. A pattern is a text, or a list of
// texts for consecutive parts of a name.
bool IsPatternLike(const PyValue& value);

// Returns the symbols (named values) that contain rules: lists and dicts of
// patterns. If the file has trees of specs and no such list, returns the trees
// instead.
std::vector<const PySymbol*> WithRules(const std::vector<PySymbol>& symbols);

// If the symbol is probably a rule set, returns the part of its value that
// could not be evaluated. A symbol is probably a rule set if its name suggests
// rules, or if its value contains PartitionSpecs. Otherwise returns null.
const PyValue* UnknownRules(const PySymbol& symbol);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_SETS_H_
