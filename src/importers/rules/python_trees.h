// Trees of specs in Python: dicts, lists and objects inside each other. The
// path to a spec is the name of its parameter.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_TREES_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_TREES_H_

#include <optional>
#include <string>
#include <vector>

#include "importers/rules/python_value.h"
#include "source/finding.h"
#include "source/source.h"

namespace shardc::imports {

struct PyLeaf {
  std::string name;  // `layers/0/wq`
  PyValue spec;
};

// Whether a value is a spec or the name of a built-in bundle.
bool IsSpecLike(const PyValue& value);

// Whether a dict or an object has a spec in it, at any depth.
bool HoldsSpecs(const PyValue& value);

// Returns whether a value, or a value nested in it, depends on a flag that is
// not given.
bool HangsOnFlag(const PyValue& value);

// Returns whether specs are in a dict, list or object inside another one, so
// that their names are paths. An object is always a tree.
bool IsTree(const PyValue& value);

// Returns the specs of a tree in its order, where None is skipped. Returns
// nullopt after a finding (inexpressible) at a key that is no name, or at a
// value that is neither a spec nor a tree.
std::optional<std::vector<PyLeaf>> LeavesOf(const SourceRef& source,
                                            const PyValue& tree,
                                            Findings& findings);

// Returns the symbols except those all of whose specs are written in the value
// of another symbol, such as functions that return a part of a tree.
std::vector<const PySymbol*> WithoutParts(
    const std::vector<const PySymbol*>& symbols);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_TREES_H_
