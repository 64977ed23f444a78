// The table of the faults that the self-test of steps injects. A row has the
// fault's name, its family and the mistake in words. It also has the step and
// the part of the run into which the fault is injected, the check that must
// detect it, and the injection. An injection finds its place by the name of an
// op, and by the kind of the op or of its collective:
//
//   no-row-ar   skips the all_reduce over tp at `linear o`; the check of the
//               sharding constraints must detect it
#include "verify/step/step_faults.h"

#include <array>
#include <string_view>
#include <vector>

#include "verify/step/fault_effects.h"

namespace shardc::verify {
// These functions are in the namespace `effects`, so that they can write
// `Rotate` in place of `effects::Rotate`.
namespace effects {
namespace {

using step::OpKind;
using enum Collective;
using enum FaultSeam;
using enum SoundStep;
using enum StepCheck;

void AddSums(std::vector<StepFault>& out) {
  const CallAt row = {.op = "linear o", .kind = kAllReduce};
  out.insert(
      out.end(),
      {{"no-row-ar", "collective",
        "the output of a row-parallel layer is not reduced", kTensor,
        kCollective, kConstraints, Skip(row)},
       {"no-col-bwd-ar", "collective",
        "the gradient of a column-parallel layer's input is not reduced",
        kTensor, kCollective, kConstraints, Skip({.op = "d:linear gate_up"})},
       {"wrong-axis", "collective", "reduced over dp in place of tp", kTensor,
        kCollective, kConstraints, AtCall(row, Over({"dp"}))},
       {"reduce-skips-last", "collective",
        "the last member is left out of a sum", kTensor, kCollective,
        kConstraints, AtCall(row, WithoutLast)},
       {"extra-gather", "ledger", "something is gathered once too often",
        kTensor, kCollective, kLedger,
        AtCall({.op = "linear q", .kind = kAllGather}, CalledTwice)},
       {"bias-before-reduce", "linearity",
        "the bias of a row-parallel layer is added before the sum", kTensor,
        kProgram, kConstraints, ReduceAfter({"linear o", OpKind::kAdd})},
       {"residual-before-reduce", "linearity",
        "the residual is added before the sum", kTensor, kProgram, kConstraints,
        ReduceAfter({"residual down", OpKind::kAdd})},
       {"fn-on-partial", "linearity", "a root is taken of a partial sum",
        kSplit, kDeclared, kStatic,
        ReduceAfter({"rmsnorm norm1", OpKind::kFn}, true)},
       {"product-of-partials", "linearity", "two partial sums are multiplied",
        kExperts, kDeclared, kStatic,
        ReduceAfter({"balance", OpKind::kEinsum, 1}, true)}});
}

void AddNorms(std::vector<StepFault>& out) {
  out.insert(
      out.end(),
      {{"norm-local", "norm",
        "the mean of squares is of the device's part of the hidden size",
        kSplit, kCollective, kConstraints, Skip({.op = "rmsnorm norm1"})},
       {"norm-local-d", "norm", "divided by the local hidden size", kSplit, kOp,
        kConstraints, WrongSize({"rmsnorm norm1", OpKind::kScale}, "d", 0.5)},
       {"norm-grad-tp", "norm",
        "a norm's gradient is not reduced over tp, which shards its tokens",
        kSequence, kCollective, kResults,
        ReduceWithout({.op = "d:rmsnorm norm1", .axes = {"dp", "sp", "tp"}},
                      "tp")},
       {"embed-scale-local", "norm",
        "the embedding is scaled by the root of the local hidden size", kSplit,
        kOp, kConstraints,
        WrongSize({"embed scale", OpKind::kScale}, "d", 0.5)}});
}

void AddVocabulary(std::vector<StepFault>& out) {
  const CallAt sum = {.op = "loss", .axes = {"tp"}};
  out.insert(
      out.end(),
      {{"vocab-offset", "vocabulary", "looked up without the shard's offset",
        kTensor, kOp, kConstraints,
        WrongStart({"lookup embed", OpKind::kLookup}, 0, "v", 0)},
       {"vocab-clip", "vocabulary",
        "ids of other shards are clipped, not zeroed", kTensor, kOp,
        kConstraints, AtOp({"lookup embed", OpKind::kLookup}, ClipIds)},
       {"scatter-offset", "vocabulary",
        "rows' gradients are added without the shard's offset", kTensor, kOp,
        kResults, WrongResultStart({"d:lookup embed", OpKind::kScatter}, "v")},
       {"pick-offset", "vocabulary", "the label's offset is one off", kTensor,
        kOp, kConstraints, WrongStart({"loss", OpKind::kPick}, 0, "v", 1)},
       {"place-offset", "vocabulary",
        "the label's gradient is placed without the shard's offset", kTensor,
        kOp, kConstraints, WrongResultStart({"d:loss", OpKind::kPlace}, "v")},
       {"ce-max-local", "vocabulary",
        "the maximum is of the local vocabulary only", kTensor, kCollective,
        kReplicas, Skip({.op = "loss", .max = true})},
       {"ce-sum-local", "vocabulary", "the sum of exponentials is not reduced",
        kTensor, kCollective, kConstraints, Skip(sum)},
       {"ce-pick-local", "vocabulary", "the label's logit is not reduced",
        kTensor, kCollective, kConstraints,
        // The loss has two sums over tp; the fault skips the second.
        AtCallNumber({.op = "loss", .axes = {"tp"}}, 2, Skipped)},
       {"padded-rows", "vocabulary",
        "rows that pad the vocabulary count in the sum", kTensor, kOp,
        kConstraints, AtOp({"loss", OpKind::kSum, -1}, CountPadding)},
       {"z-loss-local", "vocabulary",
        "a z-loss adds up the local vocabulary only", kTensor, kCollective,
        kConstraints, Skip({.op = "z-loss"})},
       {"smoothing-local", "vocabulary",
        "labels are smoothed over the local vocabulary's size", kTensor, kOp,
        kResults, WrongSize({"smoothing", OpKind::kScale}, "v", 0.25)}});
}

void AddLoss(std::vector<StepFault>& out) {
  const CallAt count = {.op = "loss", .axes = {"dp", "fsdp"}};
  out.insert(out.end(),
             {{"count-local", "loss", "tokens are counted per device", kTensor,
               kCollective, kReplicas, Skip(count)},
              {"mean-of-means", "loss", "the mean of the devices' means",
               kTensor, kCollective, kConstraints, AtCall(count, OwnTimes)},
              {"labels-local-shift", "loss",
               "labels are shifted within the shard of the sequence", kSequence,
               kOp, kConstraints, AtOp({"loss", OpKind::kPick}, ShiftLabels)},
              {"batch-order", "loss",
               "labels are sharded over [dp, fsdp], ids in the other order",
               kTensor, kProgram, kConstraints, SplitInOtherOrder("labels")}});
}

void AddGradients(std::vector<StepFault>& out) {
  const CallAt scatter = {.op = "d:linear down", .kind = kReduceScatter};
  const CallAt sum = {.op = "d:linear down", .axes = {"dp"}};
  const CallAt weight = {.op = "linear q", .kind = kAllGather};
  out.insert(
      out.end(),
      {{"dp-grad-missing", "gradient", "not reduced over dp", kTensor,
        kCollective, kResults, Skip(sum)},
       {"fsdp-grad-local", "gradient", "a device keeps its own chunk, unsummed",
        kTensor, kCollective, kResults, Skip(scatter)},
       {"reduce-twice", "gradient", "summed over dp twice", kTensor,
        kCollective, kResults, AtCall(sum, Twice)},
       {"mean-for-sum", "gradient",
        "averaged over dp, though the loss is a mean of all", kTensor,
        kCollective, kResults, AfterCall(sum, Mean)},
       {"rs-rotated", "gradient",
        "a reduce_scatter gives the next rank's chunk", kTensor, kCollective,
        kResults, AfterCall(scatter, Rotate)},
       {"ag-reversed", "gradient", "weights are joined in reverse order",
        kTensor, kCollective, kConstraints, AfterCall(weight, Reverse)},
       {"stale-weight", "gradient",
        "backward uses another layer's gathered weight", kTensor, kCollective,
        kConstraints,
        StaleCall({.op = "d:linear down", .kind = kAllGather},
                  {.op = "d:linear down", .kind = kAllGather})},
       {"tied-half", "gradient",
        "of a tied embedding the lookup's half is missing", kTensor, kOp,
        kResults, AtOp({"d:embed", OpKind::kAdd, -1}, ForgetLookup)},
       {"kv-grad-not-summed", "gradient",
        "gradients of copies of a KV head are not summed", kTensor, kCollective,
        kConstraints, Skip({.op = "d:cache k"})},
       {"column-bias-summed", "gradient",
        "a column-parallel bias' gradient is summed over tp", kTensor, kProgram,
        kResults, ReduceGradient("q.bias", {"tp"})},
       {"micro-divided-twice", "gradient",
        "the mean over micro-batches is taken twice", kMicro, kOp, kResults,
        AtOp({"d:micro mean", OpKind::kScale}, Constant(0.5))},
       {"micro-reduced-twice", "gradient",
        "reduced in a micro-batch, and at the end", kMicro, kProgram, kResults,
        ReduceMore({"d:head first", OpKind::kEinsum, 1}, {"dp"})},
       {"grad-left-whole", "spec",
        "a gradient is unsharded, its parameter is sharded", kTensor, kDeclared,
        kStatic, SumBeforeSlicing(scatter)}});
}

void AddHeads(std::vector<StepFault>& out) {
  const OpAt repeat = {"attention", OpKind::kRepeat};
  out.insert(
      out.end(),
      {{"repeat-modulo", "heads", "head n has KV head n mod K", kTensor, kOp,
        kConstraints, AtOp(repeat, RepeatModulo)},
       {"repeat-no-offset", "heads", "heads are grouped without an offset",
        kTensor, kOp, kConstraints, WrongResultStart(repeat, "n")},
       {"replica-modulo", "heads",
        "device i has KV head i mod K, not that of its query heads", kFactored,
        kProgram, kConstraints, SplitOverInstead("k", {"tp:(2)2."})},
       {"bias-first", "heads", "rank 0's part of a bias everywhere", kTensor,
        kOp, kConstraints, OperandOfFirst({"linear q", OpKind::kAdd}, 1)},
       {"fused-interleave", "heads", "(f z) is read as (z f)", kTensor, kOp,
        kConstraints,
        AtOp({"linear gate_up", OpKind::kSplit}, OtherFactorOrder)},
       {"fused-naive", "heads",
        "a contiguous cut of [gate | up] is read as (gate, up)", kSplit,
        kCollective, kConstraints,
        AtCall({.op = "gated", .kind = kAllGather}, ChunkAsHalves)},
       {"padded-head-scale", "heads",
        "scores are scaled by a padded head's width", kTensor, kOp,
        kConstraints, WrongSize({"attention", OpKind::kScale}, "h", 2)},
       {"latent-summed", "heads",
        "a latent that all heads share is reduced as if heads split it", kSplit,
        kProgram, kConstraints,
        ReduceMore({"linear kv_a", OpKind::kEinsum}, {"tp"}, true)},
       {"rope-local", "sequence", "rotary by local position", kSequence, kOp,
        kConstraints, LocalPositions({"rope q", OpKind::kRope}, 1)},
       {"mask-local", "sequence", "the causal mask by local row", kSequence,
        kOp, kConstraints, LocalPositions({"attention", OpKind::kMask}, 1)},
       {"learned-local", "sequence", "learned positions by local position",
        kSequence, kOp, kConstraints,
        LocalPositions({"lookup positions", OpKind::kLookup}, 1)}});
}

void AddExperts(std::vector<StepFault>& out) {
  const CallAt exchange = {.op = "experts", .kind = kAllToAll};
  const OpAt queues = {"experts", OpKind::kEinsum};
  out.insert(
      out.end(),
      {{"a2a-order", "expert", "an all_to_all joins senders rotated", kExperts,
        kCollective, kConstraints, AfterCall(exchange, RotateSenders)},
       {"a2a-neighbour", "expert", "tokens go one expert shard too far",
        kExperts, kCollective, kConstraints, AfterCall(exchange, Rotate)},
       {"a2a-offsets", "expert",
        "rows begin at inclusive counts in place of exclusive ones", kExperts,
        kCollective, kConstraints, AfterCall(exchange, RotateRows)},
       {"expert-place", "expert", "experts' weights on the mirrored rank",
        kExperts, kInput, kConstraints, MirrorParameter("experts.gate", 4)},
       {"slots-local", "expert", "capacity is counted per sequence shard",
        kExperts, kOp, kConstraints,
        ByHalves({"experts", OpKind::kSlots}, "t")},
       {"sorted-and-not", "expert",
        "rows are sent in another order than they are combined", kExperts, kOp,
        kConstraints, AtOp(queues, ReverseSlots)},
       {"router-drift", "expert", "router logits differ between replicas",
        kExperts, kOp, kReplicas,
        AtOp({"linear router", OpKind::kEinsum}, DriftOnSecond)},
       {"topk-tie", "expert", "replicas break ties differently", kExperts, kOp,
        kReplicas, AtOp({"route", OpKind::kTopK}, LastOfEqual)},
       {"groups-local", "expert", "groups are chosen per shard of experts",
        kExperts, kOp, kConstraints,
        ByHalves({"route", OpKind::kTopGroups}, "e", HalfTheGroups)},
       {"renormalise-before-mask", "expert",
        "weights are normalised over experts that are not chosen", kExperts,
        kProgram, kConstraints,
        ReadInstead({"route", OpKind::kSum}, 0, {"route", OpKind::kFn})},
       {"correction-in-weights", "expert",
        "the correction of the choice is in the weights too", kExperts,
        kProgram, kConstraints,
        ReadInstead({"route", OpKind::kEinsum, 1}, 0, {"route", OpKind::kAdd})},
       {"shared-on-every-rank", "expert",
        "the shared expert is added on every rank before the sum", kTokens,
        kProgram, kConstraints, ReduceAfter({"residual shared", OpKind::kAdd})},
       {"expert-grad-summed", "expert",
        "an expert's gradient is summed over ep, though each rank has its own",
        kExperts, kProgram, kResults, ReduceGradient("experts.gate", {"ep"})},
       {"router-grad-local", "expert", "the router's gradient is not reduced",
        kExperts, kCollective, kResults, Skip({.op = "d:linear router"})},
       {"aux-local", "expert", "what balances experts is not reduced", kExperts,
        kCollective, kReplicas, Skip({.op = "balance", .all = true})},
       {"aux-times-ep", "expert", "the balancing loss counts once a rank",
        kExperts, kOp, kConstraints,
        AtOp({"balance", OpKind::kScale, 1}, Constant(4))}});
}

void AddRandom(std::vector<StepFault>& out) {
  out.insert(
      out.end(),
      {{"dropout-local", "random", "keyed by the local index", kTensor, kOp,
        kConstraints, AtOp({"dropout", OpKind::kDropout}, LocalDropout)},
       {"dropout-same-seed", "random", "the same mask on every batch shard",
        kTensor, kOp, kConstraints,
        WrongStart({"dropout", OpKind::kDropout}, 0, "b", 0)},
       {"recompute-other-key", "random",
        "backward draws another mask than forward", kTensor, kOp, kConstraints,
        AtOp({"d:dropout", OpKind::kDropout}, OtherSeed)},
       {"recompute-forward-key", "random",
        "a rematerialised layer draws another mask than in the forward pass",
        kRecompute, kOp, kConstraints,
        AtOp({"r:dropout o", OpKind::kDropout}, OtherSeed)},
       {"recompute-not-reduced", "collective",
        "the output of a rematerialised row-parallel layer is not reduced",
        kRecompute, kCollective, kConstraints,
        Skip({.op = "r:linear o", .kind = kAllReduce})}});
}

void AddOptimizer(std::vector<StepFault>& out) {
  const CallAt norm = {.op = "norm", .all = true};
  out.insert(
      out.end(),
      {{"gnorm-local", "optimizer", "clipped by the local norm", kTensor,
        kCollective, kReplicas, Skip(norm)},
       {"gnorm-replicas", "optimizer", "the norm counts replicas", kTensor,
        kCollective, kConstraints, AtCall(norm, Over({"dp", "fsdp", "tp"}))},
       {"decay-on-norm", "optimizer", "a norm's weight decays", kTensor, kOp,
        kResults, AtOp({"adamw norm1", OpKind::kAdamW}, DecayAnyway)},
       {"moment-of-another", "optimizer", "another shard's first moment",
        kTensor, kInput, kResults, MirrorParameter("q", 4, true)},
       {"step-of-another", "optimizer", "ranks count steps differently",
        kTensor, kOp, kReplicas,
        AtOp({"adamw k", OpKind::kAdamW}, StepOfAnother)},
       {"model-weight-kept", "optimizer",
        "the master weight is updated, the model's is not", kTensor, kOp,
        kResults, AtOp({"adamw down", OpKind::kAdamW}, KeepModelWeight)},
       {"bf16-reduce", "numeric",
        "gradients of float32 are reduced in bfloat16", kNarrow, kCollective,
        kResults,
        AtCall({.op = "d:linear down", .kind = kReduceScatter}, InBf16)}});
}

void AddDecoding(std::vector<StepFault>& out) {
  const OpAt write = {"cache k", OpKind::kCacheWrite};
  out.insert(
      out.end(),
      {{"cache-owner", "decode", "a cache is written one row off", kDecode, kOp,
        kConstraints,
        AtOp(write, Positions(2, [](int64_t x) { return x + 1; }))},
       {"cache-all-write", "decode", "every shard writes its slot", kDecode,
        kOp, kConstraints, AtOp(write, WriteEverywhere)},
       {"lse-max-local", "decode",
        "partial softmaxes are joined with local maxima", kDecode, kCollective,
        kReplicas, Skip({.op = "attention", .max = true})},
       {"sink-per-part", "decode", "the sink is added once a part", kDecode,
        kProgram, kConstraints, ReduceAfter({"attention", OpKind::kAdd, 2})},
       {"rotary-by-slot", "decode", "rotary by the place in the cache's shard",
        kDecode, kOp, kConstraints,
        AtOp({"rope k", OpKind::kRope},
             Positions(1, [](int64_t x) { return x % 4; }))}});
}

// In a ring of four devices, the forward pass has six ppermutes: three for keys
// and three for values. The backward pass has twelve, because the gradients of
// keys and values are passed too.
void AddRing(std::vector<StepFault>& out) {
  const CallAt forward = {.op = "attention", .kind = kPpermute};
  const CallAt backward = {.op = "d:attention", .kind = kPpermute};
  out.insert(
      out.end(),
      {{"ring-values-stay", "ring", "keys pass on, and values do not", kRing,
        kCollective, kConstraints, AtCallNumber(forward, 2, Skipped)},
       {"ring-other-way", "ring", "keys go to the device before, not the next",
        kRing, kCollective, kConstraints, AtCallNumber(forward, 1, OtherWay)},
       {"kv-grad-short", "ring",
        "the gradient of keys is sent one step short of its home", kRing,
        kCollective, kConstraints, AtCallNumber(backward, 12, Skipped)},
       {"sink-per-turn", "ring", "the sink is added once a block of keys",
        kRing, kOp, kConstraints,
        AtOp({"attention", OpKind::kFn, -1}, SinkPerBlock)},
       {"sink-grad-per-turn", "ring",
        "the sink's gradient is added once a block of keys", kRing, kOp,
        kResults,
        AtOp({"d:attention", OpKind::kSum, -1}, SinkGradientPerBlock)}});
}

}  // namespace
}  // namespace effects

std::string_view FaultSeamName(FaultSeam seam) {
  static constexpr std::array<std::string_view, 5> kNames = {
      "collective", "op", "program", "declared program", "input"};
  return kNames[static_cast<size_t>(seam)];
}

std::vector<StepFault> StepFaults() {
  std::vector<StepFault> out;
  for (const auto add :
       {effects::AddSums, effects::AddNorms, effects::AddVocabulary,
        effects::AddLoss, effects::AddGradients, effects::AddHeads,
        effects::AddExperts, effects::AddRandom, effects::AddOptimizer,
        effects::AddDecoding, effects::AddRing})
    add(out);
  return out;
}

}  // namespace shardc::verify
