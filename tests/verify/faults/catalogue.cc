// The catalogue of faults that a self-test injects. Each entry has the fault's
// name, its family, the functions that inject it, and one or more small cases
// that should reveal it. Some faults are wrong specs or sizes of a case. Their
// entries have no functions that inject the fault, but functions that change
// the case.
#include <utility>

#include "verify/cases/grid.h"
#include "verify/faults/fault_injection.h"

namespace shardc::verify {
namespace {

// ---- Cases ----------------------------------------------------------------

struct Base {
  std::string_view operation;
  std::vector<std::pair<std::string, int64_t>> mesh;
  Assignment axes;
  Sizes sizes;
};

Probe ProbeOf(const Base& base, Features features = {},
              Dtype dtype = Dtype::kF32, Layout layout = Layout::kBthd) {
  Probe out;
  Case& test = out.test;
  test.operation = exec::FindOperation(base.operation);
  test.mesh = MeshOf(base.mesh);
  test.sizes = base.sizes;
  test.layout = layout;
  test.dtype = dtype;
  test.features = features;
  test.mode = base.sizes.query_length == 1 ? Mode::kDecode : Mode::kTrain;
  test.settings.blocksize_q = 4;
  test.settings.blocksize_k = 4;
  test.seed = 11;
  test.specs = SpecsFor(layout, base.axes, features.sinks_rank, false);
  return out;
}

Probe WithWrong(Probe probe, std::function<void(Case&)> make_wrong,
                bool must_refuse = false) {
  probe.make_wrong = std::move(make_wrong);
  probe.must_refuse = must_refuse;
  return probe;
}

Probe With(Probe probe, const std::function<void(Case&)>& change) {
  change(probe.test);
  return probe;
}

constexpr Sizes kSquare = {4, 16, 16, 8, 4, 16, 0};
constexpr Sizes kDecode = {4, 1, 16, 8, 4, 16, 0};

Features Causal() {
  Features f;
  f.causal = true;
  return f;
}

Base Ring() {
  return {"ring",
          {{"dp", 2}, {"sp", 4}, {"tp", 2}},
          {{"dp"}, {"sp"}, {"sp"}, {"tp"}, {"tp"}, {}, {}},
          kSquare};
}
Base Flash() {
  return {"flash_attn2",
          {{"dp", 2}, {"sp", 2}, {"tp", 4}},
          {{"dp"}, {"sp"}, {"sp"}, {"tp"}, {"tp"}, {}, {}},
          kSquare};
}
// Returns a case whose batch and heads are sharded over two axes each.
Base FlashWide() {
  return {"flash_attn2",
          {{"dp", 2}, {"fsdp", 2}, {"tp", 2}, {"tq", 2}},
          {{"fsdp", "dp"}, {}, {}, {"tp", "tq"}, {"tp", "tq"}, {}, {}},
          kSquare};
}
Base Vanilla() {
  return {"vanilla",
          {{"dp", 2}, {"sp", 2}, {"tp", 4}},
          {{"dp"}, {"sp"}, {"sp"}, {"tp"}, {"tp"}, {}, {}},
          kSquare};
}
// Returns a case whose head dimension is sharded over tp. Its axis rp shards
// nothing.
Base VanillaDim() {
  return {"vanilla",
          {{"dp", 2}, {"rp", 2}, {"tp", 2}},
          {{"dp"}, {}, {}, {}, {}, {"tp"}, {}},
          kSquare};
}
Base Decoding() {
  return {"flash_decoding",
          {{"dp", 2}, {"sp", 4}, {"tp", 2}},
          {{"dp"}, {}, {"sp"}, {"tp"}, {"tp"}, {}, {}},
          kDecode};
}
Base Ulysses() {
  return {"ulysses",
          {{"dp", 2}, {"sp", 4}},
          {{"dp"}, {"sp"}, {"sp"}, {}, {}, {}, {}},
          {2, 16, 16, 8, 4, 16, 0}};
}
// Returns a case in which the all_to_all of ulysses runs over sp, the major
// axis of the lengths, and the ring over cp, the minor axis.
Probe UlyssesOverRing(Features features) {
  Probe out = ProbeOf({"ulysses",
                       {{"dp", 2}, {"sp", 2}, {"cp", 2}},
                       {{"dp"}, {"sp", "cp"}, {"sp", "cp"}, {}, {}, {}, {}},
                       {2, 16, 16, 8, 4, 16, 0}},
                      features);
  out.test.settings.ring_axes = {"cp"};
  return out;
}
// Returns a case with fewer key heads than ranks, so that key heads are
// repeated.
Base UlyssesRepeated() {
  Base out = Ulysses();
  out.sizes.key_heads = 2;
  return out;
}
Base Sparse() {
  return {"blocksparse",
          {{"dp", 2}, {"tp", 4}},
          {{"dp"}, {}, {}, {"tp"}, {"tp"}, {}, {}},
          kSquare};
}

CacheTrace Living() {
  CacheTrace out;
  out.mesh = MeshOf({{"dp", 2}, {"sp", 2}, {"tp", 2}});
  out.batch = 4;
  out.prefill_spec = {{"dp"}, {}, {"tp"}};
  out.decode_spec = {{"dp"}, {"sp"}, {"tp"}};
  out.token_spec = {{"dp"}, {"sp"}, {"tp"}};
  out.query_heads = {"tp"};
  out.prefill = 24;
  out.chunk = 8;
  out.steps = 4;
  out.slots = 32;
  return out;
}
CacheTrace Quantised() {
  CacheTrace out = Living();
  out.kv_dtype = Dtype::kI8;
  return out;
}
CacheTrace Rolling() {
  CacheTrace out = Living();
  out.window = 12;
  out.slots = 20;
  out.prefill = 40;
  return out;
}

Probe TraceProbe(CacheTrace trace, bool must_refuse = false) {
  Probe out;
  out.trace = std::move(trace);
  out.must_refuse = must_refuse;
  return out;
}

// ---- The catalogue --------------------------------------------------------

class Builder {
 public:
  void Add(std::string_view name, std::string_view family, Fault fault,
           std::vector<Probe> probes) {
    out_.push_back({name, family, InjectionOf(fault), std::move(probes)});
  }
  void Spec(std::string_view name, Probe probe) {
    Add(name, "spec", Fault::kNone, {std::move(probe)});
  }
  std::vector<InjectedFault> Take() { return std::move(out_); }

