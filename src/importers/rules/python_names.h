// The names in Python's expressions and assignments.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_NAMES_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_NAMES_H_

#include <string>
#include <string_view>
#include <vector>

#include "importers/rules/python_tree.h"

namespace shardc::imports {

// Returns the name of a variable, or of an attribute of one with the variable
// in front, such as `self.rules`. Returns an empty text for other expressions.
std::string NameOf(const PyNode& node);
// Returns the name of the value that a call such as `rules.append(x)` or
// `rules["q"].append(x)` changes. Returns an empty text for other expressions.
std::string ChangedName(const PyNode& call);

// Returns the names, and the attributes of names, that an assignment to the
// expression `target` binds or changes.
std::vector<std::string> NamesOf(const PyNode& target);

// Returns whether an assignment to `target` binds names only: `x, (y, z)`.
bool BindsNames(const PyNode& target);

// Returns whether a method of this name changes a list or a dict.
bool ChangesObject(std::string_view method);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_NAMES_H_
