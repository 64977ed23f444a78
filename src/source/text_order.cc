// Sorts texts by a radix sort whose digits are eight bytes long. The next eight
// bytes of each text are read as one number, and the texts are sorted by these
// numbers. Texts with equal numbers are then sorted by their following eight
// bytes. For example, layers/10/q, layers/10/k and layers/9/q are sorted in two
// steps:
//
//   by bytes 0 to 7: `layers/1` of the first two texts, then `layers/9`
//   by the bytes from 8 on, for the first two texts: `0/k`, then `0/q`
//
// A run is a range of texts that are equal in all bytes sorted so far. A short
// run is sorted by comparison. In a long run the numbers are sorted byte by
// byte, and a byte that is the same in all texts of the run is skipped.
//
// The parameters of a model are often listed layer by layer, with the same
// suffixes in each layer. Then only the layers' prefixes and the suffixes of
// one layer are sorted, and all other layers get the same order of suffixes:
//
//   layers.9.q, layers.9.k, layers.10.q, layers.10.k
//     prefixes: `layers.10.`, `layers.9.`; suffixes: `k`, `q`
#include "source/text_order.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "source/utf8.h"

namespace shardc {
namespace {

constexpr size_t kStep = sizeof(uint64_t);
constexpr size_t kLongRun = 512;

struct Key {
  // The eight bytes of the text from Run::depth on, padded with zeros. The
  // first byte is the highest byte of the number.
  uint64_t head;
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
  explicit Sorter(Texts texts) : texts_(texts) {}

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
  // Sorts a run by the next eight bytes of its texts. Texts that are equal in
  // these bytes form new runs, which are appended.
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

  // Prefetches the next texts, because the texts of a sorted run are scattered
  // in memory.
  void FetchAhead(std::span<const Key> keys, size_t at, size_t depth) const {
    constexpr size_t kNear = 32;
    constexpr size_t kFar = 64;
    if (at + kFar >= keys.size()) return;
    __builtin_prefetch(texts_.Address(keys[at + kFar].text));
    __builtin_prefetch(texts_[keys[at + kNear].text].data() + depth);
  }

  static bool Less(const Key& a, const Key& b) {
    return a.head != b.head ? a.head < b.head : a.text < b.text;
  }

  static void SortByComparison(std::span<Key> keys) {
    std::sort(keys.begin(), keys.end(), Less);
  }

  // Sorts by the bytes of `head`, the least significant first. Each pass is
  // stable.
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

  // Sorts texts whose next eight bytes, padded with zeros, are equal. The texts
  // that end within these bytes are equal except for zero bytes at their ends.
  // They are sorted by length and come first. The longer texts form a new run.
  void SplitEqualKeys(const Run& run, std::span<Key> keys, size_t at) {
    const size_t depth = run.depth + kStep;
    const auto size_of = [&](const Key& key) {
      return texts_[key.text].size();
    };
    const auto on =
        std::partition(keys.begin(), keys.end(),
                       [&](const Key& key) { return size_of(key) <= depth; });
    std::sort(keys.begin(), on, [&](const Key& a, const Key& b) {
      return std::pair(size_of(a), a.text) < std::pair(size_of(b), b.text);
    });
    const auto twice = std::adjacent_find(
        keys.begin(), on,
        [&](const Key& a, const Key& b) { return size_of(a) == size_of(b); });
    distinct_ = distinct_ && twice == on;
    if (keys.end() - on < 2) return;
    const auto begin =
        static_cast<uint32_t>(run.begin + at + (on - keys.begin()));
    runs_.push_back({begin, static_cast<uint32_t>(begin + (keys.end() - on)),
                     static_cast<uint32_t>(depth)});
  }

  Texts texts_;
  std::vector<Key> keys_;
  std::vector<Key> scratch_;
  std::vector<Run> runs_;
  bool distinct_ = true;
};

// Consecutive texts whose first `prefix` bytes are the same.
struct Group {
  uint32_t begin = 0;
  uint32_t end = 0;
  size_t prefix = 0;

  uint32_t size() const { return end - begin; }
};

// Returns the length of the prefix that ends after the first part consisting
// only of digits and its separator: 10 for "layers.12.q.3.w" (`layers.12.`).
// Returns 0 if there is no such part.
size_t NumberedPrefix(std::string_view text) {
  bool digits = true;
  // The offset at which the current part begins. Parts are separated by `.` or
  // `/`.
  size_t part = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '.' || c == '/') {
      if (digits && i > part) return i + 1;
      digits = true;
      part = i + 1;
    } else {
      digits = digits && IsDigit(c);
    }
  }
  return 0;
}

// Sorts groups of texts by their prefixes, and texts within a group. The result
// is sorted if no group's prefix starts with another group's prefix, because
// two texts of different groups then differ before either prefix ends.
class GroupedOrder {
 public:
  explicit GroupedOrder(Texts texts) : texts_(texts) {}

