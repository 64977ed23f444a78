// The rule sets among the values of a Python file.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_SETS_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_SETS_H_

#include <vector>

#include "importers/rules/python_value.h"

namespace shardc::imports {

// Returns whether the value is a pattern: a text, or a list of the texts that
// follow each other in a name.
bool IsPatternLike(const PyValue& value);

// Returns the symbols that hold rules: lists and dicts of patterns. If the
// file has trees of specs and no list, returns the trees instead.
std::vector<const PySymbol*> WithRules(const std::vector<PySymbol>& symbols);

// Returns the unknown part of a constant that seems to hold rules, by its name
// or because it is made of PartitionSpecs. Returns null for other symbols.
const PyValue* UnknownRules(const PySymbol& symbol);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_SETS_H_
