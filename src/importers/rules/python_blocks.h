// What Python's blocks run besides the statements of their bodies, and what is
// unknown after a block of which it is not known which statements run.
#ifndef SHARDC_IMPORTERS_RULES_PYTHON_BLOCKS_H_
#define SHARDC_IMPORTERS_RULES_PYTHON_BLOCKS_H_

#include <optional>
#include <vector>

#include "importers/rules/python_tree.h"

namespace shardc::imports {

// Adds the names that the statements bind or change to `to.names`. Sets
// `to.returns` if one of them returns.
void Gather(const std::vector<PyStatement>& body, PyStatement& to);
// Moves an expression to `to` if it contains a call.
void TakeCalls(PyNode& node, std::vector<PyNode>& to);
// Marks a statement as unknown. It is not known which statements of its body
// run, or how often.
void Unknown(PyStatement& made);
// Returns whether one of the statements may leave a loop or the function
// without a return, for example by `break`.
bool Leaves(const std::vector<PyStatement>& body);
// Adds the names that a loop over `source` runs over to `made.names`, if they
// have a variable of the loop, `made.target`: `for r in [a, b]: r.append(x)`
// changes `a` or `b`.
void AddSources(const PyNode& source, PyStatement& made);
// Adds the statements that `with entered as target: body` runs besides the
// body: it calls `entered.__enter__()` before the body and `__exit__()` after
// it. The value of `target` may be an argument of the call `entered`, so that
// the body may change it.
void AddEntered(PyNode entered, std::optional<PyNode> target,
                std::vector<PyStatement>& header);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PYTHON_BLOCKS_H_
