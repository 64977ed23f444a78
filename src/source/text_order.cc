// Sorts texts by a radix sort over eight bytes at a time. The next eight bytes
// of each text form one number; runs of equal numbers are sorted by the
// following eight bytes:
//
//   layers/10/q, layers/10/k, layers/9/q
//     by `layers/1`, `layers/1`, `layers/9`:  10/q and 10/k need more bytes
//     by `0/q`, `0/k`:                        10/k, 10/q, 9/q
//
// Long runs are sorted digit by digit, skipping digits that are the same in all
// texts; short runs by comparison.
#include "source/text_order.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

namespace shardc {
namespace {

constexpr size_t kStep = sizeof(uint64_t);
constexpr size_t kLongRun = 512;

struct Key {
  uint64_t head;  // the eight bytes at the run's depth, padded with zeros
  uint32_t text;
};

struct Run {
  uint32_t begin;
  uint32_t end;
  uint32_t depth;
};

uint64_t HeadOf(std::string_view text, size_t depth) {
  uint64_t word = 0;
  if (depth + kStep <= text.size()) {
    std::memcpy(&word, text.data() + depth, kStep);
    if constexpr (std::endian::native == std::endian::little) {
      word = __builtin_bswap64(word);
    }
    return word;
  }
  for (size_t i = depth; i < text.size(); ++i) {
    const uint64_t byte = static_cast<unsigned char>(text[i]);
    word |= byte << (8 * (kStep - 1 - (i - depth)));
  }
  return word;
}

class Sorter {
 public:
  explicit Sorter(std::span<const std::string_view> texts) : texts_(texts) {}

  TextOrder Sort() {
    keys_.resize(texts_.size());
    for (uint32_t i = 0; i < keys_.size(); ++i) keys_[i].text = i;
    runs_.push_back({0, static_cast<uint32_t>(keys_.size()), 0});
    while (!runs_.empty()) {
      const Run run = runs_.back();
      runs_.pop_back();
      SortRun(run);
    }
    TextOrder out;
    out.distinct = distinct_;
    out.order.reserve(keys_.size());
    for (const Key& key : keys_) out.order.push_back(key.text);
    return out;
  }

 private:
  // Sorts by the next eight bytes and appends the runs that they do not
  // distinguish.
  void SortRun(const Run& run) {
    const auto keys = std::span(keys_).subspan(run.begin, run.end - run.begin);
    for (size_t i = 0; i < keys.size(); ++i) {
      FetchAhead(keys, i, run.depth);
      keys[i].head = HeadOf(texts_[keys[i].text], run.depth);
    }
    if (keys.size() >= kLongRun) {
      SortByDigits(keys);
    } else {
      SortByComparison(keys);
    }
    for (size_t at = 0; at < keys.size();) {
      size_t end = at + 1;
      while (end < keys.size() && keys[end].head == keys[at].head) ++end;
      if (end - at > 1) SplitEqualKeys(run, keys.subspan(at, end - at), at);
      at = end;
    }
  }

  // Prefetch: the texts of a sorted run are scattered in memory.
  void FetchAhead(std::span<const Key> keys, size_t at, size_t depth) const {
    constexpr size_t kNear = 32;
    constexpr size_t kFar = 64;
    if (at + kFar >= keys.size()) return;
    __builtin_prefetch(&texts_[keys[at + kFar].text]);
    __builtin_prefetch(texts_[keys[at + kNear].text].data() + depth);
  }

  static bool Less(const Key& a, const Key& b) {
    return a.head != b.head ? a.head < b.head : a.text < b.text;
  }

  static void SortByComparison(std::span<Key> keys) {
    std::sort(keys.begin(), keys.end(), Less);
  }

