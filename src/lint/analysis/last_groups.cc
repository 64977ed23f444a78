// Compares the templates of two names. A template is a name in which the number
// of a layer or an expert is replaced by `*`. Building the templates would be
// slower, so the names are compared up to the first byte that differs. In both
// names, this byte must be in a part that ends with such a number after the
// same text. The comparison then continues after these parts:
//
//   layers.0.up, layers.12.up  ->  differ in `0` and `12`, then `.up` is equal
#include "lint/analysis/last_groups.h"

#include <algorithm>
#include <cstring>

#include "model/name.h"
#include "source/after_last.h"

namespace shardc {
namespace {

// Returns the number of equal bytes at the beginning of both texts. Eight bytes
// are compared at once.
size_t CommonPrefix(std::string_view a, std::string_view b) {
  const size_t shorter = std::min(a.size(), b.size());
  size_t same = 0;
  for (; same + sizeof(uint64_t) <= shorter; same += sizeof(uint64_t)) {
    uint64_t x = 0, y = 0;
    std::memcpy(&x, a.data() + same, sizeof x);
    std::memcpy(&y, b.data() + same, sizeof y);
    if (x != y) break;
  }
  while (same < shorter && a[same] == b[same]) ++same;
  return same;
}

// Returns the part of the name that begins at `begin`.
std::string_view Part(std::string_view name, size_t begin, char separator) {
  return name.substr(begin, PartEnd(name, begin, separator) - begin);
}

}  // namespace

bool SameTemplate(std::string_view a, std::string_view b, char separator) {
  // The number of an expert at the end of a name is written as `*`, too.
  const size_t a_kept = EndBeforeExpert(a, separator);
  const size_t b_kept = EndBeforeExpert(b, separator);
  if ((a_kept < a.size()) != (b_kept < b.size())) return false;
  a = a.substr(0, a_kept);
  b = b.substr(0, b_kept);
  for (;;) {
    const size_t same = CommonPrefix(a, b);
    if (same == a.size() && same == b.size()) return true;
    // The names first differ in the part that begins here, after the last
    // separator or bracket.
    size_t part = same - AfterLast(a.substr(0, same), separator).size();
    for (size_t end; (end = PartEnd(a, part, separator)) < same;) {
      part = end + 1;
    }
    const std::string_view a_part = Part(a, part, separator);
    const std::string_view b_part = Part(b, part, separator);
    const size_t stem = StemLength(a_part);
    if (stem == a_part.size() || stem != StemLength(b_part) ||
        stem == b_part.size() ||
        a_part.substr(0, stem) != b_part.substr(0, stem)) {
      return false;
    }
    a.remove_prefix(part + a_part.size());
    b.remove_prefix(part + b_part.size());
  }
}

std::optional<uint32_t> LastGroups::Find(std::string_view name, uint32_t layout,
                                         int32_t rule) {
  if (separator_ == 0) return std::nullopt;
  for (Entry& entry : Of(layout, rule)) {
    if (entry.layout != layout || entry.rule != rule ||
        !SameTemplate(name, entry.name, separator_)) {
      continue;
    }
    // The next name is probably more similar to `name` than to the entry's
    // name, so the entry gets `name`.
    entry.name = name;
    return entry.group;
  }
  return std::nullopt;
}

void LastGroups::Keep(std::string_view name, uint32_t layout, int32_t rule,
                      uint32_t group) {
  Entries& entries = Of(layout, rule);
  entries[next_++ % entries.size()] = {name, layout, rule, group};
}

}  // namespace shardc
