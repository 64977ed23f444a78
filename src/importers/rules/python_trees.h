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

// Whether a value, or one inside of a dict, list or object, hangs on a flag.
bool HangsOnFlag(const PyValue& value);

// Whether it has one below another dict, list or object, so that names are
// paths; objects are always trees.
bool IsTree(const PyValue& value);

// The specs of a tree in its order; None is no parameter. Returns nullopt after
// a finding (inexpressible) at a key or value that is unknown or neither.
std::optional<std::vector<PyLeaf>> LeavesOf(const SourceRef& source,
                                            const PyValue& tree,
                                            Findings& findings);

// The symbols without those all of whose specs are written in the value of
// another one: functions that return a part of a tree.
std::vector<const PySymbol*> WithoutParts(
    const std::vector<const PySymbol*>& symbols);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_TREES_H_
