// Parses the expressions of family descriptions by recursive descent. Each
// level of precedence has one function. These are the levels, from the lowest
// to the highest precedence:
//
//   choice    a if c else b
//   or, and, not
//   compare   == != < <= > >= in
//   default   a ?? b          b if a is absent or null
//   sum, product (integer division is //), minus, then .name and [index]
//
// For example, `head_dim ?? hidden_size // heads` is parsed as ??(head_dim,
// //(hidden_size, heads)).
#include "families/expression.h"

#include <array>
#include <span>
#include <utility>

#include "source/wording.h"

namespace shardc::families {
namespace {

using Kind = Expression::Kind;
using WordList = std::span<const std::string_view>;

constexpr std::array<std::string_view, 1> kOr = {"or"};
constexpr std::array<std::string_view, 1> kAnd = {"and"};
constexpr std::array<std::string_view, 7> kCompare = {
    "==", "!=", "<=", ">=", "<", ">", "in"};
constexpr std::array<std::string_view, 1> kDefault = {"??"};
constexpr std::array<std::string_view, 2> kSum = {"+", "-"};
constexpr std::array<std::string_view, 3> kProduct = {"*", "//", "%"};
// The binary operators, from the lowest precedence to the highest. The
// precedence of `not` is between that of `and` and that of comparisons.
constexpr std::array<WordList, 6> kLevels = {kOr,      kAnd, kCompare,
                                             kDefault, kSum, kProduct};
constexpr size_t kNotLevel = 2;
// Parsing, evaluation and destruction recurse into nested expressions, so the
// depth of nesting and the number of parts are limited.
constexpr int kDeepest = 64;
constexpr int kMostParts = 1000;

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : text_(text) {}

  // Returns nullopt if the text is not an expression. `at()` is then the offset
  // of the error.
  std::optional<Expression> ParseAll() {
    auto whole = Choice();
    Skip();
    if (!whole || at_ != text_.size()) return std::nullopt;
    return whole;
  }
  size_t at() const { return at_; }
  bool is_too_large() const { return depth_ > kDeepest || parts_ > kMostParts; }

 private:
  void Skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  // Skips an operator or word if it comes next, and returns whether it did. A
  // word does not match the beginning of a longer word: `in` does not match
  // `index`.
  bool Take(std::string_view word) {
    Skip();
    if (text_.substr(at_, word.size()) != word) return false;
    const size_t end = at_ + word.size();
    if (IsLetter(word[0]) && end < text_.size() &&
        (IsLetter(text_[end]) || IsDigit(text_[end]))) {
      return false;
    }
    at_ = end;
    return true;
  }

