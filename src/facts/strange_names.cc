#include "facts/strange_names.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "model/name.h"
#include "roles/role.h"

namespace shardc::facts {
namespace {

// The parts of a name, divided where the layers begin.
struct DividedName {
  std::vector<std::string_view> around;  // those before the number of a layer
  std::vector<std::string_view> own;     // those that say what a parameter is
};

// Divides a name before its first number. If the name has none, the parameter's
// own parts are its last two or, in a stack of layers, those after the word for
// layers or else the last three.
DividedName Divide(const NamedShape& param, char separator) {
  DividedName out;
  out.around = SplitName(param.name, separator);
  const auto first = out.around.begin(), end = out.around.end();
  auto at = std::find_if(first, end, [](std::string_view part) {
    return part.find('*') != part.npos;
  });
  if (at != end) {
    // A word with the number: `layers_*`.
    ++at;
  } else {
    at = std::find_if(first, end, IsLayerWord);
    const ptrdiff_t last = param.shape->size() > 2 ? 3 : 2;
    at = at != end ? at + 1 : end - std::min(last, end - first);
  }
  out.own.assign(at, end);
  out.around.erase(at, end);
  return out;
}

bool IsStrange(const std::vector<std::string_view>& parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    // The name that PEFT gives an adapter is free: `lora_A.default.weight`.
    const bool free = i > 0 && IsAdapter(RoleBelow(parts[i - 1]));
    if (!free && !IsPublishedWord(parts[i])) return true;
  }
  return false;
}

bool IsScalar(const Shape& shape) {
  return std::ranges::none_of(shape, [](int64_t size) { return size > 1; });
}

}  // namespace

std::vector<bool> StrangeNames(std::span<const NamedShape> names,
                               char separator) {
  // The modules that hold layers. Where there is one, its words do not matter.
  std::set<std::vector<std::string_view>> holders;
  std::vector<DividedName> divided(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const NamedShape& one = names[i];
    if (one.shape == nullptr || IsScalar(*one.shape)) continue;
    divided[i] = Divide(one, separator);
    if (one.name.find('*') != one.name.npos) holders.insert(divided[i].around);
  }
  const bool one_holder = holders.size() < 2;
  std::vector<bool> out;
  out.reserve(names.size());
  for (const DividedName& name : divided) {
    out.push_back(IsStrange(name.own) ||
                  (!one_holder && holders.contains(name.around) &&
                   IsStrange(name.around)));
  }
  return out;
}

}  // namespace shardc::facts
