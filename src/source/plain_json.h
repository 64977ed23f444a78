// A fast scanner of common JSON. If the scanner rejects a text, the caller
// parses the text again with the full parser, which also reports errors.
#ifndef SHARDC_SOURCE_PLAIN_JSON_H_
#define SHARDC_SOURCE_PLAIN_JSON_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "source/input_file.h"

namespace shardc {

// Returns the end of the plain characters from `at` on: printable ASCII other
// than `"` and `\`.
size_t EndOfPlain(std::string_view text, size_t at = 0);

// The functions that read a token, such as Number(), return false if the next
// token is a different one. All of them except TakeHere and TakeKey first skip
// white space. Strings must be printable ASCII without `"` and `\`, so that a
// string can be returned as a view into the text.
class PlainJson {
 public:
  // Reads the text from the byte `at` on.
  explicit PlainJson(std::string_view text, size_t at = 0)
      : text_(text), at_(at) {}

  // Returns the offset of the next byte.
  size_t at() const { return at_; }

  void SkipSpace() {
    while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  }
  // Returns whether only white space is left.
  bool End() {
    SkipSpace();
    return at_ == text_.size();
  }
  bool Take(char c) {
    if (at_ < text_.size() && text_[at_] != c) SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool TakeWord(std::string_view word) {
    SkipSpace();
    return TakeHere(word);
  }
  bool TakeHere(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  // Reads the rest of a key after its opening quote, and the colon. `key`
  // includes the closing quote: TakeKey("shape\"").
  bool TakeKey(std::string_view key) { return TakeHere(key) && Take(':'); }
  bool Next(char c) {
    SkipSpace();
    return at_ < text_.size() && text_[at_] == c;
  }

  bool String(std::string_view& out) {
    if (!Take('"')) return false;
    const size_t end = EndOfPlain(text_, at_);
    if (end >= text_.size() || text_[end] != '"') return false;
    out = text_.substr(at_, end - at_);
    at_ = end + 1;
    return true;
  }

  // Reads an integer of at most 18 digits without a sign, so that the value
  // cannot overflow. Returns false if the text ends with the digits, because
  // more digits may follow in the file.
  bool Number(int64_t& out) {
    SkipSpace();
    const size_t begin = at_;
    out = 0;
    for (; at_ < text_.size(); ++at_) {
      const auto digit = static_cast<unsigned>(text_[at_] - '0');
      if (digit > 9) break;
      if (at_ - begin >= 18) return false;
      out = out * 10 + static_cast<int64_t>(digit);
    }
    if (at_ == begin || at_ == text_.size()) return false;
    return text_[begin] != '0' || at_ - begin == 1;
  }

 private:
  static bool IsSpace(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
  }

  std::string_view text_;
  size_t at_ = 0;
};

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

#endif  // SHARDC_SOURCE_PLAIN_JSON_H_
