// Finds the names that Python expressions and assignments bind or change.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_NAMES_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_NAMES_H_

#include <string>
#include <string_view>
#include <vector>

#include "importers/rules/python_tree.h"

namespace shardc::imports {

// Returns the name of a variable, or of an attribute together with its
// variable, such as `self.rules`. Returns an empty text for other expressions.
std::string NameOf(const PyNode& node);
// Returns the name of the value that a call such as `rules.append(x)` or
// `rules["q"].append(x)` changes. Returns an empty text for other expressions.
std::string ChangedName(const PyNode& call);

// Returns the variables, and the attributes of variables, that an assignment to
// the expression `target` binds or changes.
std::vector<std::string> NamesOf(const PyNode& target);

// Returns whether an assignment to `target` only binds names, as for `x, (y,
// z)`.
bool BindsNames(const PyNode& target);

// Returns whether a method of this name, such as `append`, changes a list or a
// dict.
bool ChangesObject(std::string_view method);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_NAMES_H_
