// Lists the values that a Python module defines: constants, attributes of
// classes, and the results of its functions when they are called without
// arguments:
//
//   A = (("a", P("tp")),)
//   def rules(self): return A     ->  A and rules, both with A's value
#include "importers/rules/python_value.h"

#include <algorithm>
#include <set>
#include <utility>

#include "importers/rules/python_evaluator.h"
#include "importers/rules/python_literal.h"
#include "importers/rules/python_tokens.h"
#include "source/wording.h"

namespace shardc::imports {
namespace {

constexpr size_t kOrderLimit = 100;  // base classes of one class

// Adds the names of the attributes of `self` that the statements of a function
// assign or change.
void AddAttributes(const std::vector<PyStatement>& body,
                   std::set<std::string, std::less<>>& out) {
  const auto add = [&](std::string_view name) {
    if (name.starts_with(kPySelf)) out.emplace(name.substr(kPySelf.size()));
  };
  for (const PyStatement& one : body) {
    add(one.name);
    for (const std::string& name : one.names) add(name);
    AddAttributes(one.body, out);
    AddAttributes(one.other, out);
  }
}

// Returns whether a base class is one of Python's own classes, which define no
// rules.
bool HasNoRules(const PyNode& base) {
  return base.kind == PyKind::kPart || base.text == "object" ||
         base.text == "ABC" || base.text == "Protocol" ||
         base.text == "NamedTuple";
}

// Reads the constants of a module, and then the values of its functions, which
// may use constants that are defined after them.
class ModuleSymbols {
 public:
  ModuleSymbols(const PyModule& module, std::string_view text,
                const std::map<std::string, std::string>& values)
      : module_(module), evaluator_(text, values, names_) {
    Collect(module.body, "", names_.globals, nullptr);
  }

  std::vector<PySymbol> All() {
    std::vector<PySymbol> out;
    List(module_.body, "", out);
    return out;
  }

  PyValue Free(const PyNode& node) {
    PyScope none;
    return evaluator_.Value(node, none, nullptr);
  }

 private:
  // Runs the statements of a body, and collects the functions and classes that
  // it defines. Step runs the branches of an `if` itself, so in a branch only
  // definitions are collected.
  void Collect(const std::vector<PyStatement>& body, const std::string& prefix,
               PyScope& scope, PyClass* owner, bool branch = false) {
    for (const PyStatement& one : body) {
      if (one.act == PyAct::kIf || one.act == PyAct::kBlock) {
        if (!branch) Run(one, scope, owner);
        Collect(one.body, prefix, scope, owner, true);
        Collect(one.other, prefix, scope, owner, true);
      } else if (one.act == PyAct::kClass) {
        PyClass& made = names_.classes[prefix + one.name];
        made.order = OrderOf(one, made);
        Collect(one.body, prefix + one.name + ".", made.attributes, &made);
      } else if (one.act == PyAct::kDefine) {
        (owner ? owner->functions : names_.functions)[one.name] = &one;
        if (owner) AddAttributes(one.body, owner->assigned);
      } else if (!branch) {
        Run(one, scope, owner);
      }
    }
  }

  void Run(const PyStatement& one, PyScope& scope, const PyClass* owner) {
    evaluator_.Step(one, scope, owner);
    if (owner == nullptr) ForgetAttributes(one);
  }

  // If a statement outside of a class assigns or changes an attribute of the
  // class, such as `C.rules.append(x)`, marks the attribute as unknown.
  void ForgetAttributes(const PyStatement& one) {
    if (one.act == PyAct::kDefine || one.act == PyAct::kClass) return;
    const auto forget = [&](const std::string& name) {
      const size_t dot = name.find('.');
      if (dot == std::string::npos) return;
      const auto at = names_.classes.find(name.substr(0, dot));
      if (at == names_.classes.end()) return;
      PyNode place;
      place.begin = place.end = one.begin;
      at->second.attributes[name.substr(dot + 1)] =
          Unknown(place, "`" + name + "`, which is changed here,");
    };
    forget(one.name);
    for (const std::string& name : one.names) forget(name);
    for (const PyStatement& inside : one.body) ForgetAttributes(inside);
    for (const PyStatement& inside : one.other) ForgetAttributes(inside);
  }

  std::vector<const PyClass*> OrderOf(const PyStatement& one,
                                      const PyClass& made) {
    std::vector<const PyClass*> all;
    for (size_t i = 1; i < one.value.items.size(); ++i) {
      const PyNode& base = one.value.items[i];
      if (!one.value.keywords[i - 1].empty() || HasNoRules(base)) continue;
      const auto at = names_.classes.find(base.text);
      if (base.kind != PyKind::kName || at == names_.classes.end()) break;
      all.insert(all.end(), at->second.order.begin(), at->second.order.end());
      if (all.size() > kOrderLimit) break;
    }
    // As in Python, a class that is a base of two bases comes after both of
    // them.
    std::vector<const PyClass*> out;
    std::set<const PyClass*> seen = {&made};
    for (auto it = all.rbegin(); it != all.rend(); ++it) {
      if (seen.insert(*it).second) out.push_back(*it);
    }
    out.push_back(&made);
    std::reverse(out.begin(), out.end());
    if (out.size() > kOrderLimit) out.resize(kOrderLimit);
    return out;
  }