  std::string_view TakeName() {
    Skip();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (IsLetter(text_[at_]) || (at_ > begin && IsDigit(text_[at_])))) {
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

  // Makes an expression from its parts. Returns nullopt if the parser has now
  // made more than kMostParts expressions.
  template <typename... Parts>
  std::optional<Expression> Make(Kind kind, std::string_view text,
                                 Parts... parts) {
    if (++parts_ > kMostParts) return std::nullopt;
    Expression out{kind, 0, std::string(text), {}};
    out.parts.reserve(sizeof...(parts));
    (out.parts.push_back(std::move(parts)), ...);
    return out;
  }

  std::optional<Expression> Choice() {
    if (++depth_ > kDeepest) return std::nullopt;
    auto value = Level(0);
    if (value && Take("if")) {
      auto condition = Level(0);
      if (!condition || !Take("else")) return std::nullopt;
      auto other = Choice();
      if (!other) return std::nullopt;
      value = Make(Kind::kChoice, "", std::move(*value), std::move(*condition),
                   std::move(*other));
    }
    if (value) --depth_;
    return value;
  }

  std::optional<Expression> Level(size_t level) {
    if (level == kLevels.size()) return Unary();
    if (level == kNotLevel && Take("not")) {
      if (++depth_ > kDeepest) return std::nullopt;
      auto value = Level(level);
      if (!value) return std::nullopt;
      --depth_;
      return Make(Kind::kUnary, "not", std::move(*value));
    }
    auto left = Level(level + 1);
    while (left) {
      std::string_view taken;
      for (const std::string_view word : kLevels[level]) {
        if (taken.empty() && Take(word)) taken = word;
      }
      if (taken.empty()) break;
      auto right = Level(level + 1);
      if (!right) return std::nullopt;
      left = Make(Kind::kBinary, taken, std::move(*left), std::move(*right));
    }
    return left;
  }

  std::optional<Expression> Unary() {
    if (Take("-")) {
      if (++depth_ > kDeepest) return std::nullopt;
      auto value = Unary();
      if (!value) return std::nullopt;
      --depth_;
      return Make(Kind::kUnary, "-", std::move(*value));
    }
    auto value = Primary();
    while (value) {
      if (Take(".")) {
        const std::string_view name = TakeName();
        if (name.empty()) return std::nullopt;
        value = Make(Kind::kMember, name, std::move(*value));
      } else if (Take("[")) {
        auto index = Choice();
        if (!index || !Take("]")) return std::nullopt;
        value = Make(Kind::kIndex, "", std::move(*value), std::move(*index));
      } else {
        break;
      }
    }
    return value;
  }

  std::optional<std::vector<Expression>> List(std::string_view close) {
    std::vector<Expression> items;
    if (Take(close)) return items;
    do {
      auto item = Choice();
      if (!item) return std::nullopt;
      items.push_back(std::move(*item));
    } while (Take(","));
    if (!Take(close)) return std::nullopt;
    return items;
  }

  std::optional<Expression> Number() {
    int64_t number = 0;
    for (; at_ < text_.size() && IsDigit(text_[at_]); ++at_) {
      if (__builtin_mul_overflow(number, int64_t{10}, &number) ||
          __builtin_add_overflow(number, text_[at_] - '0', &number)) {
        return std::nullopt;
      }
    }
    return Constant(Kind::kNumber, number);
  }
  std::optional<Expression> Constant(Kind kind, int64_t number) {
    auto out = Make(kind, "");
    if (out) out->number = number;
    return out;
  }

  std::optional<Expression> Primary() {
    Skip();
    if (at_ == text_.size()) return std::nullopt;
    if (IsDigit(text_[at_])) return Number();
    if (Take("'")) {
      const size_t end = text_.find('\'', at_);
      if (end == text_.npos) return std::nullopt;
      auto out = Make(Kind::kText, text_.substr(at_, end - at_));
      at_ = end + 1;
      return out;
    }
    if (Take("(")) {
      auto inner = Choice();
      if (!inner || !Take(")")) return std::nullopt;
      return inner;
    }
    if (Take("[")) {
      auto items = List("]");
      if (!items) return std::nullopt;
      return Around(Kind::kList, "", std::move(*items));
    }
    return Word();
  }

  std::optional<Expression> Word() {
    const std::string_view name = TakeName();
    if (name.empty()) return std::nullopt;
    if (name == "null") return Make(Kind::kNull, "");
    if (name == "true" || name == "false") {
      return Constant(Kind::kBool, name == "true" ? 1 : 0);
    }
    if (!Take("(")) return Make(Kind::kName, name);
    auto parts = List(")");
    if (!parts) return std::nullopt;
    return Around(Kind::kCall, name, std::move(*parts));
  }

  std::optional<Expression> Around(Kind kind, std::string_view text,
                                   std::vector<Expression> parts) {
    auto out = Make(kind, text);
    if (out) out->parts = std::move(parts);
    return out;
  }

  std::string_view text_;
  size_t at_ = 0;
  // The depth of nesting. It is not decremented after an error, because an
  // error ends the parse.
  int depth_ = 0;
  int parts_ = 0;
};

}  // namespace

std::optional<Expression> ParseExpression(std::string_view text,
                                          const Place& place,
                                          Findings& findings) {
  ExpressionParser parser(text);
  auto whole = parser.ParseAll();
  if (whole) return whole;
  if (parser.is_too_large()) {
    findings.Add(code::kLimit, place,
                 "an expression has more than " + CountText(kMostParts) +
                     " parts, or is nested " + CountText(kDeepest) + " deep");
  } else {
    findings.Add(code::kSchema, place,
                 ShortQuote(text) + " cannot be read from character " +
                     std::to_string(parser.at() + 1) + " on");
  }
  return std::nullopt;
}

}  // namespace shardc::families
