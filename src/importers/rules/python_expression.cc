// A recursive descent parser of Python's expressions with one method for each
// level of precedence: choices (`a if c else b`), then `or`, `and`, `not`,
// comparisons, sums, terms, and atoms with their calls and indices. Arithmetic
// operators other than `+` become kOther. Their precedence has no effect on the
// result, so the method for sums parses them. Code that rule sets do not need
// is skipped to the end of its brackets or of its line:
//
//   A + (lambda x: y)[1:]  ->  add(name A, part(other))
#include "importers/rules/python_expression.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "importers/rules/python_names.h"

namespace shardc::imports {
namespace {

constexpr int kHeightLimit = 1000;
constexpr int kClauseLimit = 8;  // largest number of clauses in a comprehension

}  // namespace

PyNode PyExpressionParser::Made(PyKind kind, size_t begin,
                                std::vector<PyNode> items, std::string text) {
  PyNode node;
  for (const PyNode& item : items) {
    node.height = std::max(node.height, item.height + 1);
  }
  // Limit the height of the tree, because other code recurses into it. A long
  // chain of operators or calls has no nested brackets, but its tree is as high
  // as the chain is long.
  if (node.height > kHeightLimit) {
    Refuse("this is nested too deeply");
    items.clear();
    node.height = 1;
  }
  node.kind = kind;
  node.begin = begin;
  node.end = LastEnd();
  node.items = std::move(items);
  node.text = std::move(text);
  return node;
}

PyNode PyExpressionParser::Sequence(bool targets) {
  const auto next = [&] {
    if (!targets) return StarOrExpression();
    Take("*");
    return Term();
  };
  PyNode first = next();
  if (!IsOperator(",")) return first;
  const size_t begin = first.begin;
  std::vector<PyNode> items;
  items.push_back(std::move(first));
  while (good() && Take(",")) {
    if (AtLineEnd() || IsOperator("=") || IsOperator(")") || IsOperator("]") ||
        IsOperator("}") || (targets && IsWord("in"))) {
      break;
    }
    items.push_back(next());
  }
  return Made(PyKind::kSequence, begin, std::move(items));
}

PyNode PyExpressionParser::StarOrExpression() {
  const size_t begin = Now().begin;
  if (!Take("*")) return Expression();
  std::vector<PyNode> items;
  items.push_back(Expression());
  return Made(PyKind::kStar, begin, std::move(items));
}

PyNode PyExpressionParser::Expression() {
  if (!Enter("this is nested too deeply")) {
    Leave();
    return {};
  }
  PyNode node = Choice();
  Leave();
  return node;
}

PyNode PyExpressionParser::Choice() {
  const size_t begin = Now().begin;
  if (IsWord("lambda")) return Lambda();
  if (TakeWord("yield")) {
    TakeWord("from");
    if (!AtLineEnd() && !IsOperator(")") && !IsOperator("=")) Sequence();
    return Made(PyKind::kOther, begin);
  }
  PyNode value = Either();
  if (Take(":=")) {
    if (value.kind == PyKind::kName) bound_.push_back(value.text);
    std::vector<PyNode> items;
    items.push_back(Expression());
    return Made(PyKind::kOther, begin, std::move(items));
  }
  if (!TakeWord("if")) return value;
  std::vector<PyNode> items;
  items.push_back(std::move(value));
  items.push_back(Either());
  if (!TakeWord("else")) return Other(begin);  // `if` of a comprehension
  items.push_back(Expression());
  return Made(PyKind::kChoice, begin, std::move(items));
}

// Parses a lambda, such as `lambda a, *b, c=lambda: 0: body`. If the body
// changes a parameter, no variable outside of the lambda is marked as changed.
PyNode PyExpressionParser::Lambda() {
  const size_t begin = Now().begin;
  Next();
  std::vector<PyNode> items(1);
  std::vector<std::string> parameters;
  while (good() && !IsOperator(":")) {
    if (Take("=")) {
      PyNode given = Expression();
      if (!parameters.empty()) items.back() = std::move(given);
    } else if (Now().kind == PyToken::kName) {
      parameters.push_back(Now().text);
      PyNode none;
      none.kind = PyKind::kNone;
      items.push_back(std::move(none));
      Next();
    } else if (IsOperator(",") || IsOperator("*") || IsOperator("**") ||
               IsOperator("/")) {
      Next();
    } else {
      Refuse("a colon is missing here");
    }
  }
  Take(":");
  const size_t outside = bound_.size();
  items[0] = Expression();
  const auto is_own = [&](std::string_view name) {
    return std::find(parameters.begin(), parameters.end(),
                     name.substr(0, name.find('.'))) != parameters.end();
  };
  bound_.erase(
      std::remove_if(bound_.begin() + static_cast<std::ptrdiff_t>(outside),
                     bound_.end(), is_own),
      bound_.end());
  PyNode node = Made(PyKind::kLambda, begin, std::move(items));
  if (!node.items.empty()) node.keywords = std::move(parameters);
  return node;
}

PyNode PyExpressionParser::Either() {
  PyNode left = Both();
  while (good() && IsWord("or"))
    left = Pair(PyKind::kOr, std::move(left), 1, &PyExpressionParser::Both);
  return left;
}
PyNode PyExpressionParser::Both() {
  PyNode left = Negated();
  while (good() && IsWord("and"))
    left = Pair(PyKind::kAnd, std::move(left), 1, &PyExpressionParser::Negated);
  return left;
}
PyNode PyExpressionParser::Negated() {
  const size_t begin = Now().begin;
  if (!TakeWord("not")) return Compared();
  Enter("this is nested too deeply");
  std::vector<PyNode> items;
  items.push_back(Negated());
  Leave();
  return Made(PyKind::kNot, begin, std::move(items));
}
PyNode PyExpressionParser::Compared() {
  PyNode left = Sum();
  for (bool chain = false; good(); chain = true) {
    PyKind kind = PyKind::kOther;
    size_t words = 1;
    if (IsOperator("==")) {
      kind = PyKind::kEqual;
    } else if (IsOperator("!=")) {
      kind = PyKind::kUnequal;
    } else if (IsWord("is")) {
      words = IsWord("not", 1) ? 2 : 1;
      kind = words == 2 ? PyKind::kUnequal : PyKind::kEqual;
    } else if (IsWord("not") && IsWord("in", 1)) {
      words = 2;
    } else if (!(IsOperator("<") || IsOperator(">") || IsOperator("<=") ||
                 IsOperator(">=") || IsWord("in"))) {
      break;
    }
    // Python evaluates `a == b == c` as `a == b and b == c`. No PyKind
    // represents this chain, so it becomes kOther.
    left = Pair(chain ? PyKind::kOther : kind, std::move(left), words,
                &PyExpressionParser::Sum);
  }
  return left;
}
PyNode PyExpressionParser::Sum() {
  PyNode left = Term();
  while (good()) {
    if (IsOperator("+")) {
      left = Pair(PyKind::kAdd, std::move(left), 1, &PyExpressionParser::Term);
      continue;
    }
    constexpr std::string_view kRest[] = {"-", "*", "/", "//", "%",  "**",
                                          "@", "|", "&", "^",  "<<", ">>"};
    const auto* at =
        std::find_if(std::begin(kRest), std::end(kRest),
                     [&](std::string_view op) { return IsOperator(op); });
    if (at == std::end(kRest)) break;
    left = Pair(PyKind::kOther, std::move(left), 1, &PyExpressionParser::Term);
  }
  return left;
}

PyNode PyExpressionParser::Pair(PyKind kind, PyNode left, size_t words,
                                PyNode (PyExpressionParser::*next)()) {
  const size_t begin = left.begin;
  for (size_t i = 0; i < words; ++i) Next();
  std::vector<PyNode> items;
  items.push_back(std::move(left));
  items.push_back((this->*next)());
  return Made(kind, begin, std::move(items));
}

PyNode PyExpressionParser::Term() {
  const size_t begin = Now().begin;
  if (IsOperator("-") || IsOperator("+") || IsOperator("~")) {
    Next();
    Enter("this is nested too deeply");
    std::vector<PyNode> items;
    items.push_back(Term());
    Leave();
    return Made(PyKind::kOther, begin, std::move(items));
  }
  TakeWord("await");
  PyNode node = Atom();
  while (good()) {
    if (Take(".")) {
      std::string name = Now().text;
      if (Now().kind != PyToken::kName) {
        Refuse("a name is missing after the dot");
      }
      Next();
      std::vector<PyNode> items;
      items.push_back(std::move(node));
      // In `add = rules.append` or `map(rules.append, x)`, the method may be
      // called later, so `rules` may change.
      if (ChangesObject(name) && !IsOperator("(")) {
        std::string changed = NameOf(items[0]);
        if (!changed.empty()) bound_.push_back(std::move(changed));
      }
      node = Made(PyKind::kAttribute, begin, std::move(items), std::move(name));
    } else if (IsOperator("(")) {
      node = Call(std::move(node));
    } else if (IsOperator("[")) {
      node = Part(std::move(node));
    } else {
      break;
    }
  }
  return node;
}

// Parses `x[...]`. The node contains the index of `x["a"]`, `x[0]` and
// `x[name]`. For slices and all other expressions, it contains no index.
PyNode PyExpressionParser::Part(PyNode of) {
  const size_t begin = of.begin;
  std::vector<PyNode> items;
  items.push_back(std::move(of));
  const bool single =
      Now(1).kind == PyToken::kString || Now(1).kind == PyToken::kTemplate ||
      Now(1).kind == PyToken::kNumber || Now(1).kind == PyToken::kName;
  if (single && IsOperator("]", 2)) {
    Next();
    items.push_back(Atom());
    Next();
  } else {
    Other();
  }
  return Made(PyKind::kPart, begin, std::move(items));
}

PyNode PyExpressionParser::Each(size_t begin, std::vector<PyNode> items,
                                std::string_view close) {
  std::vector<std::string> keywords = {"item"};
  if (items.size() == 2 && close == "}") keywords = {"key", "value"};
  const bool single = items.size() == keywords.size();
  for (int i = 0; i < kClauseLimit && good() && TakeWord("for"); ++i) {
    items.push_back(Sequence(true));
    keywords.emplace_back("for");
    if (!TakeWord("in")) break;
    items.push_back(Either());
    keywords.emplace_back("in");
    while (good() && TakeWord("if")) {
      items.push_back(Either());
      keywords.emplace_back("if");
    }
  }
  const bool whole = single && IsOperator(close) && keywords.back() != "for";
  AddLoopSources(items, keywords, bound_);
  while (good() && !IsOperator(close)) SkipItem();
  PyNode node = Made(whole ? PyKind::kEach : PyKind::kOther, begin,
                     whole ? std::move(items) : std::vector<PyNode>());
  if (whole) node.keywords = std::move(keywords);
  return node;
}

PyNode PyExpressionParser::Call(PyNode function) {
  const size_t begin = function.begin;
  std::vector<PyNode> items;
  std::vector<std::string> keywords;
  items.push_back(std::move(function));
  Take("(");
  while (good() && !IsOperator(")")) {
    std::string keyword;
    if (Now().kind == PyToken::kName && IsOperator("=", 1)) {
      keyword = Now().text;
      Next();
      Next();
    }
    if (Take("**")) keyword = "**";
    items.push_back(StarOrExpression());
    keywords.push_back(std::move(keyword));
    if (IsWord("for") || IsWord("async")) {
      const size_t from = items.back().begin;
      std::vector<PyNode> value;
      value.push_back(std::move(items.back()));
      items.back() = Each(from, std::move(value), ")");
    }
    if (!Take(",") && !IsOperator(")")) Refuse("a comma is missing here");
  }
  Take(")");
  PyNode node = Made(PyKind::kCall, begin, std::move(items));
  node.keywords = std::move(keywords);
  if (good()) {
    for (std::string& changed : ChangedNames(node)) {
      bound_.push_back(std::move(changed));
    }
  }
  return node;
}

// Skips one token, or a bracket with its content.
void PyExpressionParser::SkipItem() {
  if (IsOperator("(") || IsOperator("[") || IsOperator("{")) {
    Other();
  } else if (Now().kind == PyToken::kEnd) {
    Refuse("a bracket is missing here");
  } else {
    Next();
  }
}

PyNode PyExpressionParser::Other() { return Other(Now().begin); }
PyNode PyExpressionParser::Other(size_t begin) {
  if (IsOperator("(") || IsOperator("[") || IsOperator("{")) {
    int depth = 0;
    do {
      if (IsOperator("(") || IsOperator("[") || IsOperator("{")) ++depth;
      if (IsOperator(")") || IsOperator("]") || IsOperator("}")) --depth;
      Next();
    } while (depth > 0 && Now().kind != PyToken::kEnd);
    return Made(PyKind::kOther, begin);
  }
  while (!AtLineEnd() && !IsOperator(",") && !IsOperator(")") &&
         !IsOperator("]") && !IsOperator("}")) {
    SkipItem();
  }
  return Made(PyKind::kOther, begin);
}

PyNode PyExpressionParser::Atom() {
  const PyTokenAt token = Now();
  if (token.kind == PyToken::kString || token.kind == PyToken::kTemplate) {
    return Strings();
  }
  if (token.kind == PyToken::kNumber) {
    Next();
    return Made(PyKind::kNumber, token.begin, {}, token.text);
  }
  if (token.kind == PyToken::kName) {
    Next();
    const PyKind kind = token.text == "None"    ? PyKind::kNone
                        : token.text == "True"  ? PyKind::kTrue
                        : token.text == "False" ? PyKind::kFalse
                                                : PyKind::kName;
    return Made(kind, token.begin, {}, token.text);
  }
  if (Take("...")) return Made(PyKind::kOther, token.begin);
  if (IsOperator("(") || IsOperator("[") || IsOperator("{")) return Bracket();
  Refuse("a value is missing here");
  return {};
}

// Parses adjacent strings, which Python joins to a single string.
PyNode PyExpressionParser::Strings() {
  const size_t begin = Now().begin;
  bool known = true;
  std::vector<PyNode> items;
  std::string text;
  while (Now().kind == PyToken::kString || Now().kind == PyToken::kTemplate) {
    const PyTokenAt token = Now();
    Next();
    if (token.kind == PyToken::kString) text += token.text;
    known = known && (token.kind == PyToken::kString || !token.parts.empty());
    for (size_t i = 0; i < token.parts.size(); ++i) {
      if (i % 2 == 0) {
        text += token.parts[i];
        continue;
      }
      items.push_back(
          Made(PyKind::kString, begin, {}, std::exchange(text, {})));
      items.push_back(Inserted(token.parts[i], begin));
    }
  }
  if (!known) return Made(PyKind::kOther, begin);
  if (items.empty()) return Made(PyKind::kString, begin, {}, std::move(text));
  items.push_back(Made(PyKind::kString, begin, {}, std::move(text)));
  return Made(PyKind::kFormat, begin, std::move(items));
}

// Parses the text between the braces of an f-string, which may be a name, or an
// attribute such as `self.name`. All other expressions, conversions and formats
// become kOther.
PyNode PyExpressionParser::Inserted(std::string_view text, size_t begin) {
  const auto part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (c >= '0' && c <= '9');
  };
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  PyNode node;
  for (bool first = true; first || !text.empty(); first = false) {
    if (!first && text.front() == '.') {
      text.remove_prefix(1);
    } else if (!first) {
      return Made(PyKind::kOther, begin);
    }
    const auto* const end = std::find_if_not(text.begin(), text.end(), part);
    std::string name(text.begin(), end);
    if (name.empty() || (name[0] >= '0' && name[0] <= '9')) {
      return Made(PyKind::kOther, begin);
    }
    text.remove_prefix(name.size());
    std::vector<PyNode> items;
    if (!first) items.push_back(std::move(node));
    node = Made(first ? PyKind::kName : PyKind::kAttribute, begin,
                std::move(items), std::move(name));
  }
  return node;
}

