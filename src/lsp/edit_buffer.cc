// Applies changes to a text. An editor may send thousands of changes in one
// message, for example when it replaces a word everywhere. The text is
// therefore divided once into blocks of about 2 KiB. A block stores its number
// of line breaks or, if it has none because it is a part of a longer line, its
// number of units of the encoding. The numbers give the blocks in which a
// change begins and ends. Only these two blocks are searched, and only the
// blocks from the first to the second are rebuilt:
//
//   blocks of 40, 38 and 41 lines; a change in line 50
//     ->  line 10 of the second block; the first and third are not read
#include "lsp/edit_buffer.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace shardc::lsp {
namespace {

constexpr size_t kBlock = 2048;
constexpr size_t kLargest = 2 * kBlock;

// Returns the offset after the next line break, or npos.
size_t AfterBreak(std::string_view text, size_t at) {
  at = FindBreak(text, at);
  if (at == text.size()) return std::string_view::npos;
  return at + (text.substr(at, 2) == "\r\n" ? 2 : 1);
}

// Returns the end of the first block of a text that is longer than kLargest:
// after a line break, or else before any character.
size_t BlockEnd(std::string_view text) {
  const size_t end = AfterBreak(text.substr(0, kLargest), kBlock);
  if (end != std::string_view::npos && end < kLargest) return end;
  size_t at = kBlock;
  while (at < text.size() &&
         ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80 ||
          text.substr(at - 1, 2) == "\r\n")) {
    ++at;
  }
  return at;
}

size_t CountBreaks(std::string_view text) {
  size_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool pair = text[i] == '\n' && i > 0 && text[i - 1] == '\r';
    count += (text[i] == '\n' || text[i] == '\r') && !pair ? 1 : 0;
  }
  return count;
}

}  // namespace

// Divides a text into blocks that end at line breaks where lines are short. A
// text of at most kLargest bytes becomes one block.
std::vector<EditBuffer::Block> EditBuffer::Blocks(std::string_view text) {
  work_ += static_cast<int64_t>(text.size());
  std::vector<Block> out;
  const auto add = [&](std::string_view part) {
    const size_t breaks = CountBreaks(part);
    const int64_t units = breaks > 0 ? 0 : UnitsOf(part, encoding_);
    out.push_back({std::string(part), breaks, units});
  };
  while (text.size() > kLargest) {
    const size_t end = BlockEnd(text);
    add(text.substr(0, end));
    text.remove_prefix(end);
  }
  add(text);
  return out;
}

void EditBuffer::Divide(Encoding encoding) {
  if (!blocks_.empty()) return;
  encoding_ = encoding;
  blocks_ = Blocks(std::exchange(text_, {}));
}

EditBuffer::Spot EditBuffer::SpotOf(const Position& position) {
  if (position.line < 0) return {};
  const Spot end{blocks_.size() - 1, blocks_.back().text.size()};
  Spot spot;
  // The line begins after this number of line breaks.
  auto breaks = static_cast<uint64_t>(position.line);
  while (spot.block < end.block && breaks > blocks_[spot.block].breaks) {
    breaks -= blocks_[spot.block++].breaks;
  }
  if (breaks > blocks_[spot.block].breaks) return end;
  for (; breaks > 0; --breaks) {
    spot.offset = AfterBreak(blocks_[spot.block].text, spot.offset);
  }
  // The line may go on in the next blocks.
  for (int64_t column = std::max<int64_t>(0, position.character);;) {
    const std::string_view text(blocks_[spot.block].text);
    const bool whole = spot.offset == 0 && blocks_[spot.block].breaks == 0;
    const size_t stop = whole ? text.size() : FindBreak(text, spot.offset);
    const auto rest = text.substr(spot.offset, stop - spot.offset);
    if (!whole) work_ += static_cast<int64_t>(stop);
    const bool ends = stop < text.size() || spot.block == end.block;
    const int64_t units = ends    ? 0
                          : whole ? blocks_[spot.block].units
                                  : UnitsOf(rest, encoding_);
    if (ends || column < units) {
      if (whole) work_ += static_cast<int64_t>(stop);
      spot.offset += OffsetInLine(rest, column, encoding_);
      return spot;
    }
    column -= units;
    spot = {spot.block + 1, 0};
  }
}

void EditBuffer::Replace(Spot start, const Spot& end, std::string_view text) {
  // If the change begins at the start of a block and the previous block ends
  // with \r, both blocks are rebuilt. The inserted text may begin with \n,
  // which makes one line break together with that \r, and a line break must not
  // be divided.
  const bool joins = start.block > 0 && start.offset == 0 &&
                     blocks_[start.block - 1].text.ends_with('\r');
  if (joins) start = {start.block - 1, blocks_[start.block - 1].text.size()};
  const std::string_view last(blocks_[end.block].text);
  std::string joined = blocks_[start.block].text.substr(0, start.offset);
  joined += text;
  joined += last.substr(end.offset);
  auto blocks = Blocks(joined);
  const auto at = [&](size_t block) {
    return blocks_.begin() + static_cast<std::ptrdiff_t>(block);
  };
  // The usual case is that one block replaces one block. Then nothing is erased
  // or inserted, and no other block is moved in memory.
  blocks_[start.block] = std::move(blocks.front());
  blocks_.erase(at(start.block + 1), at(end.block + 1));
  blocks_.insert(at(start.block + 1),
                 std::make_move_iterator(blocks.begin() + 1),
                 std::make_move_iterator(blocks.end()));
}

void EditBuffer::Apply(Change change, Encoding encoding) {
  if (!change.range) {
    blocks_.clear();
    text_ = std::move(change.text);
    return;
  }
  Divide(encoding);
  const Spot start = SpotOf(change.range->start);
  const Spot end = std::max(start, SpotOf(change.range->end));
  Replace(start, end, change.text);
}

std::string EditBuffer::Take() {
  if (blocks_.empty()) return std::exchange(text_, {});
  size_t size = 0;
  for (const Block& block : blocks_) size += block.text.size();
  std::string out;
  out.reserve(size);
  for (const Block& block : blocks_) out += block.text;
  work_ += static_cast<int64_t>(size);
  blocks_.clear();
  return out;
}

}  // namespace shardc::lsp
