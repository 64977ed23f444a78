// Operations on sets of code points. A set is a sorted list of ranges with gaps
// between them. The complement of a set is therefore the list of its gaps, and
// a member is found by binary search. For example:
//
//   union of [a-c], [b-f] and [x]  ->  a to f, x
//   complement of this union       ->  U+0000 to U+0060, g to w, y to U+10FFFF
#include "match/automaton/char_set.h"

#include <algorithm>

namespace shardc {
namespace {

constexpr uint32_t kKelvinSign = 0x212A;
constexpr uint32_t kLongS = 0x017F;
constexpr uint32_t kCaseBit = 0x20;

// Takes the part of `range` that is within `letters`, such as A-Z. Appends the
// same letters in the other case, and the characters outside ASCII that match
// one of them when case is ignored.
void AddOtherCase(CodeRange range, CodeRange letters,
                  std::vector<CodeRange>& out) {
  const uint32_t low = std::max(range.low, letters.low);
  const uint32_t high = std::min(range.high, letters.high);
  if (low > high) return;
  out.push_back({low ^ kCaseBit, high ^ kCaseBit});
  const auto holds = [&](char letter) {
    const auto point = static_cast<uint32_t>(letter);
    const uint32_t mine = (letters.low & kCaseBit) | (point & ~kCaseBit);
    return mine >= low && mine <= high;
  };
  if (holds('k')) out.push_back({kKelvinSign, kKelvinSign});
  if (holds('s')) out.push_back({kLongS, kLongS});
}

}  // namespace

CharSet Canonical(std::vector<CodeRange> ranges) {
  std::sort(ranges.begin(), ranges.end());
  CharSet out;
  for (const CodeRange& range : ranges) {
    if (!out.empty() && range.low <= out.back().high + 1) {
      out.back().high = std::max(out.back().high, range.high);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

CharSet Complement(const CharSet& set) {
  CharSet out;
  uint32_t next = 0;
  for (const CodeRange& range : set) {
    if (range.low > next) out.push_back({next, range.low - 1});
    next = range.high + 1;
  }
  if (next <= kLastCodePoint) out.push_back({next, kLastCodePoint});
  return out;
}

bool Contains(const CharSet& set, uint32_t point) {
  const auto after = std::upper_bound(
      set.begin(), set.end(), point,
      [](uint32_t at, const CodeRange& range) { return at < range.low; });
  return after != set.begin() && std::prev(after)->high >= point;
}

bool AddFolded(CodeRange range, std::vector<CodeRange>& out) {
  if (range.high >= 0x80) return false;
  out.push_back(range);
  AddOtherCase(range, {'a', 'z'}, out);
  AddOtherCase(range, {'A', 'Z'}, out);
  return true;
}

}  // namespace shardc
