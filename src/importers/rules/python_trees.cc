// Flattens a tree of specs into a list. The path to a spec in the tree is the
// name of a parameter:
//
//   {"layers": [{"wq": P("tp")}]}  ->  layers/0/wq P("tp")
#include "importers/rules/python_trees.h"

#include <algorithm>
#include <set>
#include <utility>

#include "importers/rules/python_literal.h"
#include "importers/rules/spec_value.h"
#include "model/rules.h"

namespace shardc::imports {
namespace {

// The largest depth of a tree, which limits the recursion. Real trees of
// parameters are only a few levels deep.
constexpr int kTreeDepthLimit = 64;
// Limits of WithoutParts, which compares the specs of all symbols (named
// values) pairwise. A list of more than kSymbolLimit symbols is not compared.
// Of each symbol, only about kPlaceLimit specs are compared.
constexpr size_t kSymbolLimit = 50, kPlaceLimit = 100'000;

bool HasParts(const PyValue& value) {
  return value.is == PyIs::kDict || value.is == PyIs::kSequence ||
         value.is == PyIs::kObject;
}

// Calls `visit(key, part)` for each part of a dict, list or object. For a list,
// `key` is nullptr. If `visit` returns false, stops and returns false.
bool Parts(const PyValue& value, const auto& visit) {
  if (value.is == PyIs::kDict) {
    for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
      if (!visit(&value.items[i], value.items[i + 1])) return false;
    }
  } else if (value.is == PyIs::kSequence) {
    for (const PyValue& item : value.items) {
      if (!visit(nullptr, item)) return false;
    }
  } else if (value.is == PyIs::kObject) {
    for (const PyField& field : value.fields) {
      PyValue key;
      key.is = PyIs::kText;
      key.text = field.first;
      if (!visit(&key, field.second)) return false;
    }
  }
  return true;
}

bool Holds(const PyValue& value, int depth) {
  if (IsSpecLike(value)) return true;
  return depth < kTreeDepthLimit && HasParts(value) &&
         !Parts(value, [&](const PyValue*, const PyValue& part) {
           return !Holds(part, depth + 1);
         });
}

bool Hangs(const PyValue& value, int depth) {
  if (value.is == PyIs::kUnknown) return !value.flag.empty();
  return depth < kTreeDepthLimit &&
         !Parts(value, [&](const PyValue*, const PyValue& part) {
           return !Hangs(part, depth + 1);
         });
}

void AddPlaces(const PyValue& value, int depth,
               std::set<std::pair<size_t, size_t>>& out) {
  if (IsSpecLike(value)) {
    out.emplace(value.begin, value.end);
  } else if (depth < kTreeDepthLimit && out.size() < kPlaceLimit) {
    Parts(value, [&](const PyValue*, const PyValue& part) {
      AddPlaces(part, depth + 1, out);
      return true;
    });
  }
}

class Flattener {
 public:
  Flattener(const SourceRef& source, Findings& findings)
      : source_(source), findings_(findings) {}

  bool Add(const PyValue& value, const std::string& path, int depth) {
    if (value.is == PyIs::kNone) return true;
    // A tuple of axis names is a spec, not a list of specs.
    const bool inner =
        HasParts(value) && (value.is != PyIs::kSequence || Holds(value, depth));
    if (!inner) {
      leaves_.push_back({path, value});
      return true;
    }
    if (depth >= kTreeDepthLimit) {
      return Refuse(value, "this tree is nested more than 64 deep");
    }
    int64_t index = 0;
    return Parts(value, [&](const PyValue* key, const PyValue& part) {
      if (key != nullptr && key->is == PyIs::kUnknown) {
        RefuseUnknown(source_, *key, findings_);
        return false;
      }
      if (key != nullptr && key->is != PyIs::kText && !IsDecimal(*key)) {
        return Refuse(*key, "this key of a tree is no name");
      }
      const std::string name =
          key == nullptr ? std::to_string(index++) : key->text;
      return Add(part, path.empty() ? name : path + "/" + name, depth + 1);
    });
  }

  std::vector<PyLeaf> Take() { return std::move(leaves_); }

 private:
  bool Refuse(const PyValue& value, std::string message) {
    findings_.Add(code::kInexpressible, {source_, value.begin, value.end},
                  std::move(message));
    return false;
  }

  const SourceRef& source_;
  Findings& findings_;
  std::vector<PyLeaf> leaves_;
};

}  // namespace

bool IsSpecLike(const PyValue& value) {
  return value.is == PyIs::kSpec || value.is == PyIs::kResolved ||
         (value.is == PyIs::kSymbol && FindBuiltinBundle(value.text));
}

bool HoldsSpecs(const PyValue& value) {
  return (value.is == PyIs::kDict || value.is == PyIs::kObject) &&
         Holds(value, 0);
}

bool HangsOnFlag(const PyValue& value) { return Hangs(value, 0); }

bool IsTree(const PyValue& value) {
  if (value.is == PyIs::kObject) return HoldsSpecs(value);
  return value.is == PyIs::kDict &&
         !Parts(value, [](const PyValue*, const PyValue& part) {
           return !HasParts(part) || !Holds(part, 1);
         });
}

std::optional<std::vector<PyLeaf>> LeavesOf(const SourceRef& source,
                                            const PyValue& tree,
                                            Findings& findings) {
  Flattener flattener(source, findings);
  if (!flattener.Add(tree, "", 0)) return std::nullopt;
  return flattener.Take();
}

std::vector<const PySymbol*> WithoutParts(
    const std::vector<const PySymbol*>& symbols) {
  if (symbols.size() > kSymbolLimit) return symbols;
  std::vector<std::set<std::pair<size_t, size_t>>> places(symbols.size());
  for (size_t i = 0; i < symbols.size(); ++i) {
    AddPlaces(symbols[i]->value, 0, places[i]);
  }
  std::vector<const PySymbol*> out;
  for (size_t i = 0; i < symbols.size(); ++i) {
    bool part = false;
    for (size_t j = 0; j < symbols.size() && !part; ++j) {
      const bool larger = places[j].size() > places[i].size() ||
                          (places[j].size() == places[i].size() && j > i);
      part = i != j && larger && !places[i].empty() &&
             std::includes(places[j].begin(), places[j].end(),
                           places[i].begin(), places[i].end());
    }
    if (!part) out.push_back(symbols[i]);
  }
  return out;
}

}  // namespace shardc::imports
