// Grouping of parameters whose names differ only in numbers and that differ
// between two plans in the same way.
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

// Gives each distinct text a number, so that a text that many parameters share
// is stored once and compared as a number.
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

// What identifies a group: the template of its names, and what differs.
struct GroupKey {
  uint32_t shown = 0;
  uint32_t difference = 0;
};

// Groups by their key, in the order in which they were first seen.
template <class Group>
class Groups {
 public:
  // The group of the key; `make` makes a new one.
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

// How many parameters of a group a device holds at most.
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
