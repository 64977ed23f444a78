// Plain attention over full rows of logits, as a local kernel: vanilla's
// arithmetic, but its wrapper keeps batch and head axes and gathers the rest,
// and its group map trusts the slices.
//
// Example that gives wrong numbers, which verification detects: query heads on
// tp, two key heads replicated. Each device's query heads then read the first
// key head, whichever they should.
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
