// Defines positions in a text as the Language Server Protocol (LSP) does: the
// number of a line, and a number of code units within the line.
#ifndef SHARDC_LSP_POSITION_H_
#define SHARDC_LSP_POSITION_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "source/file.h"

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

// Returns "/a b" for "file:///a%20b"; nullopt if the URI does not name a file
// on this machine.
std::optional<std::string> PathOfUri(std::string_view uri);
// Returns the URI of a path. A relative path is made absolute first.
std::string UriOfPath(const std::string& path);

// Finds where a cursor is in a YAML text: the keys above it, and whether it is
// in a key, a value or a comment. The text is being typed and may not be valid
// YAML, so it is not parsed: lines, indentation, quotes and brackets are
// enough.

enum class FileKind : uint8_t { kOther, kRules, kMesh, kProject };
// Returns the kind of a file. It is found from the file's name, from a comment
// that names the schema (`$schema=rules.schema.json`), and from the keys.
// Returns kOther if the file does not look like a file of shardc.
FileKind KindOf(std::string_view path, std::string_view text);

struct Context {
  enum class At : uint8_t { kKey, kValue, kComment, kIgnore };
  At at = At::kKey;
  // The keys above the cursor, the outermost first. If the cursor is in a
  // value, the last key is the key of this value.
  std::vector<std::string> keys;
  size_t begin = 0;  // offset where the word before the cursor begins
  // Whether the cursor is in a value that follows its key on the same line and
  // is not in a list.
  bool behind_colon = false;

  // Returns whether `keys` equals the path. `*` in the path matches any key.
  bool In(std::initializer_list<std::string_view> path) const;
};

// Returns the context at an offset in bytes.
Context ContextAt(std::string_view text, size_t offset);

// A range of bytes. WordAt returns the name around an offset, with the
// characters that a mesh axis may have: letters, digits, `_`, `-` and `.`. The
// range is empty if there is no name.
struct Word {
  size_t begin = 0, end = 0;
};
Word WordAt(std::string_view text, size_t offset);

struct Document {
  std::string uri;   // as the editor spells it
  std::string path;  // empty if the URI names no file
  std::string text;
  std::optional<int64_t> version;
  // The file at `path` when the document was opened, or at the last
  // RefreshFiles().
  FileId file;

  // Returns the name by which findings refer to the document.
  const std::string& name() const { return path.empty() ? uri : path; }
};

class Documents {
 public:
  void Open(std::string uri, std::string text, std::optional<int64_t> version);
  void Close(const std::string& uri);
  // Sets Document::file of all documents again, because a file on disk may have
  // been replaced since the documents were opened.
  void RefreshFiles();

  Document* Find(const std::string& uri);
  const Document* Find(const std::string& uri) const;
  // Returns the document of the file at this path, even if the document's path
  // is spelt differently. Returns null if the file is not open.
  const Document* Showing(const std::string& path) const;
  const std::map<std::string, Document>& all() const { return open_; }

  // Returns the number of documents that show this file.
  int64_t CountOf(const FileId& file) const;

  // Returns the texts of all open documents, keyed by file. These texts are
  // read in place of the contents on disk.
  FileTexts Texts() const;

 private:
  std::map<std::string, Document> open_;  // keyed by URI
  // The URIs of open documents, keyed by Document::name(). Several URIs may
  // refer to the same file.
  std::map<std::string, std::set<std::string>> uris_;
};

// Stores a text as blocks, so that many changes can be applied fast, one after
// the other. The first change makes the blocks. Each later change copies and
// searches only the blocks that it touches.

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

#endif  // SHARDC_LSP_POSITION_H_
