// Finds the names outside of a function that a call of the function changes.
// Their values are unknown after the call:
//
//   RULES = [("a", P())]
//   def register(name): RULES.append((name, P("tp")))
//   register("b")     ->  RULES is unknown from here on
#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "importers/rules/python_evaluator.h"
#include "importers/rules/python_literal.h"
#include "importers/rules/python_names.h"

namespace shardc::imports {
namespace {

// Three sets of names in a function. `bound` are the names that it binds, and
// `declared` the names that it declares as `global` or `nonlocal`. `touched`
// are the names of lists that it may change: the lists grow, or are passed to a
// call.
struct Names {
  std::set<std::string_view> bound, declared, touched;

  // Returns whether a change of the name is visible outside of the function. A
  // change of an attribute, such as `C.rules`, is visible if the function did
  // not bind the object `C` itself.
  bool IsOutside(std::string_view name) const {
    const std::string_view object = name.substr(0, name.find('.'));
    return !IsSelf(object) &&
           (declared.contains(name) || !bound.contains(object));
  }
};

void AddArguments(const PyNode& node, Names& names) {
  for (const PyNode& item : node.items) {
    if (node.kind == PyKind::kCall && item.kind == PyKind::kName) {
      names.touched.insert(item.text);
    }
    AddArguments(item, names);
  }
}

void AddTouched(const PyStatement& one, Names& names) {
  if (one.act == PyAct::kAppend || one.act == PyAct::kExtend ||
      one.act == PyAct::kPut) {
    names.touched.insert(one.name);
  } else if (one.act == PyAct::kUnknown) {
    names.touched.insert(one.names.begin(), one.names.end());
  }
  AddArguments(one.target, names);
  AddArguments(one.value, names);
  for (const PyNode& call : one.calls) AddArguments(call, names);
}

void AddNames(const std::vector<PyStatement>& body, Names& names) {
  for (const PyStatement& one : body) {
    if (one.act == PyAct::kGlobal) {
      names.declared.insert(one.names.begin(), one.names.end());
      continue;
    }
    const bool binds = one.act == PyAct::kAssign || one.act == PyAct::kFor ||
                       one.act == PyAct::kDefine || one.act == PyAct::kClass;
    if (binds) {
      names.bound.insert(one.name);
      names.bound.insert(one.names.begin(), one.names.end());
    }
    if (one.act == PyAct::kDefine || one.act == PyAct::kClass) continue;
    AddTouched(one, names);
    AddNames(one.body, names);
    AddNames(one.other, names);
  }
}

Names NamesIn(const PyStatement& function) {
  Names out;
  for (const auto& [name, value] : function.parameters) out.bound.insert(name);
  out.bound.insert(function.starred.begin(), function.starred.end());
  AddNames(function.body, out);
  return out;
}

// Calls `visit` for each call in an expression. Adds the number of the
// expression's nodes to `steps`.
void ForEachCall(const PyNode& node, int64_t& steps, const auto& visit) {
  ++steps;
  if (node.kind == PyKind::kCall) visit(node);
  for (const PyNode& item : node.items) ForEachCall(item, steps, visit);
}

// Calls `visit` for each statement of `body` that defines a function or
// declares names as `global` or `nonlocal`. Also visits such statements in
// nested blocks, such as the body of an `if`, but not inside functions and
// classes.
void ForEachInner(const std::vector<PyStatement>& body, const auto& visit) {
  for (const PyStatement& one : body) {
    if (one.act == PyAct::kDefine || one.act == PyAct::kGlobal) {
      visit(one);
    } else if (one.act != PyAct::kClass) {
      ForEachInner(one.body, visit);
      ForEachInner(one.other, visit);
    }
  }
}

void ForEachCall(const PyStatement& one, int64_t& steps, const auto& visit) {
  ForEachCall(one.target, steps, visit);
  ForEachCall(one.value, steps, visit);
  for (const PyNode& call : one.calls) ForEachCall(call, steps, visit);
}

}  // namespace

struct PyEvaluator::Outside {
  std::set<const PyStatement*> visited;
  std::vector<std::pair<const PyStatement*, const PyClass*>> left;
  std::set<std::string> names;

