// A recursive descent parser of Python. What rule sets do not need (lambdas,
// slices, comprehensions, arithmetic) is skipped to the end of its brackets or
// its line and kept as kOther:
//
//   x = (("a", P(t)),) if f else y[0]
//     ->  assign x: choice(sequence(...), name f, other)
#include "importers/rules/python_tree.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace shardc::imports {
namespace {

constexpr int kDepthLimit = 150;
constexpr int kHeightLimit = 1000;

class PythonParser {
 public:
  PythonParser(const SourceRef& source, PyTokens tokens, Findings& findings)
      : source_(source),
        tokens_(std::move(tokens.tokens)),
        comments_(std::move(tokens.comments)),
        findings_(findings) {}

  std::optional<PyModule> Run() {
    PyModule module;
    while (good_ && Now().kind != PyToken::kEnd) Statement(module.body);
    if (!good_) return std::nullopt;
    module.comments = std::move(comments_);
    return module;
  }

 private:
  const PyTokenAt& Now(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  bool IsWord(std::string_view word, size_t ahead = 0) const {
    return Now(ahead).kind == PyToken::kName && Now(ahead).text == word;
  }
  bool IsOperator(std::string_view word, size_t ahead = 0) const {
    return Now(ahead).kind == PyToken::kOperator && Now(ahead).text == word;
  }
  bool AtLineEnd() const {
    return Now().kind == PyToken::kNewline || Now().kind == PyToken::kEnd ||
           IsOperator(";");
  }
  void Next() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  bool Take(std::string_view word) {
    if (!IsOperator(word)) return false;
    Next();
    return true;
  }
  bool TakeWord(std::string_view word) {
    if (!IsWord(word)) return false;
    Next();
    return true;
  }
  size_t LastEnd() const { return at_ == 0 ? 0 : tokens_[at_ - 1].end; }

  void Refuse(std::string message) {
    if (good_) {
      const PyTokenAt& token = Now();
      findings_.Add(code::kPythonSyntax,
                    {source_, token.begin, std::max(token.end, token.begin)},
                    std::move(message));
    }
    good_ = false;
    at_ = tokens_.size() - 1;
  }

  // Skips to the end of the line, including lines inside brackets.
  void SkipLine() {
    while (Now().kind != PyToken::kNewline && Now().kind != PyToken::kEnd) {
      Next();
    }
    if (Now().kind == PyToken::kNewline) Next();
  }

  // Parses `: body`, on the same line or as a block.
  void Body(std::vector<PyStatement>& body) {
    if (!Take(":")) {
      Refuse("a colon is missing here");
      return;
    }
    if (Now().kind != PyToken::kNewline) {
      do {
        Statement(body);
      } while (good_ && tokens_[at_ - 1].kind == PyToken::kOperator &&
               Now().kind != PyToken::kNewline);  // after a semicolon
      return;
    }
    if (!Indented()) return;
    while (good_ && Now().kind != PyToken::kDedent &&
           Now().kind != PyToken::kEnd) {
      Statement(body);
    }
    if (Now().kind == PyToken::kDedent) Next();
  }

  bool Indented() {
    Next();
    if (Now().kind != PyToken::kIndent) {
      Refuse("a block is missing here");
      return false;
    }
    Next();
    return true;
  }

  void Statement(std::vector<PyStatement>& body) {
    if (++depth_ > kDepthLimit) Refuse("blocks are nested too deeply");
    const size_t before = body.size();
    StatementInside(body);
    if (!bound_.empty()) {
      PyStatement inside;
      inside.begin = Now().begin;
      inside.names = std::exchange(bound_, {});
      body.insert(body.begin() + static_cast<std::ptrdiff_t>(before),
                  std::move(inside));
    }
    --depth_;
  }

  void StatementInside(std::vector<PyStatement>& body) {
    if (Now().kind == PyToken::kNewline || Take(";")) {
      if (Now().kind == PyToken::kNewline) Next();
      return;
    }
    if (Now().kind == PyToken::kIndent || Now().kind == PyToken::kDedent) {
      Refuse("this line is indented without a reason");
      return;
    }
    if (IsOperator("@")) {
      SkipLine();
      return;
    }
    if (IsWord("async") && Now(1).kind == PyToken::kName) Next();
    PyStatement made;
    made.begin = Now().begin;
    if (IsWord("class")) {
      Class(made);
    } else if (IsWord("def")) {
      Define(made);
    } else if (IsWord("if") || IsWord("elif")) {
      If(made);
    } else if (IsWord("for") || IsWord("while")) {
      Loop(made);
    } else if (IsWord("with") || IsWord("try") || IsWord("else") ||
               IsWord("finally") || IsWord("except")) {
      Block(made);
    } else if (IsWord("match") && BlockAhead()) {
      Match(made);
    } else if (TakeWord("return")) {
      made.act = PyAct::kReturn;
      if (AtLineEnd()) {
        made.value.kind = PyKind::kNone;
      } else {
        made.value = Sequence();
      }
      EndLine();
    } else if (IsWord("import") || IsWord("from")) {
      Import(body);
      return;
    } else if (TakeWord("del")) {
      made.names = NamesOf(Sequence());
      EndLine();
    } else if (IsWord("raise") || IsWord("assert") || IsWord("global") ||
               IsWord("nonlocal") || IsWord("pass") || IsWord("break") ||
               IsWord("continue") || IsWord("yield") ||
               (IsWord("type") && Now(1).kind == PyToken::kName)) {
      SkipLine();
      return;
    } else {
      Simple(made);
    }
    body.push_back(std::move(made));
  }

  // Returns whether the line ends in a colon, so that its first word begins a
  // block.
  bool BlockAhead() const {
    size_t i = at_;
    while (tokens_[i].kind != PyToken::kNewline &&
           tokens_[i].kind != PyToken::kEnd) {
      ++i;
    }
    return i > at_ && tokens_[i - 1].text == ":" &&
           tokens_[i - 1].kind == PyToken::kOperator;
  }

  void EndLine() {
    if (Take(";")) return;
    if (Now().kind == PyToken::kNewline) {
      Next();
    } else if (Now().kind != PyToken::kEnd) {
      Refuse("this line goes on where it should end");
    }
  }

  // `from jax.sharding import PartitionSpec as Spec`: Spec = PartitionSpec.
  void Import(std::vector<PyStatement>& body) {
    while (!AtLineEnd()) {
      if (Now().kind == PyToken::kName && IsWord("as", 1) &&
          Now(2).kind == PyToken::kName) {
        PyStatement made;
        made.act = PyAct::kAssign;
        made.begin = Now().begin;
        made.value.kind = PyKind::kName;
        made.value.begin = Now().begin;
        made.value.end = Now().end;
        made.value.text = Now().text;
        made.name = Now(2).text;
        if (made.name != made.value.text) body.push_back(std::move(made));
      }
      Next();
    }
    EndLine();
  }

  void Class(PyStatement& made) {
    Next();
    made.act = PyAct::kClass;
    made.name = Now().text;
    Next();
    if (IsOperator("[")) Other();
    if (IsOperator("(")) Other();
    Body(made.body);
  }

  void Define(PyStatement& made) {
    Next();
    made.act = PyAct::kDefine;
    made.name = Now().text;
    Next();
    if (IsOperator("[")) Other();
    if (!Take("(")) {
      Refuse("a function's parameters are missing here");
      return;
    }
    while (good_ && !IsOperator(")")) Parameter(made);
    Take(")");
    if (Take("->")) Expression();
    Body(made.body);
  }

  void Parameter(PyStatement& made) {
    if (Take("*") || Take("**") || Take("/")) {
      if (Take(",")) return;
      if (IsOperator(")")) return;
    }
    const std::string name = Now().text;
    if (Now().kind != PyToken::kName) {
      Refuse("a parameter is a name");
      return;
    }
    Next();
    if (Take(":")) StarOrExpression();
    std::optional<PyNode> given;
    if (Take("=")) given = Expression();
    made.parameters.emplace_back(name, std::move(given));
    if (!Take(",") && !IsOperator(")")) Refuse("a comma is missing here");
  }

  void If(PyStatement& made) {
    Next();
    made.act = PyAct::kIf;
    made.value = Expression();
    Body(made.body);
    if (IsWord("elif")) {
      Statement(made.other);
    } else if (TakeWord("else")) {
      Body(made.other);
    }
  }

  // Skips to the colon before a body; brackets may contain other colons.
  void SkipHeader() {
    while (!(IsOperator(":") || AtLineEnd())) {
      if (IsOperator("(") || IsOperator("[") || IsOperator("{")) {
        Other();
      } else {
        Next();
      }
    }
  }

  void Loop(PyStatement& made) {
    if (TakeWord("for")) made.names = NamesOf(Sequence(true));
    Next();
    Sequence();
    Body(made.body);
    if (TakeWord("else")) Body(made.body);
    Unknown(made);
  }

  // It is unknown which of the cases runs.
  void Match(PyStatement& made) {
    SkipHeader();
    Take(":");
    if (!Indented()) return;
    while (good_ && Now().kind != PyToken::kDedent &&
           Now().kind != PyToken::kEnd) {
      if (!TakeWord("case")) {
        Refuse("a case is missing here");
        return;
      }
      const size_t from = at_;
      SkipHeader();
      // Names that a pattern binds. Names that it only reads are included too.
      for (size_t i = from; i < at_; ++i) {
        if (tokens_[i].kind == PyToken::kName) {
          made.names.push_back(tokens_[i].text);
        }
      }
      Body(made.body);
    }
    if (Now().kind == PyToken::kDedent) Next();
    Unknown(made);
  }

  // The body may run zero times, once or several times.
  static void Unknown(PyStatement& made) {
    made.act = PyAct::kUnknown;
    Gather(made.body, made);
    made.body.clear();
  }

  static void Gather(const std::vector<PyStatement>& body, PyStatement& to) {
    for (const PyStatement& inside : body) {
      if (inside.act == PyAct::kDefine || inside.act == PyAct::kClass) continue;
      if (inside.act == PyAct::kReturn || inside.returns) to.returns = true;
      if (!inside.name.empty()) to.names.push_back(inside.name);
      to.names.insert(to.names.end(), inside.names.begin(), inside.names.end());
      Gather(inside.body, to);
      Gather(inside.other, to);
    }
  }

  void Block(PyStatement& made) {
    made.act = PyAct::kBlock;
    const bool runs = !IsWord("except");
    SkipHeader();
    Body(made.body);
    if (!runs) made.body.clear();
  }

  // Parses an assignment in any form, or an expression.
  void Simple(PyStatement& made) {
    PyNode first = Sequence();
    if (Take(":")) {
      Sequence();
      if (!IsOperator("=")) {
        EndLine();
        return;
      }
    }
    if (IsOperator("=")) {
      Assign(first, made);
    } else if (IsOperator("+=")) {
      Next();
      made.value = Sequence();
      if (first.kind == PyKind::kPart) {
        made.names = NamesOf(first);
      } else {
        made.act = PyAct::kExtend;
        made.name = NameOf(first);
      }
    } else if (Now().kind == PyToken::kOperator && Now().text.size() > 1 &&
               Now().text.back() == '=') {
      Next();
      made.names = NamesOf(first);
      Sequence();
    } else {
      Method(first, made);
    }
    EndLine();
  }

  // `a = b = value`. The values of a list of targets or of an item are unknown.
  void Assign(const PyNode& first, PyStatement& made) {
    std::vector<PyNode> targets;
    targets.push_back(first);
    while (Take("=")) {
      made.value = Sequence();
      if (IsOperator("=")) targets.push_back(made.value);
    }
    const bool plain =
        std::all_of(targets.begin(), targets.end(), [](const PyNode& target) {
          return target.kind == PyKind::kName ||
                 target.kind == PyKind::kAttribute;
        });
    if (plain) {
      made.act = PyAct::kAssign;
      made.name = NameOf(targets[0]);
      for (size_t i = 1; i < targets.size(); ++i) {
        made.names.push_back(NameOf(targets[i]));
      }
      return;
    }
    for (const PyNode& target : targets) {
      for (std::string& name : NamesOf(target)) {
        made.names.push_back(std::move(name));
      }
    }
  }

  // Returns all names that an assignment to `target` binds or changes.
  static std::vector<std::string> NamesOf(const PyNode& target) {
    std::vector<std::string> names;
    if (std::string name = NameOf(target); !name.empty()) {
      names.push_back(std::move(name));
    } else if (target.kind == PyKind::kSequence ||
               target.kind == PyKind::kStar || target.kind == PyKind::kPart) {
      for (const PyNode& item : target.items) {
        for (std::string& inside : NamesOf(item)) {
          names.push_back(std::move(inside));
        }
      }
    }
    return names;
  }

  // Parses `rules.append(x)`, `rules.extend(x)`.
  static void Method(PyNode& call, PyStatement& made) {
    if (call.kind != PyKind::kCall ||
        call.items[0].kind != PyKind::kAttribute) {
      return;
    }
    const PyNode& function = call.items[0];
    const std::string name = NameOf(function.items[0]);
    if (name.empty()) return;
    if (call.items.size() == 2 && function.text == "append") {
      made.act = PyAct::kAppend;
    } else if (call.items.size() == 2 && function.text == "extend") {
      made.act = PyAct::kExtend;
    } else if (function.text == "insert" || function.text == "update" ||
               function.text == "pop" || function.text == "remove" ||
               function.text == "popitem" || function.text == "reverse" ||
               function.text == "sort" || function.text == "clear" ||
               function.text == "setdefault") {
      made.names.push_back(name);
      return;
    } else {
      return;
    }
    made.name = name;
    made.value = std::move(call.items[1]);
  }

  // Returns `rules` or `self.rules`; empty for other expressions.
  static std::string NameOf(const PyNode& node) {
    if (node.kind == PyKind::kName) return node.text;
    if (node.kind == PyKind::kAttribute &&
        node.items[0].kind == PyKind::kName && node.items[0].text == "self") {
      return node.text;
    }
    return {};
  }

  PyNode Made(PyKind kind, size_t begin, std::vector<PyNode> items = {},
              std::string text = {}) {
    PyNode node;
    for (const PyNode& item : items) {
      node.height = std::max(node.height, item.height + 1);
    }
    // A chain of operators or calls is not nested in the text, but its tree is
    // as high as the chain is long.
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

  // Parses expressions with commas between them as a tuple. The targets of a
  // loop end at its `in`.
  PyNode Sequence(bool targets = false) {
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
    while (good_ && Take(",")) {
      if (AtLineEnd() || IsOperator("=") || IsOperator(")") ||
          IsOperator("]") || IsOperator("}") || (targets && IsWord("in"))) {
        break;
      }
      items.push_back(next());
    }
    return Made(PyKind::kSequence, begin, std::move(items));
  }

  PyNode StarOrExpression() {
    const size_t begin = Now().begin;
    if (!Take("*")) return Expression();
    std::vector<PyNode> items;
    items.push_back(Expression());
    return Made(PyKind::kStar, begin, std::move(items));
  }

  PyNode Expression() {
    if (++depth_ > kDepthLimit) {
      Refuse("this is nested too deeply");
      --depth_;
      return {};
    }
    PyNode node = Choice();
    --depth_;
    return node;
  }

  PyNode Choice() {
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
      Expression();
      return Made(PyKind::kOther, begin);
    }
    if (!TakeWord("if")) return value;
    std::vector<PyNode> items;
    items.push_back(std::move(value));
    items.push_back(Either());
    if (!TakeWord("else")) return Other(begin);  // a comprehension
    items.push_back(Expression());
    return Made(PyKind::kChoice, begin, std::move(items));
  }

  // Skips `lambda a, *b, c=lambda: 0: body`; no rule set needs its value.
  PyNode Lambda() {
    const size_t begin = Now().begin;
    Next();
    while (good_ && !IsOperator(":")) {
      if (Take("=")) {
        Expression();
      } else if (Now().kind == PyToken::kName || IsOperator(",") ||
                 IsOperator("*") || IsOperator("**") || IsOperator("/")) {
        Next();
      } else {
        Refuse("a colon is missing here");
      }
    }
    Take(":");
    Expression();
    return Made(PyKind::kOther, begin);
  }

  PyNode Either() {
    PyNode left = Both();
    while (good_ && IsWord("or"))
      left = Pair(PyKind::kOr, std::move(left), 1, &PythonParser::Both);
    return left;
  }
  PyNode Both() {
    PyNode left = Negated();
    while (good_ && IsWord("and"))
      left = Pair(PyKind::kAnd, std::move(left), 1, &PythonParser::Negated);
    return left;
  }
  PyNode Negated() {
    const size_t begin = Now().begin;
    if (!TakeWord("not")) return Compared();
    if (++depth_ > kDepthLimit) Refuse("this is nested too deeply");
    std::vector<PyNode> items;
    items.push_back(Negated());
    --depth_;
    return Made(PyKind::kNot, begin, std::move(items));
  }
  PyNode Compared() {
    PyNode left = Sum();
    for (bool chain = false; good_; chain = true) {
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
      // `a == b == c` does not compare the result of a comparison.
      left = Pair(chain ? PyKind::kOther : kind, std::move(left), words,
                  &PythonParser::Sum);
    }
    return left;
  }
  PyNode Sum() {
    PyNode left = Term();
    while (good_) {
      if (IsOperator("+")) {
        left = Pair(PyKind::kAdd, std::move(left), 1, &PythonParser::Term);
        continue;
      }
      constexpr std::string_view kRest[] = {"-", "*", "/", "//", "%",  "**",
                                            "@", "|", "&", "^",  "<<", ">>"};
      const auto* at =
          std::find_if(std::begin(kRest), std::end(kRest),
                       [&](std::string_view op) { return IsOperator(op); });
      if (at == std::end(kRest)) break;
      left = Pair(PyKind::kOther, std::move(left), 1, &PythonParser::Term);
    }
    return left;
  }

  PyNode Pair(PyKind kind, PyNode left, size_t words,
              PyNode (PythonParser::*next)()) {
    const size_t begin = left.begin;
    for (size_t i = 0; i < words; ++i) Next();
    std::vector<PyNode> items;
    items.push_back(std::move(left));
    items.push_back((this->*next)());
    return Made(kind, begin, std::move(items));
  }

  PyNode Term() {
    const size_t begin = Now().begin;
    if (IsOperator("-") || IsOperator("+") || IsOperator("~")) {
      Next();
      if (++depth_ > kDepthLimit) Refuse("this is nested too deeply");
      Term();
      --depth_;
      return Made(PyKind::kOther, begin);
    }
    TakeWord("await");
    PyNode node = Atom();
    while (good_) {
      if (Take(".")) {
        std::string name = Now().text;
        if (Now().kind != PyToken::kName) {
          Refuse("a name is missing after the dot");
        }
        Next();
        std::vector<PyNode> items;
        items.push_back(std::move(node));
        node =
            Made(PyKind::kAttribute, begin, std::move(items), std::move(name));
      } else if (IsOperator("(")) {
        node = Call(std::move(node));
      } else if (IsOperator("[")) {
        Other();
        std::vector<PyNode> items;
        items.push_back(std::move(node));
        node = Made(PyKind::kPart, begin, std::move(items));
      } else {
        break;
      }
    }
    return node;
  }

  PyNode Call(PyNode function) {
    const size_t begin = function.begin;
    std::vector<PyNode> items;
    std::vector<std::string> keywords;
    items.push_back(std::move(function));
    Take("(");
    bool other = false;
    while (good_ && !IsOperator(")")) {
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
        other = true;
        while (good_ && !IsOperator(")")) SkipItem();
      }
      if (!Take(",") && !IsOperator(")")) Refuse("a comma is missing here");
    }
    Take(")");
    if (other) return Made(PyKind::kOther, begin);
    PyNode node = Made(PyKind::kCall, begin, std::move(items));
    node.keywords = std::move(keywords);
    return node;
  }

