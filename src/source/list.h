// Membership in a list.
#ifndef SHARDC_SOURCE_LIST_H_
#define SHARDC_SOURCE_LIST_H_

#include <algorithm>
#include <iterator>
#include <utility>

namespace shardc {

template <class Value, class List>
bool IsAmong(const Value& value, const List& list) {
  return std::find(std::begin(list), std::end(list), value) != std::end(list);
}

// Appends a value that the list does not contain.
template <class List, class Value>
void AddOnce(List& list, Value&& value) {
  if (!IsAmong(value, list)) list.push_back(std::forward<Value>(value));
}

}  // namespace shardc

#endif  // SHARDC_SOURCE_LIST_H_
