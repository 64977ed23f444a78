// Finds the names that Python expressions and assignments bind or change.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_NAMES_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_NAMES_H_

#include <string>
#include <string_view>
#include <vector>

#include "importers/rules/python_tree.h"

namespace shardc::imports {

// In a list of changed names, this name means that every variable of the module
// may have changed. It is the name of the dict that `globals()` returns.
inline constexpr std::string_view kPyGlobals = "globals()";

// Returns the name of a variable, such as `rules`, or of an attribute with its
// object, such as `self.rules`. Returns kPyGlobals for `globals()`, `locals()`
// and `vars()`, and an empty text for other expressions.
std::string NameOf(const PyNode& node);
// Returns the name of the value that a call such as `rules.append(x)` or
// `rules["q"].append(x)` changes. Returns an empty text for other expressions.
std::string ChangedName(const PyNode& call);
// Returns the names of the values that a call may change:
//
//   rules.append(x)         rules, as ChangedName
//   f(rules).append(x)      rules, because `f` may return its argument
//   random.shuffle(rules)   rules, which this function of Python changes
//   exec(text)              kPyGlobals, because any variable may change
std::vector<std::string> ChangedNames(const PyNode& call);
// Returns whether a parameter of this name is a method's object or class.
inline bool IsSelf(std::string_view name) {
  return name == "self" || name == "cls";
}
// Appends all names in an expression to `out`.
void AddNamesIn(const PyNode& node, std::vector<std::string>& out);
// Returns all names in the arguments of a call.
std::vector<std::string> NamesInArguments(const PyNode& call);
// If a comprehension changes one of its variables, it may change the values
// over which it loops. If `changed` contains such a variable, appends the names
// in these values: `[r.append(x) for r in [a]]` changes `a`. The arguments
// `items` and `keywords` are those of a node of the kind kEach.
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