  // Returns the order of the texts. Returns nullopt if Divide fails, or if a
  // group's prefix starts with another group's prefix.
  std::optional<TextOrder> Order() {
    if (!Divide()) return std::nullopt;
    std::vector<std::string_view> prefixes;
    prefixes.reserve(groups_.size());
    for (const Group& group : groups_) {
      prefixes.push_back(texts_[group.begin].substr(0, group.prefix));
    }
    const TextOrder by_prefix = Sorter(prefixes).Sort();
    // Give up if a prefix starts with another prefix, such as `norm.1.` with
    // `norm`. In sorted order, the prefixes that start with `norm` directly
    // follow `norm`. So only neighbours are compared.
    for (size_t i = 1; i < by_prefix.order.size(); ++i) {
      if (prefixes[by_prefix.order[i]].starts_with(
              prefixes[by_prefix.order[i - 1]])) {
        return std::nullopt;
      }
    }
    // For each group, the index in sorted_ of a group with the same suffixes.
    std::vector<uint32_t> like;
    like.reserve(groups_.size());
    for (const Group& group : groups_) like.push_back(SortedLike(group));
    TextOrder out;
    out.distinct = distinct_;
    out.order.reserve(texts_.size());
    for (const uint32_t index : by_prefix.order) {
      for (const uint32_t at : sorted_[like[index]].order) {
        out.order.push_back(groups_[index].begin + at);
      }
    }
    return out;
  }

 private:
  // A group and the order of its texts.
  struct Sorted {
    Group group;
    std::vector<uint32_t> order;
  };

  // Divides the texts into groups. Returns false if there are too many groups,
  // or if a group is too large: sorting all texts at once then takes less time
  // or memory.
  bool Divide() {
    const size_t most = texts_.size() / 4;
    bool numbered = false;
    for (uint32_t i = 0; i < texts_.size(); ++i) {
      const std::string_view text = texts_[i];
      if (numbered && text.starts_with(texts_[groups_.back().begin].substr(
                          0, groups_.back().prefix))) {
        groups_.back().end = i + 1;
        if (groups_.back().size() > most) return false;
        continue;
      }
      if (groups_.size() >= most) return false;
      const size_t prefix = NumberedPrefix(text);
      numbered = prefix > 0;
      groups_.push_back({i, i + 1, numbered ? prefix : text.size()});
    }
    return true;
  }

  std::string_view Suffix(const Group& group, uint32_t i) const {
    return texts_[group.begin + i].substr(group.prefix);
  }

  bool HaveSameSuffixes(const Group& a, const Group& b) const {
    if (a.size() != b.size()) return false;
    for (uint32_t i = 0; i < a.size(); ++i) {
      if (Suffix(a, i) != Suffix(b, i)) return false;
    }
    return true;
  }

  // Returns the index in sorted_ of a group with the same suffixes. Only the
  // last few groups of sorted_ are compared. If all differ, `group` is sorted
  // and added.
  uint32_t SortedLike(const Group& group) {
    constexpr size_t kMostCompared = 4;
    for (size_t back = 1; back <= std::min(kMostCompared, sorted_.size());
         ++back) {
      const size_t index = sorted_.size() - back;
      if (HaveSameSuffixes(sorted_[index].group, group)) {
        return static_cast<uint32_t>(index);
      }
    }
    suffixes_.clear();
    for (uint32_t i = 0; i < group.size(); ++i) {
      suffixes_.push_back(Suffix(group, i));
    }
    TextOrder order = Sorter(suffixes_).Sort();
    distinct_ = distinct_ && order.distinct;
    sorted_.push_back({group, std::move(order.order)});
    return static_cast<uint32_t>(sorted_.size() - 1);
  }

  Texts texts_;
  std::vector<Group> groups_;
  std::vector<Sorted> sorted_;
  std::vector<std::string_view> suffixes_;
  bool distinct_ = true;
};

// Returns a hash of the text, computed from eight bytes at a time.
uint64_t HashOf(std::string_view text) {
  uint64_t hash = text.size();
  for (size_t depth = 0; depth < text.size(); depth += kStep) {
    hash = (hash ^ HeadOf(text, depth)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  }
  return hash;
}

// Returns whether all texts are distinct. A text is inserted into a hash table
// with open addressing, at its hash or a few places after it. Returns nullopt
// if kMostProbes places in sequence are occupied, as they may be for texts that
// were chosen to collide.
std::optional<bool> DistinctByHash(Texts texts) {
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

bool Ascend(Texts texts) {
  for (size_t i = 1; i < texts.size(); ++i) {
    if (texts[i - 1] >= texts[i]) return false;
  }
  return true;
}

}  // namespace

TextOrder OrderOf(Texts texts) {
  if (!Ascend(texts)) {
    if (auto grouped = GroupedOrder(texts).Order()) return *std::move(grouped);
    return Sorter(texts).Sort();
  }
  TextOrder out;
  out.order.resize(texts.size());
  std::iota(out.order.begin(), out.order.end(), 0);
  return out;
}

bool AreDistinct(Texts texts) {
  if (const auto distinct = DistinctByHash(texts)) return *distinct;
  return OrderOf(texts).distinct;
}

}  // namespace shardc
