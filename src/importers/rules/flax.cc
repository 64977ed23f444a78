// Imports logical axis rules from Python source, in the form of flax.linen and
// t5x: a list of pairs. The first element of a pair is a logical axis. The
// second element is a mesh axis, a tuple of mesh axes, or None.
//
//   [("batch", "data"), ("mlp", "model"), ("embed", None)]
#include "importers/rules/importer.h"
#include "importers/rules/logical.h"
#include "importers/rules/python_value.h"
#include "importers/rules/spec_value.h"
#include "source/wording.h"

namespace shardc::imports {
namespace {

bool IsPair(const PyValue& value) {
  if (value.is != PyIs::kSequence || value.items.size() != 2) return false;
  const PyIs second = value.items[1].is;
  return value.items[0].is == PyIs::kText &&
         (second == PyIs::kText || second == PyIs::kNone ||
          second == PyIs::kSequence);
}

bool HasPairs(const PyValue& value) {
  return value.is == PyIs::kSequence && !value.items.empty() &&
         IsPair(value.items[0]);
}

std::optional<PySymbol> Choose(const Request& request,
                               const std::vector<PySymbol>& symbols,
                               Findings& findings) {
  std::vector<const PySymbol*> found;
  std::string names;
  for (const PySymbol& symbol : symbols) {
    const bool named = symbol.name == request.symbol ||
                       symbol.name.ends_with("." + request.symbol);
    if (request.symbol.empty() ? !HasPairs(symbol.value) : !named) continue;
    found.push_back(&symbol);
    names += (names.empty() ? "`" : ", `") + symbol.name + "`";
  }
  if (found.size() == 1) return *found[0];
  findings.Add(
      found.empty() ? code::kInexpressible : code::kUsage, {request.source},
      found.empty() ? "this file holds no such list of logical axis rules"
                    : "this file holds several lists of logical axis rules",
      found.empty() ? "a list of pairs (name, axes)"
                    : "name one with `--symbol`: " + names);
  return std::nullopt;
}

std::optional<Imported> ReadFlax(const Request& request, Findings& findings) {
  const auto module = ParsePython(request.source, findings);
  if (!module || !HasNames(request.source, request.values, findings)) {
    return std::nullopt;
  }
  const auto symbols =
      SymbolsOf(*module, request.source->text(), request.values);
  const auto chosen = Choose(request, symbols, findings);
  if (!chosen) return std::nullopt;
  const PyValue& list = chosen->value;
  if (list.is == PyIs::kUnknown) {
    RefuseUnknown(request.source, list, findings);
    return std::nullopt;
  }
  if (list.is != PyIs::kSequence) {
    findings.Add(code::kInexpressible, {request.source, list.begin, list.end},
                 "`" + chosen->name + "` is no list of logical axis rules");
    return std::nullopt;
  }
  std::vector<LogicalRule> rules;
  for (const PyValue& item : list.items) {
    if (!IsPair(item)) {
      if (item.is == PyIs::kUnknown) {
        RefuseUnknown(request.source, item, findings);
      } else {
        findings.Add(code::kInexpressible,
                     {request.source, item.begin, item.end},
                     "this is no pair of a logical name and mesh axes");
      }
      return std::nullopt;
    }
    const auto entry = EntryOf(request.source, item.items[1], findings);
    if (!entry) return std::nullopt;
    LogicalRule& rule = rules.emplace_back();
    rule.name = item.items[0].text;
    for (const SpecName& name : entry->names) rule.axes.push_back(name.text);
  }
  return ImportLogical(rules, request, findings);
}

}  // namespace

constexpr Importer kFlax{"flax",
                         "logical axis rules of flax.linen in Python source",
                         "--symbol --set --names --mesh", ReadFlax};
constexpr Importer kT5x{"t5x", "logical axis rules of t5x in Python source",
                        "--symbol --set --names --mesh", ReadFlax};

}  // namespace shardc::imports
