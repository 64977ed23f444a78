// A cursor over a text in another system's syntax.
#ifndef SHARDC_IMPORTERS_RULES_SCAN_H_
#define SHARDC_IMPORTERS_RULES_SCAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "source/finding.h"

namespace shardc::imports {

// Returns the value of a hexadecimal digit, or -1 for other characters.
int HexDigit(char c);

class Scan {
 public:
  // `place` is the place of `text` in a file. If `text` was read from a string
  // in quotes, `place` is the place of this string.
  Scan(std::string_view text, Place place) : text_(text), place_(place) {}

  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[at_]; }
  size_t at() const { return at_; }
  void MoveTo(size_t at) { at_ = at; }
  void Blanks();
  // Skips blanks and then `word`. Returns false if other text follows the
  // blanks.
  bool Take(std::string_view word);
  // Moves past the next occurrence of `word`. Returns false if `word` does not
  // occur.
  bool Find(std::string_view word);
  std::optional<int64_t> Number();
  // Reads a string in quotes `'` or `"` and replaces its escapes. `\22` (two
  // hexadecimal digits) becomes the byte with this value. A backslash before
  // any other character is removed. Returns nullopt if no string follows, or if
  // the closing quote is missing.
  std::optional<std::string> Quoted();
  // Reads a word of the characters [A-Za-z0-9_.-]. Returns an empty text if the
  // next character is another one.
  std::string Word();
  std::string_view Since(size_t begin) const {
    return text_.substr(begin, at_ - begin);
  }

  // Adds a finding (foreign-syntax) at the cursor.
  void Refuse(const std::string& message, Findings& findings) const;
  Place PlaceOf(size_t begin, size_t end) const;

 private:
  std::string_view text_;
  Place place_;
  size_t at_ = 0;
};

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_SCAN_H_
