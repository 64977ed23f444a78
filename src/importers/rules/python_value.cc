// Lists the values that a Python module defines. They are constants, attributes
// of classes, and the results of its functions when they are called without
// arguments:
//
//   A = (("a", P("tp")),)
//   def rules(self): return A     ->  A and rules, both with A's value
#include "importers/rules/python_value.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "importers/rules/python_evaluator.h"
#include "importers/rules/python_literal.h"
#include "importers/rules/python_names.h"
#include "importers/rules/python_tokens.h"
#include "source/wording.h"

namespace shardc::imports {
namespace {

// The largest number of classes in which an attribute of a class is searched:
// the class itself, and its direct and indirect base classes.
constexpr size_t kOrderLimit = 100;

// Adds to `out` the names of the attributes of `self` that the statements of a
// function assign or change.
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
// rules, or has a type in brackets, such as `Generic[T]`.
bool HasNoRules(const PyNode& base) {
  return base.kind == PyKind::kPart || base.text == "object" ||
         base.text == "ABC" || base.text == "Protocol" ||
         base.text == "NamedTuple";
}

// Functions and methods whose results contain the elements of their arguments,
// or of the object whose method is called. If such an argument contains a
// PartitionSpec, so does the result.
constexpr std::string_view kKeepsElements[] = {
    "OrderedDict", "append", "chain",  "copy",          "deepcopy",
    "dict",        "extend", "filter", "from_iterable", "insert",
    "items",       "list",   "map",    "reversed",      "setdefault",
    "sorted",      "sum",    "tuple",  "update",        "values",
    "zip"};

// The depth to which a value is searched for a PartitionSpec. It suffices for a
// list of pairs.
constexpr int kSpecDepth = 3;

bool HasSpec(const PyValue& value, int depth = kSpecDepth) {
  if (value.is == PyIs::kSpec || value.is == PyIs::kResolved) return true;
  return depth > 0 && std::any_of(value.items.begin(), value.items.end(),
                                  [&](const PyValue& one) {
                                    return HasSpec(one, depth - 1);
                                  });
}

// Returns whether the value of an expression has a PartitionSpec as an element.
// The expression may contain it directly, or as the value of a name in `scope`
// or `globals`.
bool MentionsSpecs(const PyNode& node, const PyScope& scope,
                   const PyScope& globals) {
  if (node.kind == PyKind::kName) {
    for (const PyScope* names : {&scope, &globals}) {
      const auto at = names->find(node.text);
      if (at != names->end()) return HasSpec(at->second);
    }
    return false;
  }
  if (node.kind == PyKind::kLambda) return false;
  if (node.kind == PyKind::kCall) {
    const std::string& function = node.items[0].text;
    if (IsSpecName(function)) return true;
    if (std::find(std::begin(kKeepsElements), std::end(kKeepsElements),
                  function) == std::end(kKeepsElements)) {
      return false;
    }
  }
  return std::any_of(
      node.items.begin(), node.items.end(),
      [&](const PyNode& item) { return MentionsSpecs(item, scope, globals); });
}

// Returns how often statements and parameters bind a name.
int Bindings(const std::vector<PyStatement>& body, const std::string& name) {
  int count = 0;
  for (const PyStatement& one : body) {
    count += one.name == name ? 1 : 0;
    count += static_cast<int>(
        std::count(one.names.begin(), one.names.end(), name) +
        std::count(one.starred.begin(), one.starred.end(), name) +
        std::count_if(
            one.parameters.begin(), one.parameters.end(),
            [&](const auto& parameter) { return parameter.first == name; }));
    count += Bindings(one.body, name) + Bindings(one.other, name);
  }
  return count;
}

// Finds the constants of a module, and then the values of its functions, which
// may use constants that are defined after them.
class ModuleSymbols {
 public:
  ModuleSymbols(const PyModule& module, std::string_view text,
                const std::map<std::string, std::string>& values)
      : module_(module), evaluator_(text, values, names_) {
    Collect(module.body, "", names_.globals, nullptr);
    is_exhausted_ = evaluator_.IsExhausted();
  }

