// Finds the rule sets among the values of a file. A list of pairs of a pattern
// and a spec is a rule set. A value that is partly unknown may be a rule set,
// too:
//
//   LLAMA = [("wq", P("tp"))]             a rule set
//   RULES = merged(LLAMA)                 unknown, but its name suggests rules
//   SHORT = LLAMA[1:]                     unknown, but it is made of specs
#include "importers/rules/python_sets.h"

#include <algorithm>
#include <string>

#include "importers/rules/python_trees.h"
#include "source/wording.h"

namespace shardc::imports {
namespace {

// Returns whether at least one entry of the value is a pair of a pattern and a
// spec.
bool HasRules(const PyValue& value) {
  if (value.is == PyIs::kDict) {
    for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
      if (IsPatternLike(value.items[i]) && IsSpecLike(value.items[i + 1])) {
        return true;
      }
    }
    return false;
  }
  return value.is == PyIs::kSequence &&
         std::any_of(
             value.items.begin(), value.items.end(), [](const PyValue& v) {
               return v.is == PyIs::kSequence && v.items.size() == 2 &&
                      IsPatternLike(v.items[0]) && IsSpecLike(v.items[1]);
             });
}

// Returns whether the function's name suggests that it returns a tree of specs,
// and a part of the result is unknown because it depends on a flag to which
// `--set` assigns no value.
bool MayHaveTree(const PySymbol& symbol) {
  const std::string name = FoldCase(symbol.name);
  return symbol.is_function && HangsOnFlag(symbol.value) &&
         (name.find("spec") != std::string::npos ||
          name.find("sharding") != std::string::npos);
}

// If the value may be a rule set, returns the part of it that could not be
// evaluated. This is the complete value, or the pattern of a pair such as
// `(f(),P())`. If `named` is true, it may also be the spec of a pair such as
// `("a",f())`. `named` states whether the name of the value suggests rules.
// Returns null if there is no such part.
const PyValue* UnknownPart(const PyValue& value, bool named) {
  if (value.is == PyIs::kUnknown) return &value;
  if (value.is != PyIs::kSequence) return nullptr;
  for (const PyValue& item : value.items) {
    if (item.is != PyIs::kSequence || item.items.size() != 2) continue;
    const PyValue &pattern = item.items[0], &spec = item.items[1];
    if (pattern.is == PyIs::kUnknown && IsSpecLike(spec)) return &pattern;
    if (named && IsPatternLike(pattern) && spec.is == PyIs::kUnknown) {
      return &spec;
    }
  }
  return nullptr;
}

bool SuggestsRules(const PySymbol& symbol) {
  const std::string name = FoldCase(symbol.name);
  return name.find("rule") != std::string::npos ||
         name.find("partition_spec") != std::string::npos;
}

// Returns whether a function probably returns rules, judging by its name, and a
// part of its value is unknown.
bool MayHaveRules(const PySymbol& symbol) {
  return symbol.is_function && SuggestsRules(symbol) &&
         UnknownPart(symbol.value, true) != nullptr;
}

}  // namespace

bool IsPatternLike(const PyValue& value) {
  if (value.is == PyIs::kText) return true;
  return value.is == PyIs::kSequence && !value.items.empty() &&
         std::all_of(value.items.begin(), value.items.end(),
                     [](const PyValue& v) { return v.is == PyIs::kText; });
}

std::vector<const PySymbol*> WithRules(const std::vector<PySymbol>& symbols) {
  std::vector<const PySymbol*> found, trees;
  bool lists = false;
  for (const PySymbol& symbol : symbols) {
    if (symbol.is_inherited) continue;
    const bool dict = symbol.value.is == PyIs::kDict;
    if (HasRules(symbol.value) || MayHaveRules(symbol)) {
      lists = lists || !dict;
      found.push_back(&symbol);
      if (dict) trees.push_back(&symbol);
    } else if (HoldsSpecs(symbol.value) || MayHaveTree(symbol)) {
      trees.push_back(&symbol);
    }
  }
  const bool any =
      std::any_of(trees.begin(), trees.end(),
                  [](const PySymbol* one) { return HoldsSpecs(one->value); });
  return lists || !any ? found : WithoutParts(trees);
}

const PyValue* UnknownRules(const PySymbol& symbol) {
  if (symbol.is_function || symbol.is_inherited) return nullptr;
  const bool named = SuggestsRules(symbol);
  const PyValue* unknown = UnknownPart(symbol.value, named);
  const bool all = unknown == &symbol.value;
  return named || !all || symbol.mentions_specs ? unknown : nullptr;
}

}  // namespace shardc::imports
