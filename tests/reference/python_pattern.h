// Patterns of Python's `re`, as far as RE2 can express them: the text is
// rewritten (`\Z` to `\z`, `[[:alpha:]]` to a class that holds `[`, Unicode
// digits and words), and what only Python accepts is distinguished from
// what only RE2 accepts.
#ifndef SHARDC_TESTS_REFERENCE_PYTHON_PATTERN_H_
#define SHARDC_TESTS_REFERENCE_PYTHON_PATTERN_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace shardc::reference {

enum class PythonSyntax : uint8_t {
  kFine,
  kInvalid,    // re.error in Python
  kPythonOnly  // look-around, back-references: RE2 has nothing for it
};

struct PythonPattern {
  PythonSyntax syntax = PythonSyntax::kFine;
  std::string re2;  // the same in RE2's syntax, when fine
};

// Rewrites a pattern without compiling it. A rewritten pattern that RE2 refuses
// is invalid in Python, too.
PythonPattern ReadPythonPattern(std::string_view text);

}  // namespace shardc::reference

#endif  // SHARDC_TESTS_REFERENCE_PYTHON_PATTERN_H_