  std::vector<PySymbol> All() {
    std::vector<PySymbol> out;
    List(module_.body, "", out);
    return out;
  }

  PyValue Free(const PyNode& node) {
    std::vector<std::string> names;
    AddNamesIn(node, names);
    for (const std::string& name : names) {
      if (Bindings(module_.body, name) > 1) {
        return Unknown(node, "`" + name + "`, which is bound more than once,");
      }
    }
    PyScope none;
    return evaluator_.Value(node, none, nullptr);
  }

 private:
  // Runs the statements of a body, and collects the functions and classes that
  // it defines. `branch` is true for a block of an `if` or `with`. The call of
  // Run() for the `if` or `with` has already run such a block, so only its
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
    AddMentions(one, scope);
    evaluator_.Step(one, scope, owner);
    if (owner != nullptr) ForgetGlobals(one, scope);
    if (owner == nullptr) ForgetAttributes(one);
    evaluator_.VisitChanged(one, owner, [&](const std::string& name) {
      if (owner == nullptr && name.find('.') == std::string::npos) return;
      const auto global = names_.globals.find(name);
      PyNode place;
      place.begin = place.end = one.begin;
      const PyValue changed =
          Unknown(place, "`" + name + "`, which a function changes here,");
      if (name == kPyGlobals) {
        for (auto& [any, value] : names_.globals) value = changed;
      }
      if (global != names_.globals.end()) global->second = changed;
      ForgetAttribute(name, changed);
    });
  }

  // Collects the names to which a statement assigns a value that contains a
  // PartitionSpec.
  void AddMentions(const PyStatement& one, const PyScope& scope) {
    if (one.act == PyAct::kDefine || one.act == PyAct::kClass) return;
    const auto mentions = [&](const PyNode& node) {
      return MentionsSpecs(node, scope, names_.globals);
    };
    if (mentions(one.value) || mentions(one.target) ||
        std::any_of(one.calls.begin(), one.calls.end(), mentions)) {
      mentioned_.emplace(&scope, one.name);
      for (const std::string& name : one.names) {
        mentioned_.emplace(&scope, name);
      }
    }
    for (const PyStatement& inside : one.body) AddMentions(inside, scope);
    for (const PyStatement& inside : one.other) AddMentions(inside, scope);
  }

  // If a statement in a class changes a list or dict of the module, as
  // `RULES.append(x)` does, marks the list or dict as unknown.
  void ForgetGlobals(const PyStatement& one, const PyScope& scope) {
    if (one.act == PyAct::kDefine || one.act == PyAct::kClass) return;
    const bool grows = one.act == PyAct::kAppend || one.act == PyAct::kExtend ||
                       one.act == PyAct::kPut;
    const auto forget = [&](const std::string& name) {
      const auto own = scope.find(name);
      const auto at = names_.globals.find(name);
      const bool is_own =
          own != scope.end() && own->second.is != PyIs::kUnknown;
      if (is_own || at == names_.globals.end()) return;
      PyNode place;
      place.begin = place.end = one.begin;
      at->second = Unknown(place, "`" + name + "`, which is changed here,");
    };
    if (grows) forget(one.name);
    if (one.act == PyAct::kUnknown) {
      for (const std::string& name : one.names) forget(name);
    }
    for (const PyStatement& inside : one.body) ForgetGlobals(inside, scope);
    for (const PyStatement& inside : one.other) ForgetGlobals(inside, scope);
  }

  // If the name is an attribute of a class, such as `C.rules`, sets the
  // attribute to the value `unknown`.
  void ForgetAttribute(const std::string& name, const PyValue& unknown) {
    const size_t dot = name.find('.');
    if (dot == std::string::npos) return;
    const auto at = names_.classes.find(name.substr(0, dot));
    if (at == names_.classes.end()) return;
    at->second.attributes[name.substr(dot + 1)] = unknown;
  }

