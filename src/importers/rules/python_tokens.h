// Splits Python source into tokens: names, numbers, strings, operators, line
// ends and indentation.
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
  kString,  // `text` is the string's value
  // An f-string, a t-string, a bytes literal, or a string with an escape whose
  // value is not computed.
  kTemplate,
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
  // The parts of an f-string. Texts, with their escapes replaced, alternate
  // with the contents of braces. The first and the last part are texts. Empty
  // for other tokens, and if an escape cannot be replaced (`\N{...}`).
  std::vector<std::string> parts;
};

// Returns whether a byte of UTF-8 may be part of a name.
bool IsPyNamePart(char c);

struct PyComment {
  size_t begin = 0;
  std::string text;    // without `#` and surrounding blanks
  bool alone = false;  // whether its line has no code
};

struct PyTokens {
  std::vector<PyTokenAt> tokens;  // the last token is kEnd
  std::vector<PyComment> comments;
};

// Splits the source into tokens. Returns nullopt after a finding: limit,
// encoding, or python-syntax. Examples of python-syntax are an unterminated
// string or bracket, inconsistent indentation, and a byte that begins no token.
std::optional<PyTokens> TokenizePython(const SourceRef& source,
                                       Findings& findings);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_TOKENS_H_
