// Counts how often each computation runs in one execution of the program.
#ifndef SHARDC_AUDIT_RUNS_H_
#define SHARDC_AUDIT_RUNS_H_

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "audit/audit.h"
#include "audit/graph.h"
#include "hlo/program.h"
#include "source/size.h"

namespace shardc::audit {

struct Runs {
  // How often each computation runs, indexed by block. It is 0 if the entry
  // does not reach the computation, or reaches it only by a branch that is not
  // counted. A loop that sends nothing is counted as one iteration.
  std::vector<Size> of;
  // Loops that send bytes and whose number of iterations is unknown. They are
  // counted as one iteration.
  std::vector<Node> unknown_loops;
  // Conditionals whose branches send different numbers of bytes. Only the
  // branch that sends most is counted.
  std::vector<Node> conditionals;
};

// Counts the runs of each computation. `sent` is indexed by block and holds the
// bytes that the computation's own collectives send in one run.
Runs CountRuns(const Graph& graph, Tracer& tracer,
               const std::vector<Size>& sent);

// Finds the phase of an operation (forward, backward or recomputed) and its
// named scopes. Both are read from the operation's name, the member `op_name`
// of its metadata.

// Returns the phase of an operation. It is read from the parts that JAX adds to
// the operation's name: `rematted_computation` means recomputed, `transpose(`
// means the backward pass, and `jvp(` means the forward pass. Returns kNone for
// other names.
Phase PhaseOf(std::string_view op_name);
// Returns the named scopes around an operation, outermost first, without JAX's
// own parts: "layer/attn" of
// "jit(step)/transpose(jvp(layer))/while/body/attn/dot_general".
std::string ScopeOf(std::string_view op_name);

// Functions such as `constrain(x, spec)`, which all layers call to constrain a
// sharding. The line of `with_sharding_constraint` in such a function is the
// same for every layer, so the line of its caller is reported instead.
class ConstraintFunctions {
 public:
  explicit ConstraintFunctions(const hlo::Program& program);

  // Returns the innermost line of the user's program that leads to an
  // instruction and is not in a helper. If every line is in a helper or in an
  // installed package, returns the same line as hlo::UserLine.
  hlo::SourceLine LineOf(std::string_view metadata) const;

 private:
  using Function = std::pair<std::string_view, std::string_view>;

  const hlo::Frames& frames_;
  std::set<Function> functions_;  // file and name of each helper
};

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_RUNS_H_