  // Marks an attribute of a class as unknown if a statement outside of the
  // class assigns or changes it, as `C.rules.append(x)` does.
  void ForgetAttributes(const PyStatement& one) {
    if (one.act == PyAct::kDefine || one.act == PyAct::kClass) return;
    const auto forget = [&](const std::string& name) {
      PyNode place;
      place.begin = place.end = one.begin;
      ForgetAttribute(name,
                      Unknown(place, "`" + name + "`, which is changed here,"));
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
    // As in Python, a base class that two bases of a class share comes after
    // both of them.
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
      PySymbol symbol{prefix + name, {}, true, true, false, {}};
      symbol.value =
          evaluator_.Called(*function, &owner, &base, symbol.defaults);
      out.push_back(std::move(symbol));
    }
  }

  void List(const std::vector<PyStatement>& body, const std::string& prefix,
            const PyClass* owner, std::set<std::string>& listed,
            std::vector<PySymbol>& out) {
    for (const PyStatement& one : body) {
      if (one.act == PyAct::kIf || one.act == PyAct::kBlock ||
          (one.act == PyAct::kFor && !one.body.empty())) {
        List(one.body, prefix, owner, listed, out);
        List(one.other, prefix, owner, listed, out);
      } else if (one.act == PyAct::kClass) {
        List(one.body, prefix + one.name + ".", out);
      } else if (one.act == PyAct::kDefine) {
        PySymbol symbol{prefix + one.name, {}, true, false, false, {}};
        symbol.value = evaluator_.Called(one, owner, owner, symbol.defaults);
        out.push_back(std::move(symbol));
      } else if (one.act == PyAct::kAssign || one.act == PyAct::kFor ||
                 one.act == PyAct::kUnknown) {
        const PyScope& scope = owner ? owner->attributes : names_.globals;
        // For `a = b = value`, `b` is marked as `is_inherited`, as if it were a
        // name of a base class. The value is then found as one rule set, `a`,
        // and not as two.
        Add(one.name, prefix, scope, false, listed, out);
        const bool same = one.act == PyAct::kAssign && !one.name.empty();
        for (const std::string& name : one.names) {
          Add(name, prefix, scope, same, listed, out);
        }
      }
    }
  }

  void Add(const std::string& name, const std::string& prefix,
           const PyScope& scope, bool inherited, std::set<std::string>& listed,
           std::vector<PySymbol>& out) const {
    if (name.empty() || name.find('.') != std::string::npos) return;
    const auto at = scope.find(name);
    if (at == scope.end() || !listed.insert(name).second) return;
    const bool mentions = mentioned_.contains({&scope, name});
    PySymbol symbol{prefix + name, at->second, false, inherited, mentions, {}};
    if (is_exhausted_) {
      PyNode place;
      place.begin = at->second.begin;
      place.end = at->second.end;
      symbol.value = Unknown(place, std::string(kPyTooInvolved));
    }
    out.push_back(std::move(symbol));
  }

  const PyModule& module_;
  PyNames names_;
  PyEvaluator evaluator_;
  // Whether the evaluation stopped because it reached the limit on steps.
  bool is_exhausted_ = false;
  // The names for which PySymbol::mentions_specs is true, with their scopes.
  std::set<std::pair<const PyScope*, std::string>> mentioned_;
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
    FindAxes(one.target, out);
    for (const PyNode& call : one.calls) FindAxes(call, out);
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

std::function<PyValue(const PyNode&)> ValuesIn(const PyModule& module,
                                               std::string_view text) {
  static const std::map<std::string, std::string> none;
  const auto symbols = std::make_shared<ModuleSymbols>(module, text, none);
  return [symbols](const PyNode& node) { return symbols->Free(node); };
}

std::vector<PyValue> AxesIn(const PyModule& module, std::string_view text) {
  std::vector<const PyNode*> nodes;
  FindAxes(module.body, nodes);
  const auto value_of = ValuesIn(module, text);
  std::vector<PyValue> out;
  for (const PyNode* node : nodes) out.push_back(value_of(*node));
  return out;
}

}  // namespace shardc::imports
