// Defines positions in a text as the Language Server Protocol (LSP) does: the
// number of a line, and a number of code units within the line.
#ifndef SHARDC_LSP_POSITION_H_
#define SHARDC_LSP_POSITION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace shardc::lsp {

// The unit in which the columns of a line are counted.
enum class Encoding : uint8_t { kUtf8, kUtf16, kUtf32 };
std::string_view EncodingName(Encoding encoding);  // "utf-16"
std::optional<Encoding> ParseEncoding(std::string_view name);

// A position of LSP: a line and a column, both counted from 0.
struct Position {
  int64_t line = 0;
  int64_t character = 0;

  auto operator<=>(const Position&) const = default;
};

struct Range {
  Position start, end;

  bool operator==(const Range&) const = default;
};

// Returns the offset of the next \n or \r at or after `at`, or the text's size.
size_t FindBreak(std::string_view text, size_t at);

// Returns the offset in the line of the character at this column. A column past
// the end gives the line's size; a column inside a character gives the start of
// the character.
size_t OffsetInLine(std::string_view line, int64_t column, Encoding encoding);

// Returns the number of units of a text in an encoding.
int64_t UnitsOf(std::string_view text, Encoding encoding);

// The lines of a text. A line ends at \n, \r\n or \r. Offsets are in bytes. An
// object must be used by only one thread at a time.
class Lines {
 public:
  explicit Lines(std::string_view text);  // `text` must outlive this

  // Returns the offset of a position. A position past the end of a line becomes
  // the end of the line, and a position past the last line the end of the text.
  // A position inside a character becomes the start of the character.
  size_t OffsetOf(Position position, Encoding encoding) const;
  Position PositionOf(size_t offset, Encoding encoding) const;
  Range RangeOf(size_t begin, size_t end, Encoding encoding) const {
    return {PositionOf(begin, encoding), PositionOf(end, encoding)};
  }

  size_t LineOf(size_t offset) const;
  size_t Begin(size_t line) const { return starts_[line]; }
  size_t End(size_t line) const;  // without the line break
  size_t count() const { return starts_.size(); }
  std::string_view Text(size_t line) const {
    return text_.substr(Begin(line), End(line) - Begin(line));
  }

 private:
  struct Counted {
    size_t offset = 0;
    int64_t character = 0;
  };

  std::string_view text_;
  std::vector<size_t> starts_;
  // Stored positions in the line that was last converted, in ascending order.
  // Without them, each conversion would read a line of megabytes from its
  // start.
  mutable std::vector<Counted> counted_;
  mutable size_t counted_line_ = 0;
  mutable Encoding counted_encoding_ = Encoding::kUtf8;
};

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_POSITION_H_
