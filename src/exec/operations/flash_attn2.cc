// The operation flash_attn2: attention in blocks with an online softmax (Dao et
// al. 2022), as a local kernel on each device.
//
// The wrapper around the kernel keeps the axes of batch and heads and gathers
// all other dimensions. Sharding the sequence therefore saves no memory. Blocks
// are counted from global position 0, so the bits equal the unsharded run's.
// For example, 8 keys in blocks of 3 are processed as keys 0-2, 3-5 and 6-7, on
// one device and on many.
//
// If matmuls are quantised, weights and values are quantised block by block
// (narrow.h).
//
// Cost: if a length is sharded over n devices, query, key and value are
// all-gathered. A device that holds b bytes of a tensor sends (n-1) b bytes.
#include <algorithm>
#include <utility>

#include "exec/attention/narrow.h"
#include "exec/attention/staging.h"
#include "exec/operations/operation.h"
#include "source/size.h"

namespace shardc::exec {

extern const Operation kFlashAttention;

namespace {

OperationOutcome RunFlashAttn2(Machine& machine,
                               const AttentionProblem& problem,
                               const AttentionSpecs& specs,
                               const OperationSettings& settings) {
  OperationOutcome outcome;
  auto staged = StageLocal(machine, problem, specs, settings,
                           kFlashAttention.Staging(), outcome);
  if (!staged) return outcome;
  Slices slices;
  MakeSlices(machine, *staged, GroupMap::kNaive, slices);
  ShardedTensor out = EmptyOutput(machine, *staged);
  const int64_t block = settings.blocksize_k;
  const int bits = settings.dot_bits;
  PerDevice scores;
  if (bits > 0) scores = QuantisedScores(machine, slices, {}, bits);
  machine.Local([&](int device) {
    const LocalSlice& slice = slices.at[AsIndex(device)];
    SoftmaxState state = EmptyState(slice);
    if (bits > 0) {
      FinishScores(slice, scores[AsIndex(device)]);
      AttendNarrow(slice, scores[AsIndex(device)], {bits, Dtype::kF32, block},
                   nullptr, state);
    } else {
      AttendKeys(slice, 0, slice.keys(), block, state);
    }
    out.local[AsIndex(device)] =
        FinishRows(machine, *staged, device, slice, state, out.dtype);
  });
  outcome.output = FinishOutput(machine, *staged, std::move(out));
  return outcome;
}

}  // namespace

constinit const Operation kFlashAttention = {
    .name = "flash_attn2",
    .summary = "blocked online softmax",
    .supports = kLocalSupports,
    .quantises_blocks = true,
    .settings = {Setting::kDropout, Setting::kBlocksizeQ, Setting::kBlocksizeK,
                 Setting::kBlocksizeB, Setting::kDotBits},
    .bytes = LocalBytes,
    .run = RunFlashAttn2,
};

}  // namespace shardc::exec
