// Compares the templates of two names. A template is a name in which the number
// of a layer or an expert is replaced by `*`. Building the templates would be
// slower, so the names are compared up to the first byte that differs. In both
// names, this byte must be in a part that ends with such a number after the
// same text. The comparison then continues after these parts:
//
//   layers.0.up, layers.12.up  ->  differ in `0` and `12`, then `.up` is equal
#include "facts/name_groups.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "model/name.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc::facts {
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

// Returns eight bytes of a text with 0 in place of each ASCII digit.
uint64_t WithoutDigits(uint64_t bytes) {
  constexpr uint64_t kEach = 0x0101010101010101;
  // A digit is a byte of which these are the values 0 to 9.
  const uint64_t values = bytes ^ (kEach * '0');
  // The highest bit of each byte is set if the value is above 9.
  const uint64_t above =
      ((values & kEach * 0x7f) + kEach * (0x7f - 9)) | values;
  return bytes & (((above >> 7) & kEach) * 0xff);
}

// Returns the end of the part that begins at `begin` if the part is a number
// between separators; otherwise 0.
size_t NumberEnd(std::string_view name, size_t begin, char separator) {
  if (begin > 0 && name[begin - 1] != separator) return 0;
  size_t end = begin;
  while (end < name.size() && IsDigit(name[end])) ++end;
  const bool whole = end == name.size() || name[end] == separator;
  return whole && end > begin ? end : 0;
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
    // Usually the names differ in a part that is a number.
    size_t digits = same;
    while (digits > 0 && IsDigit(a[digits - 1])) --digits;
    const size_t a_end = NumberEnd(a, digits, separator);
    const size_t b_end = NumberEnd(b, digits, separator);
    if (a_end != 0 && b_end != 0) {
      a.remove_prefix(a_end);
      b.remove_prefix(b_end);
      continue;
    }
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

LastGroups::Entries& LastGroups::Of(std::string_view name, uint32_t type) {
  uint64_t key = type;
  // 16 bytes such as `lf_attn/q/kernel` hold the leaf and its module. A number
  // would make the key differ from layer to layer.
  std::array<uint64_t, 2> end = {};
  const size_t length = std::min(sizeof end, name.size());
  std::memcpy(end.data(), name.data() + (name.size() - length), length);
  for (const uint64_t bytes : end) {
    key = std::rotl(key, 29) ^ WithoutDigits(bytes);
  }
  key ^= key >> 32;
  key ^= key >> 16;
  key ^= key >> 6;
  return table_[key % table_.size()];
}

std::optional<uint32_t> LastGroups::Find(std::string_view name, uint32_t type) {
  if (separator_ == 0) return std::nullopt;
  for (Entry& entry : Of(name, type)) {
    if (entry.type != type || !SameTemplate(name, entry.name, separator_)) {
      continue;
    }
    // The next name is probably more similar to `name` than to the entry's
    // name, so the entry gets `name`.
    entry.name = name;
    return entry.group;
  }
  return std::nullopt;
}

void LastGroups::Keep(std::string_view name, uint32_t type, uint32_t group) {
  Entries& entries = Of(name, type);
  entries[next_++ % entries.size()] = {name, type, group};
}

}  // namespace shardc::facts
