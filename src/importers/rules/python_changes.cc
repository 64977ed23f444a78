// Finds the lists and dicts that a call may change. A call changes an argument
// if the called function, or a function that it calls in turn, changes the
// parameter. For example:
//
//   def add(rules): rules.append(("bias", P()))
//   add(RULES)   ->  `RULES` is unknown afterwards
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "importers/rules/python_evaluator.h"
#include "importers/rules/python_literal.h"
#include "importers/rules/python_names.h"

namespace shardc::imports {
namespace {

struct Argument {
  std::string_view parameter;
  const PyNode* value = nullptr;
};

// Returns the arguments of a call of `function` with their parameters. Omits
// `self`, and arguments without a parameter.
std::vector<Argument> ArgumentsOf(const PyStatement& function,
                                  const PyNode& call) {
  const auto& parameters = function.parameters;
  size_t next = !parameters.empty() && IsSelf(parameters[0].first) ? 1 : 0;
  std::vector<Argument> out;
  for (size_t i = 1; i < call.items.size(); ++i) {
    const PyNode& item = call.items[i];
    if (item.kind == PyKind::kName && IsSelf(item.text)) continue;
    std::string_view name = call.keywords[i - 1];
    if (name.empty() && next < parameters.size()) {
      name = parameters[next++].first;
    }
    if (!name.empty()) out.push_back({name, &item});
  }
  return out;
}

}  // namespace

void PyEvaluator::ForgetArguments(const PyNode& call, PyScope& scope,
                                  const PyClass* owner) {
  ForgetPassed(call, scope, owner);
  if (CallsInner(call)) {
    const auto [begin, end] = inner_->functions.equal_range(call.items[0].text);
    for (auto at = begin; at != end; ++at) {
      ForgetArguments(*at->second, call, scope, owner);
    }
    return;
  }
  const auto [method, object] = RunBy(call, scope, owner);
  if (method.function == nullptr) return;
  ForgetOutside(*method.function, object, call, scope);
  ForgetArguments(*method.function, call, scope, object);
}

void PyEvaluator::ForgetArguments(const PyStatement& function,
                                  const PyNode& call, PyScope& scope,
                                  const PyClass* object) {
  for (const Argument& one : ArgumentsOf(function, call)) {
    // A function may change a list or dict through a part of it, such as
    // `x["q"]`.
    const PyNode* whole = one.value;
    while (whole->kind == PyKind::kPart) whole = &whole->items[0];
    if (whole->kind != PyKind::kName) continue;
    const auto value = ListNamed(whole->text, scope);
    if (!value) continue;
    const bool list = whole != one.value || IsList(*value);
    if (!Changes(function.body, one.parameter, list, object)) continue;
    ForgetList(whole->text, *one.value, scope);
  }
}

bool PyEvaluator::Changes(const std::vector<PyStatement>& body,
                          std::string_view name, bool list,
                          const PyClass* owner) {
  return std::any_of(body.begin(), body.end(), [&](const PyStatement& one) {
    if (++steps_ > kPyStepLimit) return true;
    const bool grows = one.act == PyAct::kAppend || one.act == PyAct::kPut ||
                       (one.act == PyAct::kExtend && list);
    const bool unknown =
        one.act == PyAct::kUnknown &&
        std::find(one.names.begin(), one.names.end(), name) != one.names.end();
    return (grows && one.name == name) || unknown ||
           Changes(one.target, name, list, owner) ||
           Changes(one.value, name, list, owner) ||
           std::any_of(one.calls.begin(), one.calls.end(),
                       [&](const PyNode& call) {
                         return Changes(call, name, list, owner);
                       }) ||
           Changes(one.body, name, list, owner) ||
           Changes(one.other, name, list, owner);
  });
}

bool PyEvaluator::Changes(const PyNode& node, std::string_view name, bool list,
                          const PyClass* owner) {
  if (++steps_ > kPyStepLimit) return true;
  if (std::any_of(node.items.begin(), node.items.end(),
                  [&](const PyNode& item) {
                    return Changes(item, name, list, owner);
                  })) {
    return true;
  }
  if (node.kind != PyKind::kCall || calls_ >= kPyCallLimit) return false;
  if (ChangedName(node) == name) return true;
  if (PassesChange(node, {}, owner)) {
    const std::vector<std::string> names = NamesInArguments(node);
    if (std::find(names.begin(), names.end(), name) != names.end()) return true;
  }
  const auto [method, object] = FunctionOf(node.items[0], {}, owner);
  if (method.function == nullptr) return false;
  for (const Argument& one : ArgumentsOf(*method.function, node)) {
    if (one.value->kind == PyKind::kName && one.value->text == name &&
        ChangesParameter(*method.function, one.parameter, list, object)) {
      return true;
    }
  }
  return false;
}

bool PyEvaluator::ChangesParameter(const PyStatement& function,
                                   std::string_view parameter, bool list,
                                   const PyClass* object) {
  // A recursive call changes only what the function's other statements change,
  // so a function that is already being searched is skipped.
  const std::pair followed(&function, std::string(parameter));
  if (!followed_.insert(followed).second) return false;
  ++calls_;
  const bool changes = Changes(function.body, parameter, list, object);
  --calls_;
  followed_.erase(followed);
  return changes;
}

std::vector<std::string> PyEvaluator::ChangedArguments(const PyNode& call,
                                                       const PyClass* owner) {
  if (PassesChange(call, {}, owner)) return NamesInArguments(call);
  std::vector<std::string> out;
  const auto [method, object] = FunctionOf(call.items[0], {}, owner);
  if (method.function == nullptr) return out;
  for (const Argument& one : ArgumentsOf(*method.function, call)) {
    if (one.value->kind == PyKind::kName &&
        ChangesParameter(*method.function, one.parameter, true, object)) {
      out.push_back(one.value->text);
    }
  }
  return out;
}

}  // namespace shardc::imports
