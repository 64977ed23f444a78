// Plain attention over full rows of logits, as a local kernel. It computes the
// same as vanilla, but the wrapper keeps the axes of batch and heads and
// gathers all other dimensions. Query head t of a device reads the device's key
// head t / g, where g is the device's number of query heads for each key head.
//
// Example of wrong results, which verification detects: query heads are sharded
// over tp=2 and two key heads are replicated. A device's query heads all belong
// to the same key head, but half of them read the other key head.
#include <utility>

#include "exec/attention/staging.h"
#include "exec/operations/operation.h"
#include "exec/operations/row_softmax.h"

namespace shardc::exec {

extern const Operation kSdpa;

namespace {

OperationOutcome RunSdpa(Machine& machine, const AttentionProblem& problem,
                         const AttentionSpecs& specs,
                         const OperationSettings& settings) {
  OperationOutcome outcome;
  auto staged =
      StageLocal(machine, problem, specs, settings, kSdpa.Staging(), outcome);
  if (!staged) return outcome;
  outcome.output = FinishOutput(
      machine, *staged,
      RowSoftmax(machine, *staged, GroupMap::kNaive, settings, {}));
  return outcome;
}

}  // namespace

constinit const Operation kSdpa = {
    .name = "sdpa",
    .summary = "full rows of logits, in local slices",
    .supports = kLocalSupports,
    .narrow_softmax = true,
    .masked_rows = MaskedRows::kMean,
    .settings = {Setting::kDropout, Setting::kDotBits},
    .bytes = LocalBytes,
    .run = RunSdpa,
};

}  // namespace shardc::exec