  void List(const std::vector<PyStatement>& body, const std::string& prefix,
            std::vector<PySymbol>& out) {
    const PyClass* owner =
        prefix.empty() ? nullptr
                       : &names_.classes[prefix.substr(0, prefix.size() - 1)];
    std::set<std::string> listed;
    List(body, prefix, owner, listed, out);
    if (owner == nullptr) return;
    for (const PyClass* base : owner->order) {
      if (base != owner) Inherit(*base, *owner, prefix, listed, out);
    }
  }

  void Inherit(const PyClass& base, const PyClass& owner,
               const std::string& prefix, std::set<std::string>& listed,
               std::vector<PySymbol>& out) {
    for (const auto& [name, function] : base.functions) {
      if (owner.functions.contains(name) || !listed.insert(name).second) {
        continue;
      }
      PySymbol symbol{prefix + name, {}, true, true, {}};
      symbol.value =
          evaluator_.Called(*function, &owner, &base, symbol.defaults);
      out.push_back(std::move(symbol));
    }
  }

  void List(const std::vector<PyStatement>& body, const std::string& prefix,
            const PyClass* owner, std::set<std::string>& listed,
            std::vector<PySymbol>& out) {
    for (const PyStatement& one : body) {
      if (one.act == PyAct::kIf || one.act == PyAct::kBlock) {
        List(one.body, prefix, owner, listed, out);
        List(one.other, prefix, owner, listed, out);
      } else if (one.act == PyAct::kClass) {
        List(one.body, prefix + one.name + ".", out);
      } else if (one.act == PyAct::kDefine) {
        PySymbol symbol{prefix + one.name, {}, true, false, {}};
        symbol.value = evaluator_.Called(one, owner, owner, symbol.defaults);
        out.push_back(std::move(symbol));
      } else if (one.act == PyAct::kAssign && !one.name.empty() &&
                 one.name.find('.') == std::string::npos &&
                 listed.insert(one.name).second) {
        const PyScope& scope = owner ? owner->attributes : names_.globals;
        const auto at = scope.find(one.name);
        if (at != scope.end()) {
          out.push_back({prefix + one.name, at->second, false, false, {}});
        }
      }
    }
  }

  const PyModule& module_;
  PyNames names_;
  PyEvaluator evaluator_;
};

bool HasWord(std::string_view text, std::string_view word) {
  if (!std::all_of(word.begin(), word.end(), IsPyNamePart)) return false;
  for (size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !IsPyNamePart(text[at - 1])) &&
        (end == text.size() || !IsPyNamePart(text[end]))) {
      return true;
    }
  }
  return false;
}

void FindAxes(const PyNode& node, std::vector<const PyNode*>& out) {
  if (node.kind == PyKind::kCall && node.items[0].text == "PartitionAxis") {
    out.push_back(&node);
  }
  for (const PyNode& item : node.items) FindAxes(item, out);
}

void FindAxes(const std::vector<PyStatement>& body,
              std::vector<const PyNode*>& out) {
  for (const PyStatement& one : body) {
    FindAxes(one.value, out);
    for (const auto& [name, given] : one.parameters) {
      if (given) FindAxes(*given, out);
    }
    FindAxes(one.body, out);
    FindAxes(one.other, out);
  }
}

}  // namespace

std::vector<PySymbol> SymbolsOf(
    const PyModule& module, std::string_view text,
    const std::map<std::string, std::string>& values) {
  return ModuleSymbols(module, text, values).All();
}

bool HasNames(const SourceRef& source,
              const std::map<std::string, std::string>& values,
              Findings& findings) {
  for (const auto& [name, value] : values) {
    if (HasWord(source->text(), name)) continue;
    findings.Add(code::kUsage, {source},
                 "this file has no " + ShortQuote(name) +
                     ", to which `--set` gives a value",
                 "name a parameter of a function, or an attribute without its "
                 "object, such as `num_layers`");
    return false;
  }
  return true;
}

std::vector<PyValue> AxesIn(const PyModule& module, std::string_view text) {
  std::vector<const PyNode*> nodes;
  FindAxes(module.body, nodes);
  const std::map<std::string, std::string> none;
  ModuleSymbols symbols(module, text, none);
  std::vector<PyValue> out;
  for (const PyNode* node : nodes) out.push_back(symbols.Free(*node));
  return out;
}

}  // namespace shardc::imports
