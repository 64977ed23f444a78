// Evaluates calls in Python source: of PartitionSpec and similar constructors,
// of a few built-in functions, and of the functions and classes of the file:
//
//   class B(A):
//     def rules(self): return (("x", P()),) + super().rules()
//       ->  the rule of "x", then the rules of A
#include <algorithm>
#include <utility>

#include "importers/rules/python_evaluator.h"
#include "importers/rules/python_literal.h"
#include "importers/rules/python_names.h"

namespace shardc::imports {
namespace {

bool IsSuper(const PyNode& node) {
  return node.kind == PyKind::kCall && node.items[0].kind == PyKind::kName &&
         node.items[0].text == "super";
}

// Finds the calls whose results these statements assign to `name` or
// `self.name`. Appends the name of each function or class that is called.
void Assigned(const std::vector<PyStatement>& body, std::string_view name,
              std::vector<std::string_view>& out) {
  for (const PyStatement& one : body) {
    std::string_view assigned = one.name;
    if (assigned.starts_with(kPySelf)) assigned.remove_prefix(kPySelf.size());
    if (one.act == PyAct::kAssign && assigned == name &&
        one.value.kind == PyKind::kCall) {
      out.push_back(one.value.items[0].text);
    }
    Assigned(one.body, name, out);
    Assigned(one.other, name, out);
  }
}

}  // namespace

const PyValue* AttributeOf(const PyClass& of, std::string_view name) {
  for (const PyClass* one : of.order) {
    const auto at = one->attributes.find(name);
    if (at != one->attributes.end()) return &at->second;
  }
  return nullptr;
}

bool SetsAttribute(const PyClass& of, std::string_view name) {
  return std::any_of(of.order.begin(), of.order.end(), [&](const PyClass* one) {
    return one->assigned.contains(name);
  });
}

PyMethod MethodOf(const PyClass& of, std::string_view name,
                  const PyClass* after) {
  auto from = of.order.begin();
  if (after != nullptr) {
    from = std::find(of.order.begin(), of.order.end(), after);
    if (from != of.order.end()) ++from;
  }
  for (; from != of.order.end(); ++from) {
    const auto at = (*from)->functions.find(name);
    if (at != (*from)->functions.end()) return {at->second, *from};
  }
  return {};
}

PyValue PyEvaluator::Call(const PyNode& node, PyScope& scope,
                          const PyClass* owner) {
  const PyNode& function = node.items[0];
  std::string name = function.text;
  if (function.kind == PyKind::kName) {
    // The name may be an alias: `PS = PartitionSpec`, `resolve = pmag.resolve`.
    const PyValue bound = Named(function, scope);
    if (bound.is == PyIs::kSymbol) name = bound.text;
    if (bound.is == PyIs::kUnknown && bound.flag == "resolve") name = "resolve";
  }
  if (function.kind != PyKind::kName && function.kind != PyKind::kAttribute) {
    ForgetCalls(node, scope, owner);
    return Unknown(node, "what `" + TextOf(function) + "` returns");
  }
  if (IsSpecName(name)) return Arguments(PyIs::kSpec, node, scope, owner);
  if (name == "resolve" || name == "resolve_spec" ||
      name == "DynamicShardingAxes") {
    return ResolvedOf(Arguments(PyIs::kResolved, node, scope, owner), node);
  }
  if (name == "PartitionAxis")
    return Arguments(PyIs::kAxes, node, scope, owner);
  const bool one = node.items.size() == 2 && node.keywords[0].empty() &&
                   node.items[1].kind != PyKind::kStar;
  if (one && KeepsItsArgument(name)) {
    PyValue value = Value(node.items[1], scope, owner);
    if (name != "list" && name != "dict") return value;
    // `list(x)` and `dict(x)` make a copy. Later changes of the copy must not
    // change `x`, so the elements are copied.
    if (!Make(BytesOf(value.items))) {
      return Unknown(node, std::string(kPyTooInvolved));
    }
    const PyList<PyValue> items = std::exchange(value.items, {});
    for (const PyValue& item : items) value.items.push_back(item);
    value.items.Allocate();
    if (name == "list") value.begin = node.begin;
    return value;
  }
  if (name == "NamedSharding" && node.items.size() == 3 &&
      node.keywords[1].empty() && node.items[2].kind != PyKind::kStar) {
    return Value(node.items[2], scope, owner);
  }
  if (CallsInner(node)) {
    // An inner function may read names of the function around it, which are not
    // looked up. The result of the call is therefore unknown.
    ForgetCalls(node, scope, owner);
    return Unknown(node, "what `" + TextOf(function) + "` returns");
  }
  if (auto built = Builtin(name, node, scope, owner)) return std::move(*built);
  const auto [method, object] = FunctionOf(function, scope, owner);
  if (method.function != nullptr) {
    auto given = Given(*method.function, node, scope, owner);
    ForgetArguments(node, scope, owner);
    if (given) return Called(method, object, std::move(*given));
  }
  ForgetCalls(node, scope, owner);
  return Unknown(node, "what `" + TextOf(function) + "` returns");
}

// Evaluates calls of built-in functions: range, enumerate, zip, dict with
// keywords, and the methods items, keys and values of a dict. Also evaluates
// the constructors of the file's classes. Returns nullopt for any other call.
std::optional<PyValue> PyEvaluator::Builtin(std::string_view name,
                                            const PyNode& node, PyScope& scope,
                                            const PyClass* owner) {
  const PyNode& function = node.items[0];
  if (function.kind == PyKind::kAttribute) {
    if (node.items.size() > 1) return std::nullopt;
    const bool keys = name == "keys", items = name == "items";
    if (!keys && !items && name != "values") return std::nullopt;
    PyValue of = Value(function.items[0], scope, owner);
    if (of.is != PyIs::kDict) return std::nullopt;
    if (keys) return Elements(std::move(of), node);
    PyValue out = Simple(PyIs::kSequence, node);
    for (size_t i = 0; i + 1 < of.items.size(); i += 2) {
      PyValue pair = Simple(PyIs::kSequence, node);
      pair.items.push_back(of.items[i]);
      pair.items.push_back(of.items[i + 1]);
      out.items.push_back(items ? Sized(std::move(pair), node)
                                : of.items[i + 1]);
    }
    if (!Make(BytesOf(out.items))) {
      return Unknown(node, std::string(kPyTooInvolved));
    }
    return Sized(std::move(out), node);
  }
  const bool counts = name == "enumerate";
  if (name == "range" || counts || name == "zip") {
    const PyValue given = Arguments(PyIs::kSequence, node, scope, owner);
    if (!given.fields.empty()) return std::nullopt;
    return name == "range" ? Range(node, given) : Zipped(node, given, counts);
  }
  const bool named = node.items.size() > 1 &&
                     std::none_of(node.keywords.begin(), node.keywords.end(),
                                  [](const std::string& keyword) {
                                    return keyword.empty() || keyword == "**";
                                  });
  if (name == "dict" && named) {
    PyValue out = Simple(PyIs::kDict, node);
    for (size_t i = 1; i < node.items.size(); ++i) {
      out.items.push_back(
          Simple(PyIs::kText, node.items[i], node.keywords[i - 1]));
      out.items.push_back(Value(node.items[i], scope, owner));
    }
    return Sized(std::move(out), node);
  }
  if (function.kind == PyKind::kName && ClassNamed(name) != nullptr) {
    if (auto bundle = BundleOf(function)) {
      ForgetArguments(node, scope, owner);
      return bundle;
    }
    PyValue out = Arguments(PyIs::kObject, node, scope, owner);
    out.text = name;
    ForgetArguments(node, scope, owner);
    return out;
  }
  return std::nullopt;
}

PyValue PyEvaluator::Range(const PyNode& node, const PyValue& given) {
  int64_t bounds[2] = {0, 0};
  if (given.items.empty() || given.items.size() > 2) {
    return Unknown(node, "the value of `" + TextOf(node) + "`");
  }
  for (size_t i = 0; i < given.items.size(); ++i) {
    const PyValue& one = given.items[i];
    const auto number = WholeNumber(one);
    if (!number) {
      if (one.is == PyIs::kUnknown) return one;
      return Unknown(node, "the value of `" + TextOf(node) + "`",
                     one.is == PyIs::kSymbol ? one.text : std::string());
    }
    bounds[i + 2 - given.items.size()] = *number;
  }
  if (bounds[1] - bounds[0] > kPySizeLimit) {
    return Unknown(node, "a value of more than a million parts");
  }
  PyValue out = Simple(PyIs::kSequence, node);
  if (!Make((bounds[1] - bounds[0]) * static_cast<int64_t>(sizeof(PyValue)))) {
    return Unknown(node, std::string(kPyTooInvolved));
  }
  for (int64_t i = bounds[0]; i < bounds[1]; ++i) {
    out.items.push_back(Simple(PyIs::kNumber, node, std::to_string(i)));
  }
  return Sized(std::move(out), node);
}

// Evaluates zip. If `counted` is true, evaluates enumerate, in which the first
// elements of the tuples are the numbers from 0.
PyValue PyEvaluator::Zipped(const PyNode& node, const PyValue& given,
                            bool counted) {
  PyValue out = Simple(PyIs::kSequence, node);
  std::vector<PyValue> lists;
  for (size_t i = 0; i < given.items.size(); ++i) {
    lists.push_back(Elements(given.items[i], node.items[i + 1]));
    if (lists.back().is == PyIs::kUnknown) return lists.back();
  }
  if (lists.empty() || (counted && lists.size() > 1)) {
    return Unknown(node, "the value of `" + TextOf(node) + "`");
  }
  size_t shortest = lists[0].items.size();
  for (const PyValue& one : lists) {
    shortest = std::min(shortest, one.items.size());
  }
  for (size_t i = 0; i < shortest; ++i) {
    PyValue tuple = Simple(PyIs::kSequence, node);
    if (counted) {
      tuple.items.push_back(Simple(PyIs::kNumber, node, std::to_string(i)));
    }
    for (const PyValue& one : lists) tuple.items.push_back(one.items[i]);
    if (!Make(BytesOf(tuple) + BytesOf(tuple.items))) {
      return Unknown(node, std::string(kPyTooInvolved));
    }
    out.items.push_back(Sized(std::move(tuple), node));
  }
  return Sized(std::move(out), node);
}

std::pair<PyMethod, const PyClass*> PyEvaluator::FunctionOf(
    const PyNode& function, const PyScope& scope, const PyClass* owner) {
  if (function.kind == PyKind::kName) {
    const auto at = names_.functions.find(function.text);
    if (at == names_.functions.end()) return {};
    return {PyMethod{at->second, nullptr}, nullptr};
  }
  if (function.kind != PyKind::kAttribute) return {};
  const PyNode& object = function.items[0];
  if (IsSuper(object)) {
    if (owner == nullptr || in_ == nullptr) return {};
    return {MethodOf(*owner, function.text, in_), owner};
  }
  const PyClass* of = ClassOf(object, scope, owner);
  if (of == nullptr) return {};
  return {MethodOf(*of, function.text), of};
}

const PyClass* PyEvaluator::ClassNamed(std::string_view name) const {
  const auto at = names_.classes.find(name);
  return at == names_.classes.end() ? nullptr : &at->second;
}

const PyClass* PyEvaluator::ClassOf(const PyNode& node, const PyScope& scope,
                                    const PyClass* owner) {
  if (node.kind == PyKind::kName) {
    if (IsSelf(node.text)) return owner;
    for (const PyScope* names : {&scope, &names_.globals}) {
      const auto at = names->find(node.text);
      if (at == names->end()) continue;
      return at->second.is == PyIs::kObject ? ClassNamed(at->second.text)
                                            : nullptr;
    }
    return ClassNamed(node.text);
  }
  if (node.kind == PyKind::kCall && node.items[0].kind == PyKind::kName) {
    return ClassNamed(node.items[0].text);
  }
  if (node.kind != PyKind::kAttribute) return nullptr;
  const PyClass* of = ClassOf(node.items[0], scope, owner);
  return of == nullptr ? nullptr : MemberClass(*of, node.text);
}

// Returns the class of the object `self.name`, or nullptr if it is unknown. The
// class is found in one of these places, which are tried in this order:
// - the value of the class attribute `name`, if no function changes it
// - the dict `sub_configs`, which may name the class
// - `__init__`, if it assigns to `name` only objects of one class
const PyClass* PyEvaluator::MemberClass(const PyClass& of,
                                        std::string_view name) const {
  const auto named = [&](const PyValue& value) {
    const bool is = value.is == PyIs::kObject || value.is == PyIs::kSymbol;
    return is ? ClassNamed(value.text) : nullptr;
  };
  const PyValue* value = AttributeOf(of, name);
  if (value != nullptr && !SetsAttribute(of, name)) return named(*value);
  if (const PyValue* parts = AttributeOf(of, "sub_configs")) {
    for (size_t i = 0; parts->is == PyIs::kDict && i + 1 < parts->items.size();
         i += 2) {
      if (parts->items[i].text == name) return named(parts->items[i + 1]);
    }
  }
  const PyMethod init = MethodOf(of, "__init__");
  if (init.function == nullptr) return nullptr;
  std::vector<std::string_view> classes;
  Assigned(init.function->body, name, classes);
  const bool one =
      !classes.empty() &&
      std::all_of(classes.begin(), classes.end(),
                  [&](std::string_view other) { return other == classes[0]; });
  return one ? ClassNamed(classes[0]) : nullptr;
}

// Returns whether the name is the starred parameter of a function, as in `def
// f(*args)`. The evaluator calls functions without additional arguments, so
// `args` is empty. A call `g(*args)` inside `f` is therefore evaluated as
// `g()`.
bool PyEvaluator::IsPassedOn(const PyNode& node, const PyScope& scope) {
  if (node.kind != PyKind::kName) return false;
  const auto at = scope.find(node.text);
  return at != scope.end() && at->second.is == PyIs::kUnknown &&
         at->second.text == kPyStarred;
}

std::optional<PyScope> PyEvaluator::Given(const PyStatement& function,
                                          const PyNode& call, PyScope& scope,
                                          const PyClass* owner) {
  PyScope given;
  const auto& parameters = function.parameters;
  size_t next = !parameters.empty() && IsSelf(parameters[0].first) ? 1 : 0;
  for (size_t i = 1; i < call.items.size(); ++i) {
    const PyNode& item = call.items[i];
    const std::string& keyword = call.keywords[i - 1];
    if (item.kind == PyKind::kStar || keyword == "**") {
      const PyNode& list = keyword == "**" ? item : item.items[0];
      if (!IsPassedOn(list, scope)) return std::nullopt;
      continue;
    }
    // In a call such as `Base.rules(self)`, the first argument is the object
    // itself.
    if (i == 1 && next == 1 && keyword.empty() && item.kind == PyKind::kName &&
        IsSelf(item.text)) {
      continue;
    }
    std::string name = keyword;
    if (keyword.empty()) {
      if (next >= parameters.size()) return std::nullopt;
      name = parameters[next++].first;
    } else if (std::none_of(
                   parameters.begin(), parameters.end(),
                   [&](const auto& one) { return one.first == keyword; })) {
      return std::nullopt;
    }
    given[name] = Value(item, scope, owner);
  }
  return given;
}

PyValue PyEvaluator::Arguments(PyIs is, const PyNode& node, PyScope& scope,
                               const PyClass* owner) {
  PyValue value = Simple(is, node);
  for (size_t i = 1; i < node.items.size(); ++i) {
    const PyNode& item = node.items[i];
    const std::string& keyword = node.keywords[i - 1];
    if (item.kind == PyKind::kStar) {
      Spread(Value(item.items[0], scope, owner), item, value);
    } else if (keyword.empty()) {
      value.items.push_back(Value(item, scope, owner));
    } else {
      value.fields.push_back({keyword, Value(item, scope, owner)});
    }
  }
  return Sized(std::move(value), node);
}

}  // namespace shardc::imports
