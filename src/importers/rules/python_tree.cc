// A recursive descent parser of Python's statements. Its base class parses
// expressions. Expressions whose values rule sets do not need, such as
// arithmetic other than `+`, become kOther:
//
//   x = (("a", P(t)),) if f else y * 2
//     ->  assign x: choice(sequence(...), name f, other)
#include "importers/rules/python_tree.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "importers/rules/python_blocks.h"
#include "importers/rules/python_expression.h"
#include "importers/rules/python_names.h"

namespace shardc::imports {
namespace {

// Converts a call such as `rules.append(x)`, `rules.extend(x)` or
// `tree.update(x)`, which changes the value of a variable, to a statement.
// Returns false for other expressions.
bool Method(PyNode& call, PyStatement& made) {
  std::string name = ChangedName(call);
  if (name.empty() || call.items.size() != 2) return false;
  if (call.items[0].items[0].kind == PyKind::kPart) return false;
  const std::string& method = call.items[0].text;
  if (method == "append") {
    made.act = PyAct::kAppend;
  } else if (call.keywords[0].empty() &&
             (method == "extend" || method == "update")) {
    made.act = PyAct::kExtend;
  } else {
    return false;
  }
  made.name = std::move(name);
  made.value = std::move(call.items[1]);
  return true;
}

class PyStatementParser : private PyExpressionParser {
 public:
  PyStatementParser(const SourceRef& source, PyTokens tokens,
                    Findings& findings)
      : PyExpressionParser(source, std::move(tokens.tokens), findings),
        comments_(std::move(tokens.comments)) {}

  std::optional<PyModule> Run() {
    PyModule module;
    while (good() && Now().kind != PyToken::kEnd) Statement(module.body);
    if (!good()) return std::nullopt;
    module.comments = std::move(comments_);
    return module;
  }

 private:
  // Skips to the end of the line. Lines inside brackets belong to it.
  void SkipLine() {
    while (Now().kind != PyToken::kNewline && Now().kind != PyToken::kEnd) {
      Next();
    }
    if (Now().kind == PyToken::kNewline) Next();
  }

  // Parses `: body`. The body is on the same line, or is an indented block.
  void Body(std::vector<PyStatement>& body) {
    if (!Take(":")) {
      Refuse("a colon is missing here");
      return;
    }
    if (Now().kind != PyToken::kNewline) {
      do {
        Statement(body);
      } while (good() && token(at() - 1).kind == PyToken::kOperator &&
               Now().kind != PyToken::kNewline);  // repeats after a semicolon
      return;
    }
    if (!Indented()) return;
    while (good() && Now().kind != PyToken::kDedent &&
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
    Enter("blocks are nested too deeply");
    const size_t before = body.size();
    const size_t begin = Now().begin;
    StatementInside(body);
    if (auto bound = TakeBound(); !bound.empty()) {
      PyStatement inside;
      inside.begin = begin;
      inside.names = std::move(bound);
      body.insert(body.begin() + static_cast<std::ptrdiff_t>(before),
                  std::move(inside));
    }
    Leave();
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
    if (Take("@")) {
      // The decorator `@f` calls `f` with the function below it. The decorator
      // `@f(x)` calls the result of `f(x)` with the function.
      PyStatement call;
      call.begin = Now().begin;
      std::vector<PyNode> items;
      items.push_back(Sequence());
      call.target = Made(PyKind::kCall, call.begin, std::move(items));
      EndLine();
      body.push_back(std::move(call));
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
    } else if (IsWord("raise") || IsWord("break") || IsWord("continue") ||
               IsWord("yield")) {
      made.act = PyAct::kLeave;
      SkipLine();
    } else if (TakeWord("global") || TakeWord("nonlocal")) {
      made.act = PyAct::kGlobal;
      made.names = NamesOf(Sequence());
      EndLine();
    } else if (TakeWord("assert")) {
      made.target = Sequence();
      EndLine();
    } else if (IsWord("pass") ||
               (IsWord("type") && Now(1).kind == PyToken::kName)) {
      SkipLine();
      return;
    } else {
      Simple(made);
    }
    body.push_back(std::move(made));
  }

  // Returns whether the line ends in a colon. The first word of such a line
  // begins a block.
  bool BlockAhead() const {
    size_t i = at();
    while (token(i).kind != PyToken::kNewline &&
           token(i).kind != PyToken::kEnd) {
      ++i;
    }
    return i > at() && token(i - 1).text == ":" &&
           token(i - 1).kind == PyToken::kOperator;
  }

  void EndLine() {
    if (Take(";")) return;
    if (Now().kind == PyToken::kNewline) {
      Next();
    } else if (Now().kind != PyToken::kEnd) {
      Refuse("this line goes on where it should end");
    }
  }

  // Parses `from jax.sharding import PartitionSpec as Spec` as the assignment
  // Spec = PartitionSpec.
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
    if (IsOperator("(")) {
      PyNode bases;
      bases.begin = Now().begin;
      made.value = Call(std::move(bases));
    }
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
    while (good() && !IsOperator(")")) Parameter(made);
    Take(")");
    if (Take("->")) Expression();
    Body(made.body);
  }

