// Reads trees of specs from Python values. A tree consists of nested dicts,
// lists and objects. The path to a spec is the name of its parameter.
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
  std::string name;  // path, such as `layers/0/wq`
  PyValue spec;
};

// Returns whether a value is a spec or the name of a built-in bundle (a named
// set of specs).
bool IsSpecLike(const PyValue& value);

// Returns whether a dict or an object contains a spec, directly or in nested
// values.
bool HoldsSpecs(const PyValue& value);

// Returns whether a value, or a value nested in it, is unknown because it
// depends on a flag to which `--set` assigns no value.
bool HangsOnFlag(const PyValue& value);

// Returns whether a dict contains specs inside a further dict, list or object,
// so that the names of the specs are paths. An object that contains a spec is
// always a tree.
bool IsTree(const PyValue& value);

// Returns the leaves of a tree in the tree's order. Values None are skipped. A
// leaf is usually a spec, but its value is not checked. Returns nullopt after a
// finding (inexpressible) if a key cannot be part of a name, or if the tree is
// nested more than 64 levels deep.
std::optional<std::vector<PyLeaf>> LeavesOf(const SourceRef& source,
                                            const PyValue& tree,
                                            Findings& findings);

// Returns the symbols (named values). Omits a symbol if all of its specs are
// also part of another symbol's value. For example, if one function returns a
// tree and another returns a part of the same tree, only the first is returned.
std::vector<const PySymbol*> WithoutParts(
    const std::vector<const PySymbol*>& symbols);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_TREES_H_
