// Room: source. Bytes in and out, places, findings, JSON. Knows no other room.
//
// A Source is one input file (or argument) held whole; a Place is a byte
// range of it. Both are values: a Place keeps its Source alive.
#ifndef SHARDC_SOURCE_SOURCE_H_
#define SHARDC_SOURCE_SOURCE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace shardc {

// Both counted from 1; the column counts Unicode code points.
struct LineColumn {
  int line = 0;
  int column = 0;
};

class Source {
 public:
  // `name` is what diagnostics print: a path as the user wrote it, `-`, or a
  // flag such as `--mesh`.
  Source(std::string name, std::string text);

  const std::string& name() const { return name_; }
  std::string_view text() const { return text_; }

  LineColumn At(size_t offset) const;
  // Byte offset of the first byte of a line (counted from 1).
  size_t LineStart(int line) const;
  // The text of a line without its line break.
  std::string_view Line(int line) const;

 private:
  std::string name_;
  std::string text_;
  std::vector<size_t> line_starts_;
};

using SourceRef = std::shared_ptr<const Source>;

SourceRef MakeSource(std::string name, std::string text);

struct Place {
  static constexpr size_t kWhole = static_cast<size_t>(-1);

  SourceRef source;       // null: nowhere in particular
  size_t begin = kWhole;  // byte offset; kWhole: the file as a whole
  size_t end = kWhole;

  bool HasPosition() const { return source != nullptr && begin != kWhole; }
  // `file:12:3`, `file`, or the empty string.
  std::string ToString() const;
};

}  // namespace shardc

#endif  // SHARDC_SOURCE_SOURCE_H_
