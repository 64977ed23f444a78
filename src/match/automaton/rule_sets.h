// Sets of rules. Many names have the same set of matching rules, so each set is
// stored once and identified by a number.
#ifndef SHARDC_MATCH_AUTOMATON_RULE_SETS_H_
#define SHARDC_MATCH_AUTOMATON_RULE_SETS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace shardc {

class RuleSets {
 public:
  // Returns the number of the set `rules`, which must be ascending. Equal sets
  // have equal numbers.
  uint32_t Number(std::span<const uint32_t> rules) {
    const uint64_t hash = HashOf(rules);
    auto [at, end] = by_hash_.equal_range(hash);
    for (; at != end; ++at) {
      const auto known = Of(at->second);
      if (std::equal(known.begin(), known.end(), rules.begin(), rules.end())) {
        return at->second;
      }
    }
    const auto number = static_cast<uint32_t>(size());
    all_.insert(all_.end(), rules.begin(), rules.end());
    begin_.push_back(all_.size());
    by_hash_.emplace(hash, number);
    return number;
  }

  std::span<const uint32_t> Of(uint32_t number) const {
    return std::span(all_).subspan(begin_[number],
                                   begin_[number + 1] - begin_[number]);
  }
  size_t size() const { return begin_.size() - 1; }

 private:
  static uint64_t HashOf(std::span<const uint32_t> rules) {
    uint64_t hash = rules.size();
    for (uint32_t rule : rules) {
      hash = (hash ^ rule) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    return hash;
  }

  std::vector<uint32_t> all_;
  // Set number n is the range from all_[begin_[n]] up to, but not including,
  // all_[begin_[n + 1]].
  std::vector<size_t> begin_ = {0};
  std::unordered_multimap<uint64_t, uint32_t> by_hash_;
};

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_RULE_SETS_H_
