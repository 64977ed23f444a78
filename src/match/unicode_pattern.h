// A pattern as Python's `re` reads it in texts that are not ASCII.
//
// In Python, `\w`, `\d`, `\s` and `\b` classify all characters of Unicode. In
// RE2 they classify only ASCII characters, so `\w+/kernel` would not match the
// name `é/kernel`. The automaton (match/automaton) has Python's classes. This
// file has the same meaning for the patterns and names that RE2 matches.
#ifndef SHARDC_MATCH_UNICODE_PATTERN_H_
#define SHARDC_MATCH_UNICODE_PATTERN_H_

#include <memory>
#include <string>
#include <string_view>

namespace re2 {
class RE2;
}

namespace shardc {

class UnicodePattern {
 public:
  // Returns null if the pattern has none of the classes and assertions above,
  // because RE2 then matches what Python matches.
  static std::shared_ptr<const UnicodePattern> Of(const re2::RE2& plain);
  ~UnicodePattern();

  // Returns whether RE2's classes and Python's may differ on characters of the
  // text: whether it has a character above ASCII or a control character that
  // only Python takes for a space.
  static bool IsNeededFor(std::string_view text);

  // Returns whether the pattern matches `text`. The first call compiles the
  // pattern. Several threads may call Found().
  bool Found(std::string_view text) const;
  // Returns the pattern with Python's classes, for the ranges of its groups.
  // `\b` and `\B` in it are those of RE2. Returns the plain pattern if the
  // other does not compile in RE2's memory limit. Several threads may call it.
  const re2::RE2& Expression() const;

 private:
  struct State;
  explicit UnicodePattern(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Returns the pattern with the classes `\d`, `\s`, `\w` and their negations
// written for RE2 as Python's classes:
//
//   `[\w.]+\d$`  ->  `[_\pL\pN.]+(?-i:\p{Nd})$`
std::string WithPythonClasses(std::string_view pattern);

}  // namespace shardc

#endif  // SHARDC_MATCH_UNICODE_PATTERN_H_
