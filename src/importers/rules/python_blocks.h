// Summarises blocks of Python source for the evaluator: the names that a block
// may change, the calls in the block, and the methods that `with` calls.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_BLOCKS_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_BLOCKS_H_

#include <optional>
#include <vector>

#include "importers/rules/python_tree.h"

namespace shardc::imports {

// Adds the names that the statements bind or change to `to.names`. Sets
// `to.returns` if one of the statements returns.
void Gather(const std::vector<PyStatement>& body, PyStatement& to);
// Moves an expression to `to` if it contains a call.
void TakeCalls(PyNode& node, std::vector<PyNode>& to);
// Makes a statement kUnknown, because it is not known which statements of its
// body run, or how often. The body is replaced by the names that it may change
// (`names`) and by its calls (`calls`).
void Unknown(PyStatement& made);
// Returns whether one of the statements may leave a loop or the function
// without a return, for example by `break`.
bool Leaves(const std::vector<PyStatement>& body);
// `made` is a loop over `source`. If the loop changes its variable, the
// elements of `source` may change. Adds the names in `source` to `made.names`
// in this case: `for r in [a, b]: r.append(x)` changes `a` or `b`.
void AddSources(const PyNode& source, PyStatement& made);
// Adds the statements that `with entered as target: body` runs besides the
// body: the calls of `entered.__enter__()` and `entered.__exit__()`, and the
// assignment to `target`. In `with f(x) as y`, `f` may return `x`, so a change
// of `y` in the body changes `x`.
void AddEntered(PyNode entered, std::optional<PyNode> target,
                std::vector<PyStatement>& header);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_BLOCKS_H_