  // Least significant digit first; each pass is stable.
  void SortByDigits(std::span<Key> keys) {
    std::array<std::array<uint32_t, 256>, kStep> counts{};
    for (const Key& key : keys) {
      for (size_t d = 0; d < kStep; ++d) ++counts[d][key.head >> (8 * d) & 255];
    }
    scratch_.resize(std::max(scratch_.size(), keys.size()));
    std::span<Key> from = keys;
    std::span<Key> to = std::span(scratch_).first(keys.size());
    for (size_t d = 0; d < kStep; ++d) {
      auto& count = counts[d];
      if (count[from[0].head >> (8 * d) & 255] == keys.size()) continue;
      uint32_t sum = 0;
      for (uint32_t& each : count) sum += std::exchange(each, sum);
      for (const Key& key : from) to[count[key.head >> (8 * d) & 255]++] = key;
      std::swap(from, to);
    }
    if (from.data() != keys.data()) {
      std::copy(from.begin(), from.end(), keys.begin());
    }
  }

  // Among texts with equal heads, those that end within these eight bytes
  // differ only in trailing zero bytes; they sort before the longer ones.
  void SplitEqualKeys(const Run& run, std::span<Key> alike, size_t at) {
    const size_t depth = run.depth + kStep;
    const auto size_of = [&](const Key& key) {
      return texts_[key.text].size();
    };
    const auto on =
        std::partition(alike.begin(), alike.end(),
                       [&](const Key& key) { return size_of(key) <= depth; });
    std::sort(alike.begin(), on, [&](const Key& a, const Key& b) {
      return std::pair(size_of(a), a.text) < std::pair(size_of(b), b.text);
    });
    const auto twice = std::adjacent_find(
        alike.begin(), on,
        [&](const Key& a, const Key& b) { return size_of(a) == size_of(b); });
    distinct_ = distinct_ && twice == on;
    if (alike.end() - on < 2) return;
    const auto begin =
        static_cast<uint32_t>(run.begin + at + (on - alike.begin()));
    runs_.push_back({begin, static_cast<uint32_t>(begin + (alike.end() - on)),
                     static_cast<uint32_t>(depth)});
  }

  std::span<const std::string_view> texts_;
  std::vector<Key> keys_;
  std::vector<Key> scratch_;
  std::vector<Run> runs_;
  bool distinct_ = true;
};

// Mixes eight bytes at a time.
uint64_t HashOf(std::string_view text) {
  uint64_t hash = text.size();
  for (size_t depth = 0; depth < text.size(); depth += kStep) {
    hash = (hash ^ HeadOf(text, depth)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  }
  return hash;
}

// Open addressing: inserts each text at its hash or a few places after it.
// Returns nullopt if that fails, as for texts chosen to collide.
std::optional<bool> DistinctByHash(std::span<const std::string_view> texts) {
  constexpr size_t kMostProbes = 64;
  constexpr uint32_t kFree = 0;
  std::vector<uint32_t> slots(std::bit_ceil(2 * texts.size() + 1), kFree);
  const size_t mask = slots.size() - 1;
  for (size_t i = 0; i < texts.size(); ++i) {
    size_t at = HashOf(texts[i]) & mask;
    size_t probes = 0;
    for (; slots[at] != kFree; at = (at + 1) & mask) {
      if (texts[slots[at] - 1] == texts[i]) return false;
      if (++probes == kMostProbes) return std::nullopt;
    }
    slots[at] = static_cast<uint32_t>(i + 1);
  }
  return true;
}

bool Ascend(std::span<const std::string_view> texts) {
  return std::adjacent_find(texts.begin(), texts.end(),
                            [](std::string_view a, std::string_view b) {
                              return a >= b;
                            }) == texts.end();
}

}  // namespace

TextOrder OrderOf(std::span<const std::string_view> texts) {
  if (!Ascend(texts)) return Sorter(texts).Sort();
  TextOrder out;
  out.order.resize(texts.size());
  std::iota(out.order.begin(), out.order.end(), 0);
  return out;
}

bool AreDistinct(std::span<const std::string_view> texts) {
  if (const auto distinct = DistinctByHash(texts)) return *distinct;
  return OrderOf(texts).distinct;
}

}  // namespace shardc
