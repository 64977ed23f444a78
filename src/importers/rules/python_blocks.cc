// Summarises blocks of Python that run an unknown number of times, such as the
// body of `while`. Such a block is replaced by the names that it may change,
// and by its calls, which may change more names. This file also adds the calls
// that `with` makes. For example:
//
//   while x: y.append(f(z))   ->  changes y; calls f(z)
//   with f(x) as y: ...       ->  calls f, __enter__ and __exit__; a change of
//                                 y may change x, because f may return x
#include "importers/rules/python_blocks.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "importers/rules/python_names.h"

namespace shardc::imports {

void Gather(const std::vector<PyStatement>& body, PyStatement& to) {
  for (const PyStatement& inside : body) {
    if (inside.act == PyAct::kDefine || inside.act == PyAct::kClass ||
        inside.act == PyAct::kGlobal) {
      continue;
    }
    if (inside.act == PyAct::kReturn || inside.returns) to.returns = true;
    if (!inside.name.empty()) to.names.push_back(inside.name);
    to.names.insert(to.names.end(), inside.names.begin(), inside.names.end());
    Gather(inside.body, to);
    Gather(inside.other, to);
  }
}

namespace {

bool HasCall(const PyNode& node) {
  return node.kind == PyKind::kCall ||
         std::any_of(node.items.begin(), node.items.end(), HasCall);
}

}  // namespace

void TakeCalls(PyNode& node, std::vector<PyNode>& to) {
  if (HasCall(node)) to.push_back(std::move(node));
}

namespace {

// Moves each expression that contains a call from the statements to `to`.
void TakeCalls(std::vector<PyStatement>& body, std::vector<PyNode>& to) {
  for (PyStatement& inside : body) {
    if (inside.act == PyAct::kDefine || inside.act == PyAct::kClass) continue;
    TakeCalls(inside.value, to);
    TakeCalls(inside.target, to);
    std::move(inside.calls.begin(), inside.calls.end(), std::back_inserter(to));
    TakeCalls(inside.body, to);
    TakeCalls(inside.other, to);
  }
}

PyNode NodeOf(PyKind kind, const PyNode& place, std::vector<PyNode> items) {
  PyNode out;
  out.kind = kind;
  out.begin = place.begin;
  out.end = place.end;
  for (const PyNode& item : items) {
    out.height = std::max(out.height, item.height + 1);
  }
  out.items = std::move(items);
  return out;
}

PyNode CallOf(PyNode function, std::vector<PyNode> arguments) {
  const size_t count = arguments.size();
  const PyNode place = function;
  arguments.insert(arguments.begin(), std::move(function));
  PyNode out = NodeOf(PyKind::kCall, place, std::move(arguments));
  out.keywords.resize(count);
  return out;
}

}  // namespace

void Unknown(PyStatement& made) {
  made.act = PyAct::kUnknown;
  Gather(made.body, made);
  TakeCalls(made.body, made.calls);
  made.body.clear();
}

bool Leaves(const std::vector<PyStatement>& body) {
  return std::any_of(body.begin(), body.end(), [](const PyStatement& one) {
    return one.act == PyAct::kLeave || Leaves(one.body) || Leaves(one.other);
  });
}

void AddSources(const PyNode& source, PyStatement& made) {
  std::vector<std::string> targets;
  AddNamesIn(made.target, targets);
  const bool changes = std::any_of(
      made.names.begin(), made.names.end(), [&](const std::string& name) {
        return std::find(targets.begin(), targets.end(), name) != targets.end();
      });
  if (changes) AddNamesIn(source, made.names);
}

void AddEntered(PyNode entered, std::optional<PyNode> target,
                std::vector<PyStatement>& header) {
  PyStatement runs;
  runs.begin = entered.begin;
  runs.calls.push_back(entered);
  for (const char* const method : {"__enter__", "__exit__"}) {
    PyNode function = NodeOf(PyKind::kAttribute, entered, {entered});
    function.text = method;
    runs.calls.push_back(CallOf(std::move(function), {}));
  }
  header.push_back(std::move(runs));
  if (!target) return;
  PyStatement binds;
  binds.begin = entered.begin;
  binds.names = NamesOf(*target);
  // In `with f(x) as y`, the value of `y` may be `x`, so a change of `y` in the
  // body may change `x`. Therefore `y` is bound to the result of a call of an
  // unknown function with the argument `x`. After such a call, the value of `x`
  // is unknown.
  PyNode unknown = NodeOf(PyKind::kOther, entered, {});
  std::vector<PyNode> arguments;
  if (entered.kind == PyKind::kCall) {
    arguments.assign(entered.items.begin() + 1, entered.items.end());
  } else {
    arguments.push_back(std::move(entered));
  }
  PyNode value = CallOf(std::move(unknown), std::move(arguments));
  if (BindsNames(*target)) {
    // Binds the names as the loop `for target in [value]: pass` does.
    binds.act = PyAct::kFor;
    binds.target = std::move(*target);
    const PyNode place = value;
    binds.value = NodeOf(PyKind::kSequence, place, {std::move(value)});
  } else {
    binds.calls.push_back(std::move(value));
  }
  header.push_back(std::move(binds));
}

}  // namespace shardc::imports
