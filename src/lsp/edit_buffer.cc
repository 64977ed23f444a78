// Applies changes to a text. An editor may send thousands of changes in one
// message, for example when it replaces a word everywhere. The text is
// therefore divided once into blocks of about 2 KiB that end at line breaks,
// and each block stores its number of line breaks. The numbers give the blocks
// in which a change begins and ends. Only these two blocks are searched, and
// only the blocks from the first to the second are rebuilt:
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

size_t CountBreaks(std::string_view text) {
  size_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool pair = text[i] == '\n' && i > 0 && text[i - 1] == '\r';
    count += (text[i] == '\n' || text[i] == '\r') && !pair ? 1 : 0;
  }
  return count;
}

}  // namespace

// Divides a text into blocks of complete lines. A text of at most kLargest
// bytes becomes one block. A block is larger than that only if it has a longer
// line.
std::vector<EditBuffer::Block> EditBuffer::Blocks(std::string text) {
  work_ += static_cast<int64_t>(text.size());
  std::vector<Block> out;
  if (text.size() <= kLargest) {
    const size_t breaks = CountBreaks(text);
    out.push_back({std::move(text), breaks});
    return out;
  }
  const std::string_view all(text);
  size_t begin = 0, breaks = 0;
  for (size_t end = AfterBreak(all, 0); end != std::string_view::npos;
       end = AfterBreak(all, end)) {
    ++breaks;
    if (end - begin < kBlock) continue;
    out.push_back({std::string(all.substr(begin, end - begin)), breaks});
    begin = end, breaks = 0;
  }
  if (begin < all.size() || out.empty()) {
    out.push_back({std::string(all.substr(begin)), breaks});
  }
  return out;
}

void EditBuffer::Divide() {
  if (blocks_.empty()) blocks_ = Blocks(std::exchange(text_, {}));
}

EditBuffer::Spot EditBuffer::SpotOf(const Position& position,
                                    Encoding encoding) {
  if (position.line < 0) return {};
  const Spot end{blocks_.size() - 1, blocks_.back().text.size()};
  Spot spot;
  auto line = static_cast<uint64_t>(position.line);
  while (spot.block < end.block && line >= blocks_[spot.block].breaks) {
    line -= blocks_[spot.block++].breaks;
  }
  const Block& block = blocks_[spot.block];
  if (line > block.breaks) return end;
  const std::string_view text(block.text);
  for (; line > 0; --line) spot.offset = AfterBreak(text, spot.offset);
  const size_t stop = FindBreak(text, spot.offset);
  work_ += static_cast<int64_t>(stop);
  spot.offset += OffsetInLine(text.substr(spot.offset, stop - spot.offset),
                              position.character, encoding);
  return spot;
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
  auto blocks = Blocks(std::move(joined));
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
  Divide();
  const Spot start = SpotOf(change.range->start, encoding);
  const Spot end = std::max(start, SpotOf(change.range->end, encoding));
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
