// Splits Python source into the tokens that literals and the statements around
// them need: names, numbers, strings, operators, line ends and indentation.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_TOKENS_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "source/finding.h"
#include "source/source.h"

namespace shardc::imports {

enum class PyToken : uint8_t {
  kName,
  kNumber,
  kString,    // `text` is its value
  kTemplate,  // an f-string, t-string, bytes or unknown value
  kOperator,
  kNewline,
  kIndent,
  kDedent,
  kEnd
};

struct PyTokenAt {
  PyToken kind = PyToken::kEnd;
  size_t begin = 0;
  size_t end = 0;
  std::string text;
  // The parts of an f-string: texts, with their escapes replaced, alternate
  // with the contents of braces. The first and the last part are texts. Empty
  // for other tokens, and if an escape cannot be replaced (`\N{...}`).
  std::vector<std::string> parts;
};

// Returns whether a byte of UTF-8 may be in a name.
bool IsPyNamePart(char c);

struct PyComment {
  size_t begin = 0;
  std::string text;    // without `#` and the blanks around it
  bool alone = false;  // whether its line has no code
};

struct PyTokens {
  std::vector<PyTokenAt> tokens;  // the last is kEnd
  std::vector<PyComment> comments;
};

// Returns nullopt after a finding: limit, encoding, or python-syntax (such as
// an unterminated string or bracket, inconsistent indentation, or a byte that
// begins no token).
std::optional<PyTokens> TokenizePython(const SourceRef& source,
                                       Findings& findings);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_TOKENS_H_
