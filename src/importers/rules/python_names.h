// Finds the names that Python expressions and assignments bind or change.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_NAMES_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_NAMES_H_

#include <string>
#include <string_view>
#include <vector>

#include "importers/rules/python_tree.h"

namespace shardc::imports {

// The name that stands for every variable of a module in the lists of names
// that a statement changes: the name of the dict that `globals()` returns.
inline constexpr std::string_view kPyGlobals = "globals()";

// Returns the name of a variable, or of an attribute of one with the variable
// in front, such as `self.rules`. Returns kPyGlobals for `globals()`,
// `locals()` and `vars()`, and an empty text for other expressions.
std::string NameOf(const PyNode& node);
// Returns the name of the value that a call such as `rules.append(x)` or
// `rules["q"].append(x)` changes. Returns an empty text for other expressions.
std::string ChangedName(const PyNode& call);
// Returns the names of the values that a call may change: that of ChangedName,
// or else those of the arguments of `f` in `f(rules).append(x)`, because `f`
// may return one of them, and that of the first argument of a function of
// Python's library that changes it, such as `random.shuffle(rules)`. `exec` may
// change every variable (kPyGlobals).
std::vector<std::string> ChangedNames(const PyNode& call);
// Returns whether a method names its object or its class so.
inline bool IsSelf(std::string_view name) {
  return name == "self" || name == "cls";
}
// Appends all names in an expression to `out`.
void AddNamesIn(const PyNode& node, std::vector<std::string>& out);
// Returns all names in the arguments of a call.
std::vector<std::string> NamesInArguments(const PyNode& call);
// If `changed` has a variable of a comprehension, appends the names that the
// comprehension runs over, whose values a change of the variable may change:
// `[r.append(x) for r in [a]]` changes `a`. The arguments `items` and
// `keywords` are those of a node of the kind kEach.
void AddLoopSources(const std::vector<PyNode>& items,
                    const std::vector<std::string>& keywords,
                    std::vector<std::string>& changed);

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
