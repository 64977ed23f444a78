// Counts how often each computation runs in one execution of the program.
#ifndef SHARDC_AUDIT_RUNS_H_
#define SHARDC_AUDIT_RUNS_H_

#include <vector>

#include "audit/graph.h"
#include "audit/trace.h"
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

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_RUNS_H_
