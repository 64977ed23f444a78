// A fast scanner of common JSON. If the scanner rejects a text, the caller
// parses the text again with the full parser, which also reports errors.
#ifndef SHARDC_SOURCE_PLAIN_JSON_H_
#define SHARDC_SOURCE_PLAIN_JSON_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "source/plain_text.h"

namespace shardc {

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

}  // namespace shardc

#endif  // SHARDC_SOURCE_PLAIN_JSON_H_
