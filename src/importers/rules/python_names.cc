// Finds the names that expressions and assignments bind, and the names whose
// values calls change:
//
//   a, (b, *c.d) = x        ->  binds a and b and the attribute c.d
//   rules["q"].append(x)    ->  changes rules
#include "importers/rules/python_names.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace shardc::imports {

std::string NameOf(const PyNode& node) {
  if (node.kind == PyKind::kName) return node.text;
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
  return std::find(std::begin(kMethods), std::end(kMethods), method) !=
         std::end(kMethods);
}

std::string ChangedName(const PyNode& call) {
  if (call.kind != PyKind::kCall || call.items[0].kind != PyKind::kAttribute) {
    return {};
  }
  const PyNode& function = call.items[0];
  if (!ChangesObject(function.text)) return {};
  const PyNode* object = &function.items[0];
  // The call `list.append(rules, x)` means `rules.append(x)`.
  const bool of_class = object->kind == PyKind::kName &&
                        (object->text == "list" || object->text == "dict");
  if (of_class && call.items.size() > 1) object = &call.items[1];
  while (object->kind == PyKind::kPart) object = &object->items[0];
  return NameOf(*object);
}

}  // namespace shardc::imports
