// Converts between byte offsets in a UTF-8 text and positions of the Language
// Server Protocol. Columns are counted in UTF-16 code units unless client and
// server agree on another unit. For example, the character U+1F600 has two code
// units in UTF-16 and four in UTF-8:
//
//   "a\n\U0001F600b", offset of `b`  ->  line 1, character 2 (in UTF-8, 4)
#include "lsp/position.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "source/index.h"
#include "source/utf8.h"

namespace shardc::lsp {
namespace {

constexpr std::pair<Encoding, std::string_view> kNames[] = {
    {Encoding::kUtf8, "utf-8"},
    {Encoding::kUtf16, "utf-16"},
    {Encoding::kUtf32, "utf-32"},
};

// In a long line, the column is stored at every kStep bytes. Other columns are
// counted from the nearest stored position before them.
constexpr size_t kStep = 4096;

struct Units {
  size_t bytes = 1;
  int64_t units = 1;
};

// Returns the size of the character at `at`, in bytes and in units of the
// encoding. An invalid byte is treated as one character.
Units UnitsAt(std::string_view text, size_t at, Encoding encoding) {
  // An ASCII character is one byte and one unit in every encoding.
  if (static_cast<unsigned char>(text[at]) < 0x80) return {};
  const CodePoint point = DecodeUtf8(text, at);
  if (point.length == 0) return {};
  if (encoding == Encoding::kUtf8) {
    return {point.length, static_cast<int64_t>(point.length)};
  }
  constexpr uint32_t kLastSingle = 0xFFFF;
  const bool pair = encoding == Encoding::kUtf16 && point.value > kLastSingle;
  return {point.length, pair ? 2 : 1};
}

}  // namespace

std::string_view EncodingName(Encoding encoding) {
  return kNames[static_cast<size_t>(encoding)].second;
}

std::optional<Encoding> ParseEncoding(std::string_view name) {
  for (const auto& [encoding, known] : kNames) {
    if (known == name) return encoding;
  }
  return std::nullopt;
}

size_t FindBreak(std::string_view text, size_t at) {
  while (at < text.size() && text[at] != '\n' && text[at] != '\r') ++at;
  return at;
}

size_t OffsetInLine(std::string_view line, int64_t column, Encoding encoding) {
  size_t at = 0;
  while (at < line.size() && column > 0) {
    const Units units = UnitsAt(line, at, encoding);
    if (column < units.units) break;
    column -= units.units;
    at += units.bytes;
  }
  return at;
}

int64_t UnitsOf(std::string_view text, Encoding encoding) {
  int64_t out = 0;
  for (size_t at = 0; at < text.size();) {
    const Units units = UnitsAt(text, at, encoding);
    at += units.bytes;
    out += units.units;
  }
  return out;
}

Lines::Lines(std::string_view text) : text_(text), starts_{0} {
  for (size_t at = FindBreak(text, 0); at < text.size();
       at = FindBreak(text, at)) {
    at += text.substr(at, 2) == "\r\n" ? 2 : 1;
    starts_.push_back(at);
  }
}

size_t Lines::End(size_t line) const {
  if (line + 1 == starts_.size()) return text_.size();
  size_t end = starts_[line + 1];
  if (text_[end - 1] == '\n') --end;
  if (end > starts_[line] && text_[end - 1] == '\r') --end;
  return end;
}

size_t Lines::LineOf(size_t offset) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), offset);
  return AsIndex(after - starts_.begin()) - 1;
}

size_t Lines::OffsetOf(Position position, Encoding encoding) const {
  if (position.line < 0) return 0;
  if (position.line >= static_cast<int64_t>(starts_.size())) {
    return text_.size();
  }
  const auto line = AsIndex(position.line);
  return Begin(line) + OffsetInLine(Text(line), position.character, encoding);
}

Position Lines::PositionOf(size_t offset, Encoding encoding) const {
  offset = std::min(offset, text_.size());
  const size_t line = LineOf(offset);
  // An offset inside a line break is treated as the end of the line, because
  // LSP has no position between \r and \n.
  const size_t to = std::min(offset, End(line));
  if (counted_.empty() || counted_line_ != line ||
      counted_encoding_ != encoding) {
    counted_line_ = line;
    counted_encoding_ = encoding;
    counted_.assign(1, {starts_[line], 0});
  }
  const auto after = std::upper_bound(
      counted_.begin(), counted_.end(), to,
      [](size_t value, const Counted& one) { return value < one.offset; });
  Counted at = *std::prev(after);
  while (at.offset < to) {
    const Units units = UnitsAt(text_, at.offset, encoding);
    if (at.offset + units.bytes > to) break;
    at.character += units.units;
    at.offset += units.bytes;
    if (at.offset >= counted_.back().offset + kStep) counted_.push_back(at);
  }
  return {static_cast<int64_t>(line), at.character};
}

}  // namespace shardc::lsp
