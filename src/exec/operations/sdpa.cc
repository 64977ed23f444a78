// The operation sdpa: attention from all logits of a row at once, as a local
// kernel. It computes the same as vanilla, but the wrapper around the kernel
// keeps the axes of batch and heads and gathers all other dimensions. Query
// head t of a device reads the device's key head t / g, where g is the device's
// number of query heads for each key head.
//
// Some layouts lead to wrong results, which verification detects. For example,
// query heads are sharded over tp=2 and two key heads are replicated. All query
// heads of a device then belong to one key head, but half of them read the
// other key head.
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