  // Skips one token, or a bracket with its content.
  void SkipItem() {
    if (IsOperator("(") || IsOperator("[") || IsOperator("{")) {
      Other();
    } else if (Now().kind == PyToken::kEnd) {
      Refuse("a bracket is missing here");
    } else {
      Next();
    }
  }

  // Skips a bracket, or the rest of an expression.
  PyNode Other() { return Other(Now().begin); }
  PyNode Other(size_t begin) {
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

  PyNode Atom() {
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

  // Adjacent strings are one string.
  PyNode Strings() {
    const size_t begin = Now().begin;
    bool plain = true;
    std::string text;
    while (Now().kind == PyToken::kString || Now().kind == PyToken::kTemplate) {
      plain = plain && Now().kind == PyToken::kString;
      text += Now().text;
      Next();
    }
    return Made(plain ? PyKind::kString : PyKind::kOther, begin, {},
                std::move(text));
  }

  PyNode Bracket() {
    const size_t begin = Now().begin;
    const std::string close = IsOperator("(")   ? ")"
                              : IsOperator("[") ? "]"
                                                : "}";
    const bool braces = close == "}";
    Next();
    bool dict = false, other = false, comma = false;
    std::vector<PyNode> items;
    while (good_ && !IsOperator(close)) {
      if (braces && Take("**")) other = true;
      items.push_back(StarOrExpression());
      if (braces && Take(":")) {
        dict = true;
        items.push_back(Expression());
      }
      if (IsWord("for") || IsWord("async")) {
        other = true;
        while (good_ && !IsOperator(close)) SkipItem();
      }
      if (Take(",")) {
        comma = true;
      } else if (!IsOperator(close)) {
        Refuse("a comma is missing here");
      }
    }
    Take(close);
    if (other) return Made(PyKind::kOther, begin);
    if (close == ")" && !comma && items.size() == 1) {
      return std::move(items[0]);
    }
    return Made(
        dict || (braces && items.empty()) ? PyKind::kDict : PyKind::kSequence,
        begin, std::move(items));
  }

  SourceRef source_;
  std::vector<PyTokenAt> tokens_;
  std::vector<PyComment> comments_;
  Findings& findings_;
  size_t at_ = 0;
  int depth_ = 0;
  bool good_ = true;
  std::vector<std::string>
      bound_;  // names bound by `:=` in the current statement
};

}  // namespace

std::optional<PyModule> ParsePython(const SourceRef& source,
                                    Findings& findings) {
  auto tokens = TokenizePython(source, findings);
  if (!tokens) return std::nullopt;
  return PythonParser(source, std::move(*tokens), findings).Run();
}

}  // namespace shardc::imports
