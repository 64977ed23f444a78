// Directory: source. Reads and writes bytes; places, diagnostics and JSON.
// Its files include headers of no other directory.
//
// A Source is an input file, or an argument of the command line, in memory. A
// Place is a range of bytes in a Source. While a Place exists, its Source stays
// in memory.
#ifndef SHARDC_SOURCE_SOURCE_H_
#define SHARDC_SOURCE_SOURCE_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace shardc {

// The byte order mark, with which UTF-8 files may begin.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// A position in a text. Lines and columns are counted from 1, and a column is a
// Unicode code point.
struct LineColumn {
  int line = 0;
  int column = 0;
};

// A buffer that is not zeroed, for bytes that are about to be read.
class RawText {
 public:
  char* data() { return bytes_.get(); }
  size_t size() const { return size_; }
  // Changes the size to `size` bytes. Only the first `kept` bytes keep their
  // values.
  void Resize(size_t size, size_t kept);
  std::string_view First(size_t count) const { return {bytes_.get(), count}; }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t size_ = 0;
};

class Source {
 public:
  // `name` is printed in diagnostics: a path as the user wrote it, `-`, or a
  // flag such as `--mesh`.
  Source(std::string name, std::string text);
  // The source's text is the first `size` bytes of `text`.
  Source(std::string name, RawText text, size_t size);

  const std::string& name() const { return name_; }
  std::string_view text() const { return text_; }

  LineColumn At(size_t offset) const;
  // Returns the byte offset at which a line begins. Lines are counted from 1.
  // Returns 0 for lines below 1, and the text's size after the last line.
  size_t LineStart(int line) const;
  // Returns the text of a line without its line break and without a byte order
  // mark. Returns an empty text if there is no such line.
  std::string_view Line(int line) const;

 private:
  const std::vector<size_t>& LineStarts() const;
  // Returns the number of code points that begin before an offset.
  size_t PointsBefore(size_t offset) const;
  // Returns the number of code points that begin from `begin` to before `end`.
  size_t PointsBetween(size_t begin, size_t end) const;

  std::string name_;
  std::string held_;
  RawText raw_;
  std::string_view text_;
  // The starts of lines are computed when a line is first requested. Only
  // diagnostics need line numbers, and most files have no diagnostics.
  mutable std::once_flag lines_found_;
  mutable std::vector<size_t> line_starts_;
  // points_[i] is the number of code points that begin before block i of the
  // text's bytes. It is computed when a long line first needs a column.
  mutable std::once_flag points_counted_;
  mutable std::vector<size_t> points_;
};

using SourceRef = std::shared_ptr<const Source>;

SourceRef MakeSource(std::string name, std::string text);
SourceRef MakeSource(std::string name, RawText text, size_t size);

struct Place {
  static constexpr size_t kEntireFile = static_cast<size_t>(-1);

  SourceRef source;  // null if the place is unknown
  // Byte offsets; both are kEntireFile if the place is the entire file.
  size_t begin = kEntireFile;
  size_t end = kEntireFile;

  bool HasPosition() const { return source != nullptr && begin != kEntireFile; }
  // Returns `file:12:3`, `file` without a position, or "" without a file.
  std::string ToString() const;
};

}  // namespace shardc

#endif  // SHARDC_SOURCE_SOURCE_H_
