// Stores a text as blocks, so that many changes can be applied fast, one after
// the other. The first change makes the blocks. Each later change copies and
// searches only the blocks that it touches.
#ifndef SHARDC_LSP_EDIT_BUFFER_H_
#define SHARDC_LSP_EDIT_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lsp/position.h"

namespace shardc::lsp {

// Replaces `range` by `text`. Without a range, `text` replaces the entire text.
struct Change {
  std::optional<Range> range;
  std::string text;
};

class EditBuffer {
 public:
  explicit EditBuffer(std::string text) : text_(std::move(text)) {}

  // Applies one change. Its positions refer to the text after all earlier
  // changes. A position outside of the text is replaced by the nearest position
  // in the text, as in Lines::OffsetOf. An end before the start is replaced by
  // the start. All changes must have the same encoding.
  void Apply(Change change, Encoding encoding);
  // Returns the text and leaves the buffer empty.
  std::string Take();

  // Returns the number of bytes that have been copied or searched so far. Tests
  // use it to check that a change does not read the complete text.
  int64_t work() const { return work_; }

 private:
  // Complete lines of the text, or a part of a line that is longer than a
  // block. Neither a \r\n nor a character is divided. Only the last block may
  // be empty.
  struct Block {
    std::string text;
    size_t breaks = 0;
    // The number of units of the encoding in a block without line breaks; 0 for
    // the others.
    int64_t units = 0;
  };
  struct Spot {
    size_t block = 0;
    size_t offset = 0;
    auto operator<=>(const Spot&) const = default;
  };

  void Divide(Encoding encoding);
  std::vector<Block> Blocks(std::string_view text);
  Spot SpotOf(const Position& position);
  void Replace(Spot start, const Spot& end, std::string_view text);

  std::string text_;  // the complete text while `blocks_` is empty
  std::vector<Block> blocks_;
  Encoding encoding_ = Encoding::kUtf16;  // of the positions of all changes
  int64_t work_ = 0;
};

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_EDIT_BUFFER_H_
