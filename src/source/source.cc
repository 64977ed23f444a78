// Converts byte offsets to lines and columns. When a line is first requested,
// the offsets at which all lines begin are computed. A binary search then finds
// the line of an offset. The column is 1 plus the number of code points between
// the start of the line and the offset.
//
// Counting these code points each time would be slow in a long line, such as a
// JSON file without line breaks. So the code points before each block of bytes
// are counted once, and a column then needs the count of a single block. For
// example:
//
//   "x\n\u00e4=1", offset 4 (`=`)  ->  line 2, column 2
#include "source/source.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace shardc {
namespace {

constexpr size_t kBlock = 4096;

bool IsContinuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

size_t PointsIn(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(),
                    [](char byte) { return !IsContinuation(byte); }));
}

}  // namespace

void RawText::Resize(size_t size, size_t kept) {
  auto bytes = std::make_unique_for_overwrite<char[]>(size);
  if (kept > 0) std::memcpy(bytes.get(), bytes_.get(), kept);
  bytes_ = std::move(bytes);
  size_ = size;
}

Source::Source(std::string name, std::string text)
    : name_(std::move(name)), held_(std::move(text)), text_(held_) {}

Source::Source(std::string name, RawText text, size_t size)
    : name_(std::move(name)), raw_(std::move(text)), text_(raw_.First(size)) {}

const std::vector<size_t>& Source::LineStarts() const {
  std::call_once(lines_found_, [this] {
    line_starts_.push_back(0);
    for (size_t at = text_.find('\n'); at != std::string::npos;
         at = text_.find('\n', at + 1)) {
      line_starts_.push_back(at + 1);
    }
  });
  return line_starts_;
}

size_t Source::PointsBefore(size_t offset) const {
  std::call_once(points_counted_, [this] {
    points_.push_back(0);
    for (size_t at = 0; at + kBlock <= text_.size(); at += kBlock) {
      points_.push_back(points_.back() + PointsIn(text_.substr(at, kBlock)));
    }
  });
  const size_t block = offset / kBlock;
  const size_t begin = block * kBlock;
  return points_[block] + PointsIn(text_.substr(begin, offset - begin));
}

size_t Source::PointsBetween(size_t begin, size_t end) const {
  if (end <= begin) return 0;
  return end - begin <= kBlock ? PointsIn(text_.substr(begin, end - begin))
                               : PointsBefore(end) - PointsBefore(begin);
}

LineColumn Source::At(size_t offset) const {
  offset = std::min(offset, text_.size());
  const std::vector<size_t>& starts = LineStarts();
  const auto after = std::upper_bound(starts.begin(), starts.end(), offset);
  size_t at = *(after - 1);
  // Editors do not show the byte order mark, so it has no column.
  if (at == 0 && text().starts_with(kByteOrderMark)) {
    at = std::min(offset, kByteOrderMark.size());
  }
  int column = 1 + static_cast<int>(PointsBetween(at, offset));
  // An offset inside a code point has the column of its first byte.
  if (offset < text_.size() && IsContinuation(text_[offset]) && column > 1) {
    --column;
  }
  return {static_cast<int>(after - starts.begin()), column};
}

size_t Source::LineStart(int line) const {
  if (line < 1) return 0;
  const auto index = static_cast<size_t>(line - 1);
  const std::vector<size_t>& starts = LineStarts();
  return index < starts.size() ? starts[index] : text_.size();
}

std::string_view Source::Line(int line) const {
  if (line < 1 || static_cast<size_t>(line) > LineStarts().size()) return {};
  const size_t begin = LineStart(line);
  size_t end = LineStart(line + 1);
  if (end > begin && text_[end - 1] == '\n') --end;
  if (end > begin && text_[end - 1] == '\r') --end;
  std::string_view out = text().substr(begin, end - begin);
  if (line == 1 && out.starts_with(kByteOrderMark)) {
    out.remove_prefix(kByteOrderMark.size());
  }
  return out;
}

SourceRef MakeSource(std::string name, std::string text) {
  return std::make_shared<const Source>(std::move(name), std::move(text));
}

SourceRef MakeSource(std::string name, RawText text, size_t size) {
  return std::make_shared<const Source>(std::move(name), std::move(text), size);
}

std::string Place::ToString() const {
  if (source == nullptr) return {};
  if (!HasPosition()) return source->name();
  const LineColumn at = source->At(begin);
  return source->name() + ":" + std::to_string(at.line) + ":" +
         std::to_string(at.column);
}

}  // namespace shardc
