// A window that moves through a text, so that a parser can read a large file
// without holding it in memory.
#ifndef SHARDC_SOURCE_TEXT_WINDOW_H_
#define SHARDC_SOURCE_TEXT_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "source/input_file.h"

namespace shardc {

// The window is either a whole text in memory, or a buffer that moves through a
// file:
//
//   TextWindow window(file, 8);  // the file holds `abcdefghij`
//   window.text();               // abcdefgh
//   window.Advance(6);           // true
//   window.text();               // ghij
class TextWindow {
 public:
  explicit TextWindow(std::string_view text) : text_(text), end_(0) {}
  // Reads the first `bytes` of the file, which outlives the window. The text is
  // empty if the file cannot be read.
  TextWindow(const InputFile& file, size_t bytes);

  std::string_view text() const { return text_; }
  // Returns whether text() reaches the end of the file. False if the file could
  // not be read.
  bool AtEnd() const {
    return !failed_ && (file_ == nullptr || end_ == file_->size());
  }
  // Returns the number of bytes that were dropped before text().
  int64_t dropped() const { return dropped_; }

  // Drops the first `count` bytes of text() and reads more of the file after
  // the rest. Returns false, with text() unchanged, if the file has no more
  // bytes or the buffer is full. Returns false, with an empty text(), if the
  // file cannot be read.
  bool Advance(size_t count);

 private:
  const InputFile* file_ = nullptr;
  std::unique_ptr<char[]> buffer_;
  size_t capacity_ = 0;
  std::string_view text_;
  int64_t end_;  // offset in the file of the first byte that was not read
  int64_t dropped_ = 0;
  bool failed_ = false;
};

}  // namespace shardc

#endif  // SHARDC_SOURCE_TEXT_WINDOW_H_
