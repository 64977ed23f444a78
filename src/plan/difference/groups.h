// Groups parameters whose names differ only in numbers and that differ in the
// same way between two plans.
#ifndef SHARDC_PLAN_DIFFERENCE_GROUPS_H_
#define SHARDC_PLAN_DIFFERENCE_GROUPS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan/read.h"

namespace shardc {

// Assigns a number to each distinct text. A text that many parameters share is
// then stored only once and compared by its number.
class Numbers {
 public:
  uint32_t Of(const std::string& text) {
    const auto next = static_cast<uint32_t>(texts_.size());
    const auto [at, is_new] = numbers_.try_emplace(text, next);
    if (is_new) texts_.push_back(&at->first);
    return at->second;
  }
  const std::string& operator[](uint32_t number) const {
    return *texts_[number];
  }

 private:
  std::unordered_map<std::string, uint32_t> numbers_;
  std::vector<const std::string*> texts_;
};

// The key of a group: the number of the names' template, such as `layers.*.up`,
// and the number of the text that describes the difference. The class Numbers
// assigns both numbers.
struct GroupKey {
  uint32_t shown = 0;
  uint32_t difference = 0;
};

// Collects groups by their keys, in the order in which the groups were first
// added.
template <class Group>
class Groups {
 public:
  // Adds a name to the group of the key and returns the group. `make` creates
  // the group if it does not exist.
  template <class Make>
  Group& Add(GroupKey key, std::string_view name, const Make& make) {
    const uint64_t number = uint64_t{key.shown} << 32 | key.difference;
    const auto [at, is_new] = index_.try_emplace(number, groups_.size());
    if (is_new) {
      groups_.push_back(make());
      shown_.push_back(key.shown);
    }
    Group& group = groups_[at->second];
    group.names.emplace_back(name);
    return group;
  }

  std::vector<Group> Take(const Numbers& templates) {
    for (size_t i = 0; i < groups_.size(); ++i) {
      Group& group = groups_[i];
      group.shown =
          group.names.size() == 1 ? group.names.front() : templates[shown_[i]];
    }
    return std::move(groups_);
  }

 private:
  std::unordered_map<uint64_t, size_t> index_;
  std::vector<Group> groups_;
  std::vector<uint32_t> shown_;
};

// Counts the parameters of a group on the device that holds the most parameters
// of the group.
class Copies {
 public:
  void Add(const std::optional<ReadPlacement>& placement) {
    if (placement) {
      ++placed_[placement->coordinate];
    } else {
      ++everywhere_;
    }
  }
  int64_t Most() const {
    int64_t placed = 0;
    for (const auto& [_, count] : placed_) placed = std::max(placed, count);
    return everywhere_ + placed;
  }

 private:
  int64_t everywhere_ = 0;
  std::map<int64_t, int64_t> placed_;
};

}  // namespace shardc

#endif  // SHARDC_PLAN_DIFFERENCE_GROUPS_H_
