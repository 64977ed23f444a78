// Parses the two small languages of a `model:` section: ops and dimensions.
// One scanner splits the texts of both into names, numbers and punctuation.
// Names are stored as text, because the roles that they refer to are known only
// when the model's step is built.
//
//   kn, w = part(kv, p+w) @q   ->  results kn, w; op part; arguments kv and
//                                  (p, w); role of the sharding constraint q
//   n (p+r)                    ->  factors n and (p, r)
#include "parse/model_text.h"

#include <charconv>
#include <string>
#include <utility>

namespace shardc {
namespace {

bool IsWordStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool IsWordPart(char c) {
  return IsWordStart(c) || (c >= '0' && c <= '9') || c == '.';
}
bool IsNumberPart(char c) { return (c >= '0' && c <= '9') || c == '.'; }

// Reads the names, numbers and punctuation of a text one by one. Skips the
// spaces before each of them.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool AtEnd() {
    SkipBlanks();
    return at_ == text_.size();
  }
  bool Take(char sign) {
    SkipBlanks();
    if (at_ == text_.size() || text_[at_] != sign) return false;
    ++at_;
    return true;
  }
  std::string Word() {
    SkipBlanks();
    if (at_ == text_.size() || !IsWordStart(text_[at_])) return {};
    return Run(IsWordPart);
  }
  std::optional<double> Number() {
    SkipBlanks();
    const bool negative = at_ < text_.size() && text_[at_] == '-';
    const size_t begin = at_;
    if (negative) ++at_;
    const std::string digits = Run(IsNumberPart);
    double value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc{} && end == digits.data() + digits.size()) {
      return negative ? -value : value;
    }
    at_ = begin;
    return std::nullopt;
  }

 private:
  void SkipBlanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  std::string Run(bool (*part)(char)) {
    const size_t begin = at_;
    while (at_ < text_.size() && part(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Parses names that are joined by plus signs, such as `a+b`. Returns an empty
// list if a name is missing.
std::vector<std::string> Sum(Scanner& scanner) {
  std::vector<std::string> words;
  do {
    words.push_back(scanner.Word());
    if (words.back().empty()) return {};
  } while (scanner.Take('+'));
  return words;
}

std::optional<DescribedArgument> Argument(Scanner& scanner) {
  DescribedArgument argument;
  if (const auto number = scanner.Number()) {
    argument.is_number = true;
    argument.number = *number;
    return argument;
  }
  argument.names = Sum(scanner);
  if (argument.names.empty()) return std::nullopt;
  argument.optional = scanner.Take('?');
  return argument;
}

}  // namespace

std::optional<DescribedDim> ParseDescribedDim(std::string_view text) {
  Scanner scanner(text);
  DescribedDim dim;
  while (!scanner.AtEnd()) {
    const bool sum = scanner.Take('(');
    auto parts = sum ? Sum(scanner) : std::vector<std::string>{scanner.Word()};
    const bool empty = parts.empty() || parts[0].empty();
    if (empty || (sum && !scanner.Take(')'))) return std::nullopt;
    dim.factors.push_back(std::move(parts));
  }
  if (dim.factors.empty()) return std::nullopt;
  return dim;
}

std::optional<DescribedLine> ParseDescribedLine(std::string_view text) {
  static constexpr std::string_view kIf = " if ";
  DescribedLine line;
  if (const size_t at = text.find(kIf); at != text.npos) {
    line.when.text = text.substr(at + kIf.size());
    text = text.substr(0, at);
  }
  Scanner scanner(text);
  do {
    line.results.push_back(scanner.Word());
    if (line.results.back().empty()) return std::nullopt;
  } while (scanner.Take(','));
  if (!scanner.Take('=')) return std::nullopt;
  line.op = scanner.Word();
  if (line.op.empty() || !scanner.Take('(')) return std::nullopt;
  do {
    auto argument = Argument(scanner);
    if (!argument) return std::nullopt;
    line.arguments.push_back(std::move(*argument));
  } while (scanner.Take(','));
  if (!scanner.Take(')')) return std::nullopt;
  if (scanner.Take('@')) {
    line.constraint = scanner.Word();
    if (line.constraint.empty()) return std::nullopt;
  }
  if (!scanner.AtEnd()) return std::nullopt;
  return line;
}

bool IsModelWord(std::string_view text) {
  Scanner scanner(text);
  return !scanner.Word().empty() && scanner.AtEnd();
}

}  // namespace shardc