  void Parameter(PyStatement& made) {
    const bool starred = Take("*") || Take("**");
    if (starred || Take("/")) {
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
    if (starred) {
      made.starred.push_back(name);
    } else {
      made.parameters.emplace_back(name, std::move(given));
    }
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

  // Skips to the colon before a body. Colons inside brackets are skipped too.
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
    const bool each = TakeWord("for");
    if (each) {
      made.target = Sequence(true);
      made.names = NamesOf(made.target);
    }
    Next();
    made.value = Sequence();
    Body(made.body);
    const bool rest = TakeWord("else");
    if (rest) Body(made.body);
    PyStatement inside;
    Gather(made.body, inside);
    inside.target = made.target;
    if (each && !rest && !inside.returns && !Leaves(made.body)) {
      made.act = PyAct::kFor;
    } else {
      if (each) {
        AddSources(made.value, inside);
        made.names.insert(made.names.end(), inside.names.begin(),
                          inside.names.end());
      }
      TakeCalls(made.value, made.calls);
      made.value = {};
      Unknown(made);
    }
  }

  // Parses a `match` statement. It is not known which of its cases runs.
  void Match(PyStatement& made) {
    SkipHeader();
    Take(":");
    if (!Indented()) return;
    while (good() && Now().kind != PyToken::kDedent &&
           Now().kind != PyToken::kEnd) {
      if (!TakeWord("case")) {
        Refuse("a case is missing here");
        return;
      }
      const size_t from = at();
      SkipHeader();
      // Adds the names that a pattern binds. Names that the pattern only reads
      // are added as well, because the tokens of both are the same.
      for (size_t i = from; i < at(); ++i) {
        if (token(i).kind == PyToken::kName) {
          made.names.push_back(token(i).text);
        }
      }
      Body(made.body);
    }
    if (Now().kind == PyToken::kDedent) Next();
    Unknown(made);
  }

  void Block(PyStatement& made) {
    made.act = PyAct::kBlock;
    const bool runs = !IsWord("except");
    std::vector<PyStatement> header;
    if (IsWord("with")) With(header);
    SkipHeader();
    Body(made.body);
    if (!runs) made.body.clear();
    made.body.insert(made.body.begin(), std::make_move_iterator(header.begin()),
                     std::make_move_iterator(header.end()));
  }

  // Returns whether the current token opens a bracket that is closed directly
  // before a colon, as in `with (a as b, c): body`.
  bool BracketsAreAll() const {
    int depth = 0;
    for (size_t i = at(); token(i).kind != PyToken::kEnd; ++i) {
      if (token(i).kind != PyToken::kOperator) continue;
      const std::string& text = token(i).text;
      if (text == "(" || text == "[" || text == "{") ++depth;
      if (text == ")" || text == "]" || text == "}") --depth;
      if (depth > 0) continue;
      return text == ")" && token(i + 1).kind == PyToken::kOperator &&
             token(i + 1).text == ":";
    }
    return false;
  }

  // Parses the items `a, b as c` of `with a, b as c: body`. Stops at the first
  // token that is not part of an item.
  void With(std::vector<PyStatement>& header) {
    Next();
    const bool brackets = IsOperator("(") && BracketsAreAll();
    if (brackets) Next();
    do {
      if (IsOperator(")") || IsOperator(":")) break;
      PyNode entered = Expression();
      std::optional<PyNode> target;
      if (TakeWord("as")) target = Expression();
      AddEntered(std::move(entered), std::move(target), header);
    } while (good() && Take(","));
    if (brackets) Take(")");
  }

  // Parses an assignment of any form, or an expression that is a statement.
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
    } else if (Method(first, made)) {
      DropBound();
    } else {
      made.target = std::move(first);
    }
    EndLine();
  }

  // Parses the rest of `a = b = value`, `a["key"] = value` or `a, b = value`.
  // The form `a, b = value` is parsed as the loop `for a, b in [value]: pass`,
  // which binds the names in the same way. After any other assignment, such as
  // `a, b = c = value`, the values of the names are unknown.
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
    const PyNode& only = targets[0];
    if (targets.size() == 1 && only.kind == PyKind::kPart &&
        only.items.size() == 2 && !NameOf(only.items[0]).empty()) {
      made.act = PyAct::kPut;
      made.name = NameOf(only.items[0]);
      made.target = only.items[1];
      return;
    }
    for (const PyNode& target : targets) {
      for (std::string& name : NamesOf(target)) {
        made.names.push_back(std::move(name));
      }
    }
    if (targets.size() > 1 || !BindsNames(only)) return;
    made.act = PyAct::kFor;
    made.target = only;
    const size_t begin = made.value.begin;
    std::vector<PyNode> items;
    items.push_back(std::move(made.value));
    made.value = Made(PyKind::kSequence, begin, std::move(items));
  }

  std::vector<PyComment> comments_;
};

}  // namespace

std::optional<PyModule> ParsePython(const SourceRef& source,
                                    Findings& findings) {
  auto tokens = TokenizePython(source, findings);
  if (!tokens) return std::nullopt;
  return PyStatementParser(source, std::move(*tokens), findings).Run();
}

}  // namespace shardc::imports
