// A cursor over another system's text.
#ifndef SHARDC_IMPORTERS_RULES_SCAN_H_
#define SHARDC_IMPORTERS_RULES_SCAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "source/finding.h"

namespace shardc::imports {

class Scan {
 public:
  // `place` is where `text` stands, or what it is the value of.
  Scan(std::string_view text, Place place) : text_(text), place_(place) {}

  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[at_]; }
  size_t at() const { return at_; }
  void MoveTo(size_t at) { at_ = at; }
  void Blanks();
  // Past `word`, blanks before it left out; false where it is not next.
  bool Take(std::string_view word);
  // Up to the next `word` and past it; false where there is none.
  bool Find(std::string_view word);
  std::optional<int64_t> Number();
  // In quotes, which are `'` or `"`; `\22` and `\"` undone.
  std::optional<std::string> Quoted();
  // `[A-Za-z0-9_.-]+`
  std::string Word();
  std::string_view Since(size_t begin) const {
    return text_.substr(begin, at_ - begin);
  }

  // A finding (foreign-syntax) here.
  void Refuse(const std::string& message, Findings& findings) const;
  Place PlaceOf(size_t begin, size_t end) const;

 private:
  std::string_view text_;
  Place place_;
  size_t at_ = 0;
};

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_SCAN_H_
