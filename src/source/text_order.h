// Sorts many texts by their bytes, and detects duplicates.
#ifndef SHARDC_SOURCE_TEXT_ORDER_H_
#define SHARDC_SOURCE_TEXT_ORDER_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>
#include <vector>

namespace shardc {

// A read-only list of texts whose std::string_view objects may be members of
// other structs. An example is the list of the names of all tensors in an array
// of tensors. The list refers to the string_views where they are and copies
// none.

// A view of the texts. It is valid as long as the viewed values are not moved
// or destroyed.
class Texts {
 public:
  class Iterator;

  Texts() = default;
  // Views a vector, an array or a span of texts.
  template <class List>
  requires(!std::same_as<List, Texts> &&
           std::convertible_to<const List&, std::span<const std::string_view>>)
      Texts(const List& list) {  // NOLINT(google-explicit-constructor)
    const std::span<const std::string_view> texts(list);
    *this = Texts(texts.data(), sizeof(std::string_view), texts.size());
  }
  // Returns the list of the member `text` of each value.
  template <class Value>
  static Texts Of(std::span<const Value> values,
                  std::string_view Value::*text) {
    if (values.empty()) return {};
    return Texts(&(values.front().*text), sizeof(Value), values.size());
  }

  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  std::string_view operator[](size_t index) const { return *Address(index); }
  std::string_view front() const { return (*this)[0]; }
  // Returns the address of a text's std::string_view, for prefetching.
  const std::string_view* Address(size_t index) const {
    return reinterpret_cast<const std::string_view*>(first_ + index * stride_);
  }
  // Returns `count` texts from the text `begin` on.
  Texts Part(size_t begin, size_t count) const {
    Texts out = *this;
    out.first_ += begin * stride_;
    out.count_ = count;
    return out;
  }
  Iterator begin() const;
  Iterator end() const;

 private:
  Texts(const std::string_view* first, size_t stride, size_t count)
      : first_(reinterpret_cast<const char*>(first)),
        stride_(stride),
        count_(count) {}

  const char* first_ = nullptr;
  size_t stride_ = sizeof(std::string_view);  // bytes from one text to the next
  size_t count_ = 0;
};

class Texts::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = std::string_view;
  using difference_type = std::ptrdiff_t;
  using pointer = const std::string_view*;
  using reference = std::string_view;

  Iterator() = default;
  Iterator(const Texts& texts, size_t index) : texts_(texts), index_(index) {}
  std::string_view operator*() const { return texts_[index_]; }
  Iterator& operator++() {
    ++index_;
    return *this;
  }
  Iterator operator++(int) {
    Iterator before = *this;
    ++index_;
    return before;
  }
  bool operator==(const Iterator& other) const {
    return index_ == other.index_;
  }

 private:
  Texts texts_;
  size_t index_ = 0;
};

inline Texts::Iterator Texts::begin() const { return {*this, 0}; }
inline Texts::Iterator Texts::end() const { return {*this, count_}; }

struct TextOrder {
  // The indices of the texts in sorted order, equal texts in input order.
  std::vector<uint32_t> order;
  bool distinct = true;
};

// Returns the sorted order. The time is about linear in the number of bytes
// that distinguish the texts, even for texts chosen to make sorting slow.
TextOrder OrderOf(Texts texts);
// Returns whether no text occurs twice. Usually faster than OrderOf.
bool AreDistinct(Texts texts);

}  // namespace shardc

#endif  // SHARDC_SOURCE_TEXT_ORDER_H_
