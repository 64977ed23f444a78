// Finds the names that expressions and assignments bind. Also finds the names
// whose values a call may change. For example:
//
//   a, (b, *c.d) = x        ->  binds a and b and the attribute c.d
//   rules["q"].append(x)    ->  changes rules
#include "importers/rules/python_names.h"

#include <algorithm>
#include <utility>

#include "source/wording.h"

namespace shardc::imports {

namespace {

// Returns the object that a call of a method changes; null if the call does not
// call a method that changes its object. `d["q"].append(x)` changes `d`.
const PyNode* ChangedObject(const PyNode& call) {
  if (call.kind != PyKind::kCall || call.items[0].kind != PyKind::kAttribute) {
    return nullptr;
  }
  const PyNode& function = call.items[0];
  if (!ChangesObject(function.text)) return nullptr;
  const PyNode* object = &function.items[0];
  // `list.append(rules, x)` is `rules.append(x)`.
  const bool of_class = object->kind == PyKind::kName &&
                        (object->text == "list" || object->text == "dict");
  if (of_class && call.items.size() > 1) object = &call.items[1];
  while (object->kind == PyKind::kPart) object = &object->items[0];
  return object;
}

}  // namespace

std::string NameOf(const PyNode& node) {
  if (node.kind == PyKind::kName) return node.text;
  if (node.kind == PyKind::kCall && node.items.size() == 1 &&
      node.items[0].kind == PyKind::kName) {
    constexpr std::string_view kDicts[] = {"globals", "locals", "vars"};
    if (IsAmong(node.items[0].text, kDicts)) return std::string(kPyGlobals);
  }
  if (node.kind == PyKind::kAttribute && node.items[0].kind == PyKind::kName) {
    return node.items[0].text + "." + node.text;
  }
  return {};
}

std::vector<std::string> NamesOf(const PyNode& target) {
  std::vector<std::string> names;
  if (std::string name = NameOf(target); !name.empty()) {
    names.push_back(std::move(name));
  } else if (target.kind == PyKind::kPart) {
    return NamesOf(target.items[0]);
  } else if (target.kind == PyKind::kSequence || target.kind == PyKind::kStar) {
    for (const PyNode& item : target.items) {
      for (std::string& inside : NamesOf(item)) {
        names.push_back(std::move(inside));
      }
    }
  }
  return names;
}

bool BindsNames(const PyNode& target) {
  return target.kind == PyKind::kName ||
         (target.kind == PyKind::kSequence &&
          std::all_of(target.items.begin(), target.items.end(), BindsNames));
}

bool ChangesObject(std::string_view method) {
  constexpr std::string_view kMethods[] = {
      "append",     "extend",   "update",      "insert",      "pop",
      "remove",     "clear",    "reverse",     "sort",        "popitem",
      "setdefault", "__iadd__", "__setitem__", "__delitem__", "__ior__"};
  return IsAmong(method, kMethods);
}

std::string ChangedName(const PyNode& call) {
  const PyNode* const object = ChangedObject(call);
  return object == nullptr ? std::string() : NameOf(*object);
}

std::vector<std::string> ChangedNames(const PyNode& call) {
  constexpr std::string_view kChangeTheirFirst[] = {
      "shuffle",  "insort",  "insort_left", "insort_right", "heapify",
      "heappush", "heappop", "heapreplace", "heappushpop",  "setitem",
      "delitem",  "iadd",    "iconcat"};
  constexpr std::string_view kGivePart[] = {"get", "pop", "setdefault",
                                            "__getitem__"};
  constexpr std::string_view kCopy[] = {"list", "dict", "sorted", "reversed"};
  std::vector<std::string> out;
  const auto add = [&](const PyNode& node) {
    std::string name = NameOf(node);
    if (!name.empty()) out.push_back(std::move(name));
  };
  if (call.kind != PyKind::kCall) return out;
  if (const PyNode* const object = ChangedObject(call)) {
    add(*object);
    if (!out.empty() || object->kind != PyKind::kCall) return out;
    const PyNode& function = object->items[0];
    if (function.kind == PyKind::kName && IsAmong(function.text, kCopy)) {
      return out;
    }
    if (function.kind == PyKind::kAttribute &&
        IsAmong(function.text, kGivePart)) {
      add(function.items[0]);
    }
    std::for_each(object->items.begin() + 1, object->items.end(), add);
    return out;
  }
  const PyNode& function = call.items[0];
  const bool named = function.kind == PyKind::kName;
  if (named && function.text == "exec") out.emplace_back(kPyGlobals);
  if ((named || function.kind == PyKind::kAttribute) && call.items.size() > 1 &&
      IsAmong(function.text, kChangeTheirFirst)) {
    add(call.items[1]);
  }
  return out;
}

void AddNamesIn(const PyNode& node, std::vector<std::string>& out) {
  if (node.kind == PyKind::kName) out.push_back(node.text);
  for (const PyNode& item : node.items) AddNamesIn(item, out);
}

std::vector<std::string> NamesInArguments(const PyNode& call) {
  std::vector<std::string> out;
  for (size_t i = 1; i < call.items.size(); ++i) {
    AddNamesIn(call.items[i], out);
  }
  return out;
}

void AddLoopSources(const std::vector<PyNode>& items,
                    const std::vector<std::string>& keywords,
                    std::vector<std::string>& changed) {
  if (changed.empty()) return;
  std::vector<std::string> sources, targets;
  for (size_t i = 0; i < items.size() && i < keywords.size(); ++i) {
    if (keywords[i] == "for") AddNamesIn(items[i], targets);
    if (keywords[i] == "in") AddNamesIn(items[i], sources);
  }
  const bool of_loop =
      std::any_of(changed.begin(), changed.end(), [&](const std::string& name) {
        return std::find(targets.begin(), targets.end(), name) != targets.end();
      });
  if (of_loop) changed.insert(changed.end(), sources.begin(), sources.end());
}

}  // namespace shardc::imports
