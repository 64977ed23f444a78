// Rewrites patterns of Python's `re` for RE2, as far as RE2 can express them:
// `\Z` becomes `\z`, `[[:alpha:]]` a class that contains `[`, and digits and
// words are those of Unicode. Patterns that only Python accepts are
// distinguished from those that only RE2 accepts.
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
