// Joins texts into a list such as "a, b, c".
#ifndef SHARDC_SOURCE_JOIN_H_
#define SHARDC_SOURCE_JOIN_H_

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace shardc {

// Appends an item to a list, after a separator unless the list is empty.
inline void AppendItem(std::string& list, std::string_view separator,
                       std::string_view item) {
  if (!list.empty()) list += separator;
  list += item;
}

// Returns the first `most` of the values, or all if there are fewer.
template <class Range>
auto First(const Range& values, size_t most) {
  return std::span(values).first(std::min(most, values.size()));
}

// Returns the values as a list. `project` maps each value to its text or
// number.
template <class Range, class Project = std::identity>
std::string Join(const Range& values, std::string_view separator,
                 const Project& project = {}) {
  std::string list;
  for (const auto& value : values) {
    const auto& item = std::invoke(project, value);
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(item)>>) {
      AppendItem(list, separator, std::to_string(item));
    } else {
      AppendItem(list, separator, item);
    }
  }
  return list;
}

// Returns the values as a list in a sentence: "a, b and c".
template <class Range, class Project = std::identity>
std::string ListInWords(const Range& values, const Project& project = {},
                        std::string_view last = " and ") {
  size_t left = values.size();
  std::string list;
  for (const auto& value : values) {
    AppendItem(list, --left > 0 ? ", " : last, std::invoke(project, value));
  }
  return list;
}

}  // namespace shardc

#endif  // SHARDC_SOURCE_JOIN_H_