  void Visit(const PyStatement* function, const PyClass* owner) {
    if (visited.insert(function).second) left.emplace_back(function, owner);
  }
};

std::pair<PyMethod, const PyClass*> PyEvaluator::RunBy(const PyNode& call,
                                                       const PyScope& scope,
                                                       const PyClass* owner) {
  const PyNode& function = call.items[0];
  if (function.kind != PyKind::kName) return FunctionOf(function, scope, owner);
  const PyClass* made = ClassNamed(function.text);
  if (made != nullptr) return {MethodOf(*made, "__init__"), made};
  const auto found = FunctionOf(function, scope, owner);
  if (found.first.function != nullptr) return found;
  const PyValue bound = Named(function, scope);
  const auto at = bound.is == PyIs::kSymbol ? names_.functions.find(bound.text)
                                            : names_.functions.end();
  if (at == names_.functions.end()) return {};
  return {PyMethod{at->second, nullptr}, nullptr};
}

bool PyEvaluator::ForgetAll(const PyStatement& one, PyScope& scope) {
  if (one.name != kPyGlobals &&
      std::find(one.names.begin(), one.names.end(), kPyGlobals) ==
          one.names.end() &&
      (one.act != PyAct::kAssign || NameOf(one.value) != kPyGlobals)) {
    return false;
  }
  ForgetAll(one.begin, scope);
  return true;
}

void PyEvaluator::ForgetAll(size_t begin, PyScope& scope) {
  PyNode at;
  at.begin = at.end = begin;
  const auto forget = [&](const std::string& name) {
    if (++steps_ > kPyStepLimit) return;
    scope[name] =
        Unknown(at, "`" + name + "`, which `" + std::string(kPyGlobals) +
                        "` or `exec` may change here,");
  };
  std::vector<std::string> names;
  for (const PyScope* all : {&names_.globals, &std::as_const(scope)}) {
    for (const auto& [name, value] : *all) names.push_back(name);
  }
  std::for_each(names.begin(), names.end(), forget);
}

std::optional<PyValue> PyEvaluator::ListNamed(const std::string& name,
                                              const PyScope& scope) const {
  const auto own = scope.find(name);
  const auto global = names_.globals.find(name);
  if (own == scope.end() && global == names_.globals.end()) return {};
  const PyValue& value = own == scope.end() ? global->second : own->second;
  const bool list = value.is == PyIs::kSequence || value.is == PyIs::kDict;
  return list ? std::optional(value) : std::nullopt;
}

void PyEvaluator::ForgetList(const std::string& name, const PyNode& node,
                             PyScope& scope) {
  const auto value = ListNamed(name, scope);
  if (!value) return;
  PyStatement at;
  at.name = name;
  at.value.begin = node.begin;
  at.value.end = node.end;
  ForgetInside(*value, at, scope);
  scope[name] = Unknown(node, "what `" + name + "` holds");
}

bool PyEvaluator::ChangesArguments(const PyStatement& function,
                                   const PyClass* object) {
  const std::pair key(&function, object);
  if (const auto at = changing_.find(key); at != changing_.end()) {
    return at->second;
  }
  // If the search reaches the same function again, as for `map(f, x)` inside
  // `f`, it finds this entry and ends there. Such a call changes only what the
  // function's other statements change.
  changing_[key] = false;
  const bool changes = std::any_of(
      function.parameters.begin(), function.parameters.end(),
      [&](const auto& parameter) {
        return Changes(function.body, parameter.first, true, object);
      });
  changing_[key] = changes;
  return changes;
}

bool PyEvaluator::ChangesArguments(const PyNode& lambda, const PyClass* owner) {
  return std::any_of(lambda.keywords.begin(), lambda.keywords.end(),
                     [&](const std::string& parameter) {
                       return Changes(lambda.items[0], parameter, true, owner);
                     });
}

void PyEvaluator::ForEachRun(const PyNode& call, const PyScope& scope,
                             const PyClass* owner, const auto& visit) {
  const auto [method, object] = RunBy(call, scope, owner);
  if (method.function != nullptr) visit(*method.function, object);
  for (size_t i = 1; i < call.items.size(); ++i) {
    const auto [passed, of] = FunctionOf(call.items[i], scope, owner);
    if (passed.function != nullptr) visit(*passed.function, of);
  }
}

bool PyEvaluator::PassesChange(const PyNode& call, const PyScope& scope,
                               const PyClass* owner) {
  for (size_t i = 1; i < call.items.size(); ++i) {
    const PyNode& item = call.items[i];
    if (item.kind == PyKind::kLambda && ChangesArguments(item, owner)) {
      return true;
    }
    const auto [passed, of] = FunctionOf(item, scope, owner);
    if (passed.function != nullptr && ChangesArguments(*passed.function, of)) {
      return true;
    }
    if (inner_ == nullptr || item.kind != PyKind::kName) continue;
    const auto [begin, end] = inner_->functions.equal_range(item.text);
    if (std::any_of(begin, end, [&](const auto& one) {
          return ChangesArguments(*one.second, owner);
        })) {
      return true;
    }
  }
  const PyNode& function = call.items[0];
  if (function.kind == PyKind::kLambda) {
    return ChangesArguments(function, owner);
  }
  if (function.kind == PyKind::kAttribute) return false;
  if (function.kind != PyKind::kName) return true;
  if (CallsInner(call) || RunBy(call, scope, owner).first.function != nullptr) {
    return false;
  }
  return Named(function, scope).is == PyIs::kUnknown;
}

void PyEvaluator::ForgetPassed(const PyNode& call, PyScope& scope,
                               const PyClass* owner) {
  for (size_t i = 1; i < call.items.size(); ++i) {
    const auto [passed, of] = FunctionOf(call.items[i], scope, owner);
    if (passed.function == nullptr) continue;
    PyNode at = call;
    at.items[0] = call.items[i];
    ForgetOutside(*passed.function, of, at, scope);
  }
  if (!PassesChange(call, scope, owner)) return;
  for (const std::string& name : NamesInArguments(call)) {
    ForgetList(name, call, scope);
  }
}

void PyEvaluator::AddChanged(const PyStatement& function, const PyClass* owner,
                             Outside& found) {
  const Names names = NamesIn(function);
  const auto add = [&](const std::string& name) {
    if (!name.empty() && names.IsOutside(name)) found.names.insert(name);
  };
  const auto search = [&](const auto& self,
                          const std::vector<PyStatement>& body) -> void {
    for (const PyStatement& one : body) {
      // Above the limit every value is unknown, so the names need not be found.
      if (++steps_ > kPyStepLimit) return;
      if (one.act == PyAct::kClass || one.act == PyAct::kGlobal) continue;
      if (one.act == PyAct::kDefine) {
        // An inner function may change names of this function, too.
        std::set<std::string> before = std::exchange(found.names, {});
        AddChanged(one, owner, found);
        const auto inner = std::exchange(found.names, std::move(before));
        for (const std::string& name : inner) add(name);
        continue;
      }
      add(one.name);
      for (const std::string& name : one.names) add(name);
      if (one.act == PyAct::kAssign && NameOf(one.value) == kPyGlobals) {
        found.names.insert(std::string(kPyGlobals));
      }
      // `rules = RULES; rules.append(x)` changes RULES.
      if (one.act == PyAct::kAssign && one.value.kind == PyKind::kName &&
          names.IsOutside(one.value.text) && names.touched.contains(one.name) &&
          Changes(function.body, one.name, true, owner)) {
        found.names.insert(one.value.text);
      }
      ForEachCall(one, steps_, [&](const PyNode& call) {
        ForEachRun(call, {}, owner,
                   [&](const PyStatement& run, const PyClass* object) {
                     found.Visit(&run, object);
                   });
        for (const std::string& name : ChangedArguments(call, owner)) add(name);
      });
      self(self, one.body);
      self(self, one.other);
    }
  };
  search(search, function.body);
  // A function `def f(x=RULES): x.append(1)` changes RULES.
  for (const auto& [name, value] : function.parameters) {
    if (value && value->kind == PyKind::kName &&
        Changes(function.body, name, true, owner)) {
      found.names.insert(value->text);
    }
  }
}

const std::set<std::string>& PyEvaluator::ChangedOutside(
    const PyStatement& function, const PyClass* owner) {
  const auto [at, is_new] = outside_.try_emplace({&function, owner});
  if (is_new) {
    Outside found;
    found.Visit(&function, owner);
    while (!found.left.empty()) {
      const auto [next, of] = found.left.back();
      found.left.pop_back();
      AddChanged(*next, of, found);
    }
    at->second = std::move(found.names);
  }
  return at->second;
}

void PyEvaluator::VisitChanged(
    const PyStatement& one, const PyClass* owner,
    const std::function<void(const std::string& name)>& visit) {
  ForEachCall(one, steps_, [&](const PyNode& call) {
    ForEachRun(call, {}, owner,
               [&](const PyStatement& run, const PyClass* object) {
                 if (IsExhausted()) return;
                 const auto& changed = ChangedOutside(run, object);
                 steps_ += static_cast<int64_t>(changed.size());
                 std::for_each(changed.begin(), changed.end(), visit);
               });
  });
  for (const auto* body : {&one.body, &one.other}) {
    for (const PyStatement& inside : *body) {
      if (inside.act == PyAct::kDefine || inside.act == PyAct::kClass) continue;
      VisitChanged(inside, owner, visit);
    }
  }
}

void PyEvaluator::ForgetOutside(const PyStatement& function,
                                const PyClass* owner, const PyNode& call,
                                PyScope& scope) {
  const auto& changed = ChangedOutside(function, owner);
  if (changed.contains(std::string(kPyGlobals))) ForgetAll(call.begin, scope);
  for (const std::string& name : changed) {
    if (++steps_ > kPyStepLimit) return;
    const auto own = scope.find(name);
    const bool has_own = own != scope.end();
    if (has_own && own->second.is == PyIs::kUnknown) continue;
    // A name that the function declares as `global` is the module's name, even
    // if the function's scope contains it.
    const bool is_module =
        &scope == &names_.globals ||
        (inner_ != nullptr && inner_->declared.contains(name));
    if (has_own && !is_module) continue;
    const auto global = names_.globals.find(name);
    const bool has_global = global != names_.globals.end();
    const bool is_attribute = name.find('.') != std::string::npos;
    if (!has_own && !has_global && !is_attribute) continue;
    PyStatement at;
    at.name = name;
    at.value.begin = call.begin;
    at.value.end = call.end;
    if (has_own) {
      ForgetInside(PyValue(own->second), at, scope);
    } else if (has_global && !is_attribute) {
      ForgetInside(global->second, at, scope);
    }
    scope[name] = Unknown(
        call, "`" + name + "`, which `" + TextOf(call.items[0]) + "` changes,");
  }
}

PyEvaluator::Inner PyEvaluator::InnerOf(const PyStatement& function,
                                        const PyClass* owner) {
  Inner out;
  ForEachInner(function.body, [&](const PyStatement& one) {
    if (one.act == PyAct::kGlobal) {
      out.declared.insert(one.names.begin(), one.names.end());
      return;
    }
    const auto& changed = ChangedOutside(one, owner);
    steps_ += static_cast<int64_t>(changed.size());
    out.functions.emplace(one.name, &one);
    if (!IsExhausted()) out.changed.insert(changed.begin(), changed.end());
  });
  return out;
}

bool PyEvaluator::CallsInner(const PyNode& call) const {
  return inner_ != nullptr && call.items[0].kind == PyKind::kName &&
         inner_->functions.contains(call.items[0].text);
}

void PyEvaluator::ForgetInner(PyScope& scope, const PyStatement& at) {
  if (inner_ == nullptr) return;
  for (const std::string& name : inner_->changed) {
    if (++steps_ > kPyStepLimit) return;
    const auto own = scope.find(name);
    if (own == scope.end() || own->second.is == PyIs::kUnknown) continue;
    PyNode place;
    place.begin = place.end = at.begin;
    own->second = Unknown(
        place, "`" + name + "`, which a function inside of this one changes,");
  }
}

}  // namespace shardc::imports
