// Makes yaml-cpp accept pairs of surrogate escapes, such as `\ud83d\ude00`.
// Before parsing, it is not known whether such a text is an escape: in single
// quotes and plain scalars it is twelve ordinary characters. Each pair is
// therefore replaced by escapes of two noncharacters, which have the same
// length. The parser reads these as escapes where escapes are allowed. After
// parsing, the values of scalars get the character of the pair, or the text as
// it was written:
//
//   "a\ud83d\ude00"  ->  "a\ufdd0\ufdd1"  ->  a and U+1F600
//   'a\ud83d\ude00'  ->  'a\ufdd0\ufdd1'  ->  a\ud83d\ude00, as written
#include "yaml/surrogates.h"

#include <algorithm>

#include "source/utf8.h"

namespace shardc {
namespace {

constexpr std::string_view kEscapes = "\\ufdd0\\ufdd1";
constexpr std::string_view kCharacters = "\xef\xb7\x90\xef\xb7\x91";
constexpr size_t kEscape = 6;  // bytes of an escape such as `\ud83d`

// Returns the code unit of the escape `\uXXXX` at `at`; 0 if there is none.
uint32_t UnitAt(std::string_view text, size_t at) {
  if (text.size() - at < kEscape || text.substr(at, 2) != "\\u") return 0;
  uint32_t unit = 0;
  for (const char c : text.substr(at + 2, 4)) {
    const bool digit = c >= '0' && c <= '9';
    const char lower = static_cast<char>(c | 0x20);
    if (!digit && (lower < 'a' || lower > 'f')) return 0;
    unit =
        unit << 4 | static_cast<uint32_t>(digit ? c - '0' : lower - 'a' + 10);
  }
  return unit;
}

}  // namespace

SurrogatePairs::SurrogatePairs(std::string_view text) : text_(text) {
  if (text.find(kEscapes) != std::string_view::npos ||
      text.find(kCharacters) != std::string_view::npos) {
    return;
  }
  for (size_t at = text.find('\\'); at != std::string_view::npos;
       at = text.find('\\', at)) {
    const uint32_t high = UnitAt(text, at);
    const bool first = high >= 0xd800 && high <= 0xdbff;
    const uint32_t low = first ? UnitAt(text, at + kEscape) : 0;
    if (low >= 0xdc00 && low <= 0xdfff) {
      pairs_.push_back(
          {at, 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)});
      at += 2 * kEscape;
    } else {
      at = std::min(at + 2, text.size());  // skips the escaped character too
    }
  }
}

std::string SurrogatePairs::ParserText() const {
  std::string out(text_);
  for (const Pair& pair : pairs_) {
    out.replace(pair.begin, kEscapes.size(), kEscapes);
  }
  return out;
}

std::string SurrogatePairs::ValueOf(std::string value, size_t begin) const {
  if (pairs_.empty()) return value;
  // The text contains neither of the two noncharacters, so if the value has
  // them, they are decoded escapes.
  const bool decoded = value.find(kCharacters) != std::string::npos;
  const std::string_view stands = decoded ? kCharacters : kEscapes;
  auto pair = std::lower_bound(
      pairs_.begin(), pairs_.end(), begin,
      [](const Pair& one, size_t at) { return one.begin < at; });
  std::string out;
  size_t from = 0;
  for (size_t at = value.find(stands);
       at != std::string::npos && pair != pairs_.end();
       at = value.find(stands, from), ++pair) {
    out.append(value, from, at - from);
    if (decoded) {
      AppendUtf8(out, pair->point);
    } else {
      out.append(text_, pair->begin, kEscapes.size());
    }
    from = at + stands.size();
  }
  return out.append(value, from);
}

}  // namespace shardc
