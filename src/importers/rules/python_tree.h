// Parses the Python statements and expressions that occur in rule sets into a
// tree. Other code becomes a node of the kind kOther with its place. Such a
// node is an error only if its value is needed.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_TREE_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_TREE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "importers/rules/python_tokens.h"

namespace shardc::imports {

enum class PyKind : uint8_t {
  kNone,
  kTrue,
  kFalse,
  kNumber,
  kString,
  kName,       // `text`: the name
  kAttribute,  // items: object; `text`: the attribute's name
  kSequence,   // items of a tuple, list or set
  kDict,       // items: key, value, key, value ...
  kCall,       // items: function, arguments; `keywords`: "" if positional
  kAdd,        // items: left, right
  kChoice,     // a if b else c; items: a, b, c
  kAnd,
  kOr,
  kNot,
  kEqual,
  kUnequal,
  kStar,    // `*x` or `**x`; items: x
  kPart,    // x[...]; items: x, and the index if it is a name or a literal
  kFormat,  // an f-string; items: texts and the values between them
  // A comprehension. `items` are its element (in a dict: key and value), then
  // the target and the iterated value of each `for`, and the condition of each
  // `if`. `keywords` states what each item is. For `[f(x) for x in y if z]`,
  // the items are `f(x)`, `x`, `y`, `z`, and the keywords `item`, `for`, `in`,
  // `if`. In a dict, the first two keywords are `key` and `value`.
  kEach,
  // A lambda. `items` are its body and then, for each of its parameters in
  // `keywords`, the default, or a node of the kind kNone if there is none.
  kLambda,
  kOther
};

struct PyNode {
  PyKind kind = PyKind::kOther;
  size_t begin = 0;
  size_t end = 0;
  std::string text;
  std::vector<PyNode> items;
  std::vector<std::string> keywords;  // used by kCall, kEach and kLambda
  int height = 1;                     // height of the tree under this node
};

enum class PyAct : uint8_t {
  kAssign,  // `name` = value
  kExtend,  // `name` += value, `name`.extend(value), `name`.update(value)
  kAppend,  // `name`.append(value)
  kPut,     // `name`[target] = value
  kFor,     // for target in value: body
  kGlobal,  // global, nonlocal: `names` belong to an outer scope
  kLeave,   // break, continue, yield, raise
  kReturn,  // return `value`
  kIf,      // if `value` (the condition): body; else: other
  kDefine,  // def `name`(`parameters`): body
  kClass,   // class `name`: body; value: a call with the bases as arguments
  kBlock,   // with, try, else or finally, whose body is run
  // A statement such as `while` or `match`. Afterwards the values of `names`
  // are unknown. If `returns` is true, the function may also end there.
  // `target`, `value` and `calls` may contain calls such as `f(rules)`, which
  // may change the value of `rules`.
  kUnknown,
};

// The prefix of PyStatement::name for an attribute of `self`. For example, the
// statement `self.rules = x` has the name `self.rules`.
inline constexpr std::string_view kPySelf = "self.";

struct PyStatement {
  PyAct act = PyAct::kUnknown;
  size_t begin = 0;
  std::string name;
  std::vector<std::string> names;
  bool returns = false;
  PyNode target, value;
  // Used by kUnknown: the expressions in the statement's header and body that
  // contain calls. The member `body` is then empty.
  std::vector<PyNode> calls;
  // The parameters of a function. `parameters` contains the names and defaults
  // of ordinary parameters. `starred` contains the names of `*args` and
  // `**kwargs`.
  std::vector<std::pair<std::string, std::optional<PyNode>>> parameters;
  std::vector<std::string> starred;
  std::vector<PyStatement> body, other;
};

struct PyModule {
  std::vector<PyStatement> body;
  std::vector<PyComment> comments;  // in the file's order
};

// Parses a module. Returns nullopt after a finding: python-syntax, or a finding
// of TokenizePython.
std::optional<PyModule> ParsePython(const SourceRef& source,
                                    Findings& findings);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_TREE_H_