PyNode PyExpressionParser::Bracket() {
  const size_t begin = Now().begin;
  const std::string close = IsOperator("(") ? ")" : IsOperator("[") ? "]" : "}";
  const bool braces = close == "}";
  Next();
  bool dict = false, each = false, comma = false;
  std::vector<PyNode> items;
  while (good() && !IsOperator(close)) {
    if (braces && IsOperator("**")) {
      // `**x` becomes a key of kind kStar whose value is of kind kNone.
      dict = true;
      Next();
      const size_t from = Now().begin;
      std::vector<PyNode> spread;
      spread.push_back(Expression());
      items.push_back(Made(PyKind::kStar, from, std::move(spread)));
      items.push_back(Made(PyKind::kNone, from));
    } else {
      items.push_back(StarOrExpression());
      if (braces && Take(":")) {
        dict = true;
        items.push_back(Expression());
      }
    }
    if (IsWord("for") || IsWord("async")) {
      each = items.size() == (dict ? 2 : 1);
      PyNode made = Each(begin, std::move(items), close);
      items.clear();
      items.push_back(std::move(made));
    }
    if (Take(",")) {
      comma = true;
    } else if (!IsOperator(close)) {
      Refuse("a comma is missing here");
    }
  }
  Take(close);
  if (each) return std::move(items[0]);
  if (close == ")" && !comma && items.size() == 1) {
    return std::move(items[0]);
  }
  return Made(
      dict || (braces && items.empty()) ? PyKind::kDict : PyKind::kSequence,
      begin, std::move(items));
}

}  // namespace shardc::imports
