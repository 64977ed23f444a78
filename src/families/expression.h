// The expression language of family descriptions. Expressions compute sizes and
// conditions from the keys of a config.json.
#ifndef SHARDC_FAMILIES_EXPRESSION_H_
#define SHARDC_FAMILIES_EXPRESSION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/finding.h"

namespace shardc::families {

struct Expression {
  enum class Kind : uint8_t {
    kNull,
    kBool,
    kNumber,
    kText,
    kList,    // `parts` are the elements
    kName,    // `text` is the name
    kMember,  // `a.b`: the member named `text` of the value `parts[0]`
    kIndex,   // `parts[0][parts[1]]`
    kCall,    // `text(parts)`: a call of a function
    kUnary,   // `text` is "-" or "not"
    kBinary,  // `text` is "+", "??", "and", "in" and so on
    kChoice,  // `parts[0] if parts[1] else parts[2]`
  };
  Kind kind = Kind::kNull;
  int64_t number = 0;
  std::string text;
  std::vector<Expression> parts;
};

// Parses an expression. Returns nullopt after a finding at `place` if the text
// is not an expression, is nested too deeply or has too many parts.
std::optional<Expression> ParseExpression(std::string_view text,
                                          const Place& place,
                                          Findings& findings);

}  // namespace shardc::families

#endif  // SHARDC_FAMILIES_EXPRESSION_H_