 private:
  std::vector<InjectedFault> out_;
};

void AddSpecFaults(Builder& b) {
  b.Spec("batch-axes-reversed-in-key",
         WithWrong(ProbeOf(FlashWide()), [](Case& t) {
           std::swap(t.specs.key[0][0], t.specs.key[0][1]);
         }));
  b.Spec("batch-axes-reversed-in-key-and-value",
         WithWrong(ProbeOf(FlashWide()), [](Case& t) {
           std::swap(t.specs.key[0][0], t.specs.key[0][1]);
           std::swap(t.specs.value[0][0], t.specs.value[0][1]);
         }));
  b.Spec("head-axes-reversed-in-query",
         WithWrong(ProbeOf(FlashWide()), [](Case& t) {
           std::swap(t.specs.query[2][0], t.specs.query[2][1]);
         }));
  b.Spec("key-heads-whole-with-naive-map",
         WithWrong(ProbeOf(Flash()), [](Case& t) {
           t.specs.key[2].clear();
           t.specs.value[2].clear();
           t.sizes.key_heads = 2;
         }));
  b.Spec("key-heads-on-the-minor-axis",
         WithWrong(ProbeOf(FlashWide()), [](Case& t) {
           t.specs.key[2] = {"tq"};
           t.specs.value[2] = {"tq"};
         }));
  b.Spec("value-heads-unlike-key-heads",
         WithWrong(ProbeOf(FlashWide()), [](Case& t) {
           std::swap(t.specs.value[2][0], t.specs.value[2][1]);
         }));
  b.Spec("ring-lengths-on-other-axes", WithWrong(
                                           ProbeOf(Ring(), Causal()),
                                           [](Case& t) {
                                             t.specs.key[1].clear();
                                             t.specs.value[1].clear();
                                           },
                                           true));
  b.Spec("axis-twice", WithWrong(
                           ProbeOf(Flash()),
                           [](Case& t) { t.specs.query[1] = {"tp"}; }, true));
  b.Spec("axis-not-in-the-mesh",
         WithWrong(
             ProbeOf(Flash()), [](Case& t) { t.specs.key[0] = {"pp"}; }, true));
  b.Spec("dimension-does-not-divide",
         WithWrong(
             ProbeOf(Flash()), [](Case& t) { t.sizes.batch = 3; }, true));
  b.Spec("spec-longer-than-rank",
         WithWrong(
             ProbeOf(Flash()), [](Case& t) { t.specs.query.push_back({}); },
             true));
  Features aux;
  aux.sinks_rank = 2;
  b.Spec("sinks-split-as-heads", WithWrong(
                                     ProbeOf(Flash(), aux),
                                     [](Case& t) {
                                       t.specs.softmax_aux = {{"tp"}, {"tp"}};
                                     },
                                     true));
  b.Add("other-modes-spec", "spec", Fault::kOtherModesSpec, {ProbeOf(Flash())});
  b.Add("ids-unsplit-under-ring", "spec", Fault::kIdsUnsplit, {[] {
          Features f;
          f.segments = true;
          return ProbeOf(Ring(), f);
        }()});
  b.Add("output-lacks-an-axis", "spec", Fault::kOutputLacksAxis,
        {ProbeOf(Flash())});
  b.Add("bhtd-read-as-bthd", "spec", Fault::kOutputMisread, {[] {
          Base base = Flash();
          base.axes.heads.clear();
          base.axes.key_heads.clear();
          base.axes.query_length.clear();
          base.sizes.query_length = 8;
          return ProbeOf(base, {}, Dtype::kF32, Layout::kBhtd);
        }()});
}

void AddCollectiveFaults(Builder& b) {
  const Probe decode = ProbeOf(Decoding());
  const Probe ring = ProbeOf(Ring(), Causal());
  const auto add = [&](std::string_view name, Fault fault, Probe probe) {
    b.Add(name, "collective", fault, {std::move(probe)});
  };
  add("collective-left-out", Fault::kCollectiveSkipped, decode);
  add("sum-of-normalised-parts", Fault::kSumOfNormalised, decode);
  add("mean-of-normalised-parts", Fault::kMeanOfNormalised, decode);
  add("merge-without-maximum", Fault::kMergeWithoutMax, decode);
  add("output-merged-without-sum", Fault::kSumNotMerged, decode);
  add("one-part-twice", Fault::kReduceOneTwice, ProbeOf(VanillaDim()));
  add("last-part-left-out", Fault::kReduceSkipsLast, decode);
  add("wrong-axis", Fault::kCollectiveWrongAxis, decode);
  add("gather-order-reversed", Fault::kGatherOrderReversed,
      ProbeOf(Flash(), Causal()));
  add("ring-one-step-short", Fault::kRingOneStepShort, ProbeOf(Ring()));
  add("shift-and-index-disagree", Fault::kShiftAndIndexDisagree, ring);
  add("value-not-shifted", Fault::kValueNotShifted, ring);
  Features segments;
  segments.segments = true;
  add("ids-not-shifted", Fault::kIdsNotShifted, ProbeOf(Ring(), segments));
  add("all-to-all-order-reversed", Fault::kAllToAllDimsSwapped,
      ProbeOf(Ulysses()));
  add("no-inverse-all-to-all", Fault::kNoInverseAllToAll, ProbeOf(Ulysses()));
  add("exchange-over-the-rings-axis", Fault::kExchangeOverRing,
      UlyssesOverRing({}));
  add("reduce-scatter-chunk-off", Fault::kReduceScatterChunkOff,
      ProbeOf(Decoding()));
  add("reduced-over-replicas", Fault::kReduceOverReplicas,
      ProbeOf(VanillaDim()));
  add("reduced-after-exp", Fault::kReduceAfterExp, [] {
    Features f;
    f.soft_cap = 3;
    return ProbeOf(VanillaDim(), f);
  }());
  add("reduced-in-bfloat16", Fault::kReduceInBf16, decode);
  add("one-permute-more", Fault::kExtraPpermute, ring);
  add("order-by-member", Fault::kOrderByMember, [] {
    Base base = Decoding();
    base.sizes.key_length = 64;
    return ProbeOf(base);
  }());
  add("one-replica-drifts", Fault::kReplicaDrifts, [] {
    Base base = Ring();
    base.axes.heads.clear();
    base.axes.key_heads.clear();
    return ProbeOf(base, Causal());
  }());
  add("one-element-off", Fault::kOneElementOff, ring);
}

void AddIndexFaults(Builder& b) {
  const auto add = [&](std::string_view name, Fault fault, Probe probe) {
    b.Add(name, "index", fault, {std::move(probe)});
  };
  Base grouped = Flash();  // a case with two key heads on each device
  grouped.mesh = {{"dp", 2}, {"sp", 2}, {"tp", 2}};
  add("group-map-modulo", Fault::kGroupModulo, ProbeOf(grouped));
  add("group-map-neighbour", Fault::kGroupNeighbour, ProbeOf(grouped));
  Base straddling = Vanilla();
  straddling.axes.key_heads.clear();
  add("group-map-without-offset", Fault::kGroupNoOffset, ProbeOf(straddling));
  add("heads-tiled-not-repeated", Fault::kRepeatTiled,
      ProbeOf(UlyssesRepeated()));
  add("local-query-positions", Fault::kLocalQueryPositions,
      ProbeOf(Vanilla(), Causal()));
  add("local-key-positions", Fault::kLocalKeyPositions,
      ProbeOf(Ring(), Causal()));
  const auto zigzag = [](Case& t) {
    t.settings.order = exec::SequenceOrder::kZigZag;
  };
  const Probe folded = With(ProbeOf(Ring(), Causal()), zigzag);
  add("zigzag-without-mirror", Fault::kZigZagNoMirror, folded);
  add("mirrored-chunk-reversed", Fault::kZigZagReversed, folded);
  add("output-left-permuted", Fault::kOutputLeftPermuted, folded);
  Features bias;
  bias.bias = bias.bias_by_head = true;
  add("bias-of-the-first-heads", Fault::kBiasFirstHeads,
      ProbeOf(Flash(), bias));
  Features mask;
  mask.mask = true;
  add("mask-of-the-first-rows", Fault::kMaskFirstRows,
      ProbeOf(Vanilla(), mask));
  Features blocks;
  blocks.custom_blocks = true;
  add("block-table-of-rank-0", Fault::kBlockTableOfRankZero,
      With(ProbeOf(Sparse(), blocks),
           [](Case& t) { t.settings.block_mask = exec::BlockMask::kCustom; }));
  add("positions-left-behind", Fault::kPositionsLeftBehind,
      UlyssesOverRing(Causal()));
  add("diagonal-block-skipped", Fault::kDiagonalBlockSkipped,
      ProbeOf(Sparse(), Causal()));
  const Probe trace = TraceProbe(Living());
  add("rotary-by-local-position", Fault::kRotaryLocal, trace);
  add("rotary-one-off-on-the-query", Fault::kRotaryQueryPlusOne, trace);
  add("rotary-one-off-on-both", Fault::kRotaryShiftedOnBoth, trace);
  add("rotary-sign", Fault::kRotarySign, trace);
  add("rotary-other-pairs", Fault::kRotaryOtherPairs, trace);
}

void AddCacheFaults(Builder& b) {
  const auto add = [&](std::string_view name, Fault fault, CacheTrace trace,
                       bool must_refuse = false) {
    b.Add(name, "cache", fault, {TraceProbe(std::move(trace), must_refuse)});
  };
  add("owner-off-by-one", Fault::kCacheOwnerOff, Living());
  add("every-rank-writes", Fault::kCacheAllWrite, Living());
  add("rank-0-writes", Fault::kCacheRankZeroWrites, Living());
  add("write-one-slot-on", Fault::kCacheIndexPlusOne, Living());
  add("index-grows-by-one", Fault::kCacheIndexByOne, Living());
  CacheTrace tight = Living();
  tight.slots = 24;
  add("overflow-clamped", Fault::kCacheOverflowClamped, tight, true);
  add("stale-rows-attended", Fault::kCacheStaleRows, Living());
  add("inserted-into-the-next-slot", Fault::kCacheSlotOff, Living());
  add("inserted-without-length", Fault::kCacheInsertKeepsLength, Living());
  add("neighbours-scale", Fault::kCacheNeighbourScale, Quantised());
  add("first-scale-for-all", Fault::kCacheFirstScale, Quantised());
  add("127-on-one-side", Fault::kCacheUneven127, Quantised());
  add("largest-wraps", Fault::kCachePositiveWraps, Quantised());
  add("zero-row-divides", Fault::kCacheZeroRowDivides, Quantised());
  add("rolling-cache-of-the-windows-size", Fault::kRollingCapacityIsWindow,
      Rolling());
  add("slot-taken-for-position", Fault::kRollingSlotAsPosition, Rolling());
  add("move-left-out", Fault::kCacheMoveSkipped, Living());
}

void AddMaskFaults(Builder& b) {
  const auto add = [&](std::string_view name, Fault fault, Probe probe) {
    b.Add(name, "mask", fault, {std::move(probe)});
  };
  const Probe causal = ProbeOf(Flash(), Causal());
  add("causal-one-more", Fault::kCausalPlusOne, causal);
  add("causal-one-less", Fault::kCausalMinusOne, causal);
  Features ragged;
  ragged.ragged = true;
  add("length-one-less", Fault::kLengthMinusOne, ProbeOf(Decoding(), ragged));
  add("rows-beyond-the-length", Fault::kStaleRows, ProbeOf(Decoding(), ragged));
  Features padded;
  padded.left_padding = true;
  add("left-padding-attends", Fault::kLeftPaddingAttends,
      ProbeOf(Flash(), padded));
  Base longer = Flash();
  longer.sizes.query_length = 8;
  add("causal-from-the-top-left", Fault::kTopLeftCausal,
      ProbeOf(longer, Causal()));
  Features window = Causal();
  window.window = 5;
  add("window-one-more", Fault::kWindowPlusOne, ProbeOf(Ring(), window));
  add("window-one-less", Fault::kWindowMinusOne, ProbeOf(Ring(), window));
  Features open;
  open.window = 5;
  add("window-symmetric", Fault::kWindowSymmetric, ProbeOf(Ring(), open));
  Features segments;
  segments.segments = true;
  add("key-ids-only", Fault::kKeySegmentsOnly, ProbeOf(Flash(), segments));
  add("padding-attends", Fault::kPaddingAttends, ProbeOf(Flash(), segments));
  Features sinks;
  sinks.sinks_rank = 1;
  add("sink-in-every-part", Fault::kSinkPerPart, ProbeOf(Decoding(), sinks));
  add("sink-with-a-value", Fault::kSinkHasValue, ProbeOf(Flash(), sinks));
  Features capped;
  capped.soft_cap = 3;
  capped.bias = true;
  add("cap-after-bias", Fault::kCapAfterBias, ProbeOf(Flash(), capped));
  Features additive;
  additive.additive_mask = true;
  additive.masked_row = true;
  add("masked-twice", Fault::kAdditiveMaskTwice, ProbeOf(Vanilla(), additive));
  Features masked;
  masked.masked_row = true;
  add("zero-for-the-mean", Fault::kMaskedRowZeroForMean,
      ProbeOf(Vanilla(), masked));
  Features dropout;
  dropout.dropout = 0.3;
  add("dropout-by-local-index", Fault::kDropoutLocal,
      ProbeOf(Flash(), dropout));
}

void AddNumericFaults(Builder& b) {
  const auto add = [&](std::string_view name, Fault fault,
                       std::vector<Probe> probes) {
    b.Add(name, "numeric", fault, std::move(probes));
  };
  add("scale-by-local-dim", Fault::kScaleByLocalDim, {ProbeOf(VanillaDim())});
  add("scale-twice", Fault::kScaleTwice, {ProbeOf(Flash())});
  Features large;
  large.large_logits = true;
  add("no-maximum-subtracted", Fault::kNoMaxSubtraction,
      {ProbeOf(Ring(), large)});
  add("sum-not-rescaled", Fault::kSumNotRescaled, {ProbeOf(Flash())});
  Base longer = Flash();
  longer.sizes = {4, 8, 512, 8, 4, 16, 0};
  add("bfloat16-accumulator", Fault::kBf16Accumulator,
      {With(ProbeOf(longer, {}, Dtype::kBF16),
            [](Case& t) { t.settings.blocksize_k = 64; })});
  std::vector<Probe> rounding;
  for (uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    rounding.push_back(With(ProbeOf(Flash(), {}, Dtype::kBF16),
                            [&](Case& t) { t.seed = seed; }));
  }
  add("truncating-bfloat16", Fault::kTruncatingRound, std::move(rounding));
  add("rounded-twice", Fault::kDoubleRound,
      {ProbeOf(Flash(), {}, Dtype::kF16)});
  add("state-reset-per-block", Fault::kStateResetPerBlock, {ProbeOf(Flash())});
  Base tiled = Flash();
  tiled.sizes.key_length = 64;
  add("tiled-by-local-size", Fault::kTileByLocalSize,
      {With(ProbeOf(tiled), [](Case& t) { t.settings.blocksize_k = 32; })});
}

}  // namespace

std::vector<InjectedFault> FaultCatalogue() {
  Builder b;
  AddSpecFaults(b);
  AddCollectiveFaults(b);
  AddIndexFaults(b);
  AddCacheFaults(b);
  AddMaskFaults(b);
  AddNumericFaults(b);
  std::vector<InjectedFault> out = b.Take();
  for (auto* const more : {PagedFaults, NarrowFaults}) {
    for (InjectedFault& fault : more()) out.push_back(std::move(fault));
  }
  return out;
}

}  // namespace shardc::verify
