// Parses Python expressions.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_EXPRESSION_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_EXPRESSION_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "importers/rules/python_cursor.h"
#include "importers/rules/python_tree.h"

namespace shardc::imports {

class PyExpressionParser : public PyCursor {
 public:
  using PyCursor::PyCursor;

  // Returns the names that `:=` has bound since the last call of TakeBound.
  // Also returns the names whose values may have changed: `x` for the call
  // `x.append(1)`, and for `x.append` without a call, which may be called
  // later.
  std::vector<std::string> TakeBound() { return std::exchange(bound_, {}); }
  // Removes the last of the names that the next call of TakeBound would return.
  void DropBound() {
    if (!bound_.empty()) bound_.pop_back();
  }

  // Parses expressions separated by commas as a tuple. With `targets`, parses
  // the targets of a loop, and stops at the word `in`.
  PyNode Sequence(bool targets = false);
  PyNode StarOrExpression();
  PyNode Expression();
  // Skips brackets with their content, or the rest of an expression. Returns a
  // node of the kind kOther.
  PyNode Other();
  // Skips the rest of an expression that starts at `begin` and has been parsed
  // up to the current token. Returns a node of the kind kOther that starts at
  // `begin`.
  PyNode Other(size_t begin);
  // Parses the arguments of a call of `function`.
  PyNode Call(PyNode function);

  // Returns a node that starts at `begin` and ends before the current token.
  // Refuses a tree that is too high.
  PyNode Made(PyKind kind, size_t begin, std::vector<PyNode> items = {},
              std::string text = {});

 private:
  PyNode Choice();
  PyNode Lambda();
  PyNode Either();
  PyNode Both();
  PyNode Negated();
  PyNode Compared();
  PyNode Sum();
  PyNode Pair(PyKind kind, PyNode left, size_t words,
              PyNode (PyExpressionParser::*next)());
  PyNode Term();
  PyNode Part(PyNode of);
  // Parses the clauses of a comprehension up to the bracket `close`. `items` is
  // the element before the clauses or, in a dict, the key and the value.
  PyNode Each(size_t begin, std::vector<PyNode> items, std::string_view close);
  void SkipItem();
  PyNode Atom();
  PyNode Strings();
  PyNode Inserted(std::string_view text, size_t begin);
  PyNode Bracket();

  std::vector<std::string> bound_;
};

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_EXPRESSION_H_
