// The operation ring attention (Liu, Zaharia, Abbeel 2023). The lengths of
// query and key are sharded over the same axes. Each rank keeps its queries,
// and the blocks of keys are passed from rank to rank.
//
// In step t = 0 .. n-1, rank r has block j = (r - t) mod n. It skips the block
// if the causal mask hides all of it, and otherwise adds the block to the
// softmax state. It then sends key, value and segment ids to rank r + 1, except
// after the last step. A rank sends (n-1)(b_k + b_v + b_ids) bytes, where b_k,
// b_v and b_ids are the bytes of one block of key, value and segment ids. Some
// implementations send n times, although no step reads what the last send
// transfers.
//
// The tokens can be in three orders. In the contiguous order under a causal
// mask, rank 0 computes only one block while rank n-1 computes n. In the
// zig-zag order, the sequence is divided into 2n chunks, and rank r holds
// chunks r and 2n-1-r. Every rank then has the same number of causal pairs. In
// the striped order, position p is on rank p mod n. Tokens, positions and ids
// are permuted together before they are sharded, and the output is permuted
// back.
//
// Not supported: a sharded head dimension, and a query of length 1 if the
// lengths are sharded, because such a query cannot be split. Decoding needs
// another operation or unsharded lengths.
#include "exec/operations/operation.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "exec/attention/staging.h"
#include "source/size.h"

namespace shardc::exec {

extern const Operation kRing;

namespace {

// The blocks of keys and values that the devices hold in the current step of
// the ring. Device d holds block number `block[d]`.
struct Passing {
  PerDevice key, value, segments, positions;
  std::vector<int64_t> block;
};

class Ring {
 public:
  Ring(Machine& machine, const Staged& staged,
       const OperationSettings& settings)
      : machine_(machine),
        staged_(staged),
        settings_(settings),
        axes_(DropTrivial(machine.mesh(), staged.query.spec[1])),
        n_(machine.mesh().Parts(axes_)) {
    MakeSlices(machine, staged, GroupMap::kNaive, slices_);
  }

  ShardedTensor Run() {
    const int devices = machine_.devices();
    std::vector<SoftmaxState> states(AsIndex(devices));
    machine_.Local([&](int d) {
      states[AsIndex(d)] = EmptyState(slices_.at[AsIndex(d)]);
    });
    Passing passing = Start();
    const int64_t steps = machine_.Seam<RingSeam>().steps(n_);
    for (int64_t t = 0; t < steps; ++t) {
      machine_.Local([&](int d) { Absorb(d, passing, states[AsIndex(d)]); });
      if (t + 1 < n_) Shift(passing);
    }
    ShardedTensor out = EmptyOutput(machine_, staged_);
    machine_.Local([&](int d) {
      const LocalSlice& slice = slices_.at[AsIndex(d)];
      out.local[AsIndex(d)] = FinishRows(machine_, staged_, d, slice,
                                         states[AsIndex(d)], out.dtype);
    });
    return out;
  }

 private:
  Passing Start() const {
    Passing out;
    out.key = staged_.key.local;
    out.value = staged_.value.local;
    for (const LocalSlice& slice : slices_.at) {
      if (slice.key_segments != nullptr) {
        out.segments.push_back(*slice.key_segments);
      }
    }
    out.positions = slices_.key_positions.local;
    for (int d = 0; d < machine_.devices(); ++d) {
      out.block.push_back(machine_.mesh().Index(d, axes_));
    }
    return out;
  }

  // Computes the attention of the device's queries over the block of keys that
  // the device holds in this step, and accumulates it in `state`.
  void Absorb(int device, const Passing& passing, SoftmaxState& state) const {
    LocalSlice slice = slices_.at[AsIndex(device)];
    slice.key = &passing.key[AsIndex(device)];
    slice.value = &passing.value[AsIndex(device)];
    slice.key_positions = &passing.positions[AsIndex(device)];
    if (!passing.segments.empty()) {
      slice.key_segments = &passing.segments[AsIndex(device)];
    }
    // Bias and masks are not sharded over keys, so the columns of the block are
    // selected by an offset.
    const int64_t own = machine_.mesh().Index(device, axes_);
    const int64_t shift = (passing.block[AsIndex(device)] - own) * slice.keys();
    slice.bias.key += shift;
    slice.mask.key += shift;
    slice.additive_mask.key += shift;
    if (staged_.options.masked_rows == MaskedRows::kZero &&
        !AnyVisible(slice)) {
      return;
    }
    for (int64_t q = 0; q < slice.rows(); q += settings_.blocksize_q) {
      AttendBlock(slice, q, std::min(q + settings_.blocksize_q, slice.rows()),
                  0, slice.keys(), settings_.blocksize_k, state);
    }
  }

  // Returns false if the causal mask hides all keys of the block from all
  // queries. Only positions are considered, not masks and segments.
  bool AnyVisible(const LocalSlice& slice) const {
    const AttentionOptions& options = *slice.options;
    if (!options.causal) return true;
    const auto& q = slice.query_positions->integers;
    const auto& k = slice.key_positions->integers;
    return *std::min_element(k.begin(), k.end()) <=
           *std::max_element(q.begin(), q.end());
  }

  void Shift(Passing& passing) const {
    const std::vector<Edge> edges = RingEdges(n_);
    const auto shift = [&](PerDevice& what, std::string_view name) {
      what = Ppermute(machine_, axes_, what, edges, name);
    };
    shift(passing.key, "key");
    shift(passing.value, "value");
    if (!passing.segments.empty()) shift(passing.segments, "kv_segment_ids");
    // The receiver computes the positions from the block's number, so the
    // ledger records no bytes for them.
    const PerDevice before = passing.positions;
    const std::vector<int64_t> block = passing.block;
    for (const auto& group : machine_.mesh().Groups(axes_)) {
      for (int64_t i = 0; i < n_; ++i) {
        const int64_t from = (i - 1 + n_) % n_;
        passing.positions[AsIndex(group[AsIndex(i)])] =
            before[AsIndex(group[AsIndex(from)])];
        passing.block[AsIndex(group[AsIndex(i)])] =
            block[AsIndex(group[AsIndex(from)])];
      }
    }
  }

  Machine& machine_;
  const Staged& staged_;
  const OperationSettings& settings_;
  AxisGroup axes_;
  int64_t n_;
  Slices slices_;
};

std::optional<LayoutError> CheckLengths(const SimMesh& mesh,
                                        const Staged& staged) {
  LayoutError why;
  const AxisGroup& q = staged.query.spec[1];
  for (const ShardedTensor* other : {&staged.key, &staged.value}) {
    if (SameAxes(mesh, q, other->spec[1])) continue;
    const AxisGroup a = DropTrivial(mesh, q);
    const AxisGroup b = DropTrivial(mesh, other->spec[1]);
    why.axis = a.empty() ? b.front() : a.front();
    why.message = "the query's length is split over " + AxesText(a) +
                  " and the key's over " + AxesText(b);
    why.help = "a ring needs the same axes for both lengths";
    if (staged.T() == 1) {
      why.help = "decode with flash_decoding, or set decode_key_sequence: []";
    }
    return why;
  }
  return std::nullopt;
}

std::optional<LayoutError> CheckRingDim(const SimMesh& mesh,
                                        const Staged& staged) {
  LayoutError why;
  for (const ShardedTensor* t : {&staged.query, &staged.key, &staged.value}) {
    const AxisGroup dim = DropTrivial(mesh, t->spec[3]);
    if (dim.empty()) continue;
    why.axis = dim.front();
    why.message = "the head dimension is split over " + AxesText(dim);
    why.help = "a ring adds no partial logits: leave the dimension unsharded";
    return why;
  }
  return std::nullopt;
}

std::optional<LayoutError> CheckRing(const SimMesh& mesh,
                                     const Staged& staged) {
  std::vector<LayoutError> bad;
  for (auto& check : {CheckLengths(mesh, staged), CheckRingDim(mesh, staged),
                      CheckLocalShapes(mesh, staged)}) {
    if (check) bad.push_back(*check);
  }
  return Joined(std::move(bad));
}

// If the settings name the axis of the ring: returns an error if the lengths
// are sharded over any other axis.
std::optional<LayoutError> CheckAxis(const SimMesh& mesh, const Staged& staged,
                                     const std::string& axis) {
  const AxisGroup axes = DropTrivial(mesh, staged.query.spec[1]);
  if (axis.empty() || axes.empty() || axes == AxisGroup{axis}) {
    return std::nullopt;
  }
  LayoutError why;
  why.axis = *std::find_if(axes.begin(), axes.end(),
                           [&](const std::string& a) { return a != axis; });
  why.message = "the length is split over " + AxesText(axes) +
                ", and the ring's sequence axis is `" + axis + "`";
  why.help = "split it over `" + axis +
             "` alone, or name the axis that splits it as sequence_axis";
  return why;
}

}  // namespace

ShardedTensor PassKeysRound(Machine& machine, const Staged& staged,
                            const OperationSettings& settings) {
  return Ring(machine, staged, settings).Run();
}

namespace {

OperationOutcome RunRing(Machine& machine, const AttentionProblem& problem,
                         const AttentionSpecs& specs,
                         const OperationSettings& settings) {
  if (settings.order != SequenceOrder::kContiguous) {
    return RunPermutedRing(machine, problem, specs, settings);
  }
  OperationOutcome outcome;
  const SimMesh& mesh = machine.mesh();
  LayoutError why;
  auto staged = Stage(machine, problem, specs, settings, kRing.Staging(), why,
                      outcome.remarks);
  if (!staged) {
    outcome.unsupported = std::move(why);
    return outcome;
  }
  if (auto bad = KeysOnQueryHeads(machine, *staged)) {
    outcome.unsupported = std::move(*bad);
    return outcome;
  }
  if (auto bad = CheckRing(mesh, *staged)) {
    outcome.unsupported = std::move(*bad);
    return outcome;
  }
  if (auto bad = CheckAxis(mesh, *staged, settings.sequence_axis)) {
    outcome.unsupported = std::move(*bad);
    return outcome;
  }
  if (problem.IsHollow()) return outcome;
  MoveExtras(machine, *staged, true);
  outcome.exact = mesh.Parts(staged->query.spec[1]) == 1;
  outcome.output =
      FinishOutput(machine, *staged, PassKeysRound(machine, *staged, settings));
  return outcome;
}

void RingBytes(Traffic& traffic) {
  traffic.KeysOnHeads();
  traffic.MoveExtras(true);
  const Spec q = traffic.query.spec;
  traffic.PassKeysRound(traffic.Parts(q[1]));
  traffic.Over(q[1]);
  traffic.FinishAs({q[0], q[1], q[2], {}});
}

}  // namespace

constinit const Operation kRing = {
    .name = "ring",
    .summary = "key blocks pass round the sequence axes",
    .supports = {.batch = "local",
                 .query_length = "local, as the keys'",
                 .key_length = "ppermute k, v",
                 .heads = "local, key heads as the query's",
                 .dim = "-"},
    .heads_on_keys = true,
    .equal_length_axes = true,
    .settings = {Setting::kDropout, Setting::kBlocksizeQ, Setting::kBlocksizeK,
                 Setting::kBlocksizeB, Setting::kSequenceAxis,
                 Setting::kScanRing, Setting::kOrder},
    .bytes = RingBytes,
    .run = RunRing,
};

// Permutes the tokens of a sequence for ring attention, so that every device
// has early and late tokens. Otherwise, under a causal mask, a device would be
// idle in each step in which all of its keys come after its queries. Positions
// are permuted with the tokens, and the output is permuted back. For example:
//
//   8 tokens on 2 devices  zig-zag  0 1 6 7 | 2 3 4 5
//                          striped  0 2 4 6 | 1 3 5 7

namespace {

size_t LengthDim(Layout layout) {
  return layout == Layout::kBhtd ? 2 : layout == Layout::kThd ? 0 : 1;
}

void PermuteExtra(std::optional<Buffer>& extra, size_t dim,
                  const std::vector<int64_t>& order) {
  if (extra && extra->shape[dim] > 1) {
    extra = PermuteDim(*extra, dim, order);
  }
}

}  // namespace

std::vector<int64_t> RingOrder(SequenceOrder order, int64_t length, int64_t n) {
  std::vector<int64_t> out(AsIndex(length));
  std::iota(out.begin(), out.end(), 0);
  if (order == SequenceOrder::kStriped) {
    for (int64_t i = 0; i < length; ++i) {
      const int64_t rank = i / (length / n);
      out[AsIndex(i)] = i % (length / n) * n + rank;
    }
  } else if (order == SequenceOrder::kZigZag) {
    const int64_t chunk = length / (2 * n);
    for (int64_t i = 0; i < length; ++i) {
      // The zig-zag order has 2n slots of one chunk each. Rank r holds slots 2r
      // and 2r + 1.
      const int64_t slot = i / chunk;
      const int64_t rank = slot / 2;
      const int64_t from = slot % 2 == 0 ? rank : 2 * n - 1 - rank;
      out[AsIndex(i)] = from * chunk + i % chunk;
    }
  }
  return out;
}

Buffer PermuteDim(const Buffer& from, size_t dim,
                  const std::vector<int64_t>& order) {
  if (from.IsHollow()) return from;
  Buffer out = Buffer::Zeros(from.shape, from.dtype);
  Shape extent = from.shape;
  extent[dim] = 1;
  Shape source(extent.size(), 0), target(extent.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) {
    source[dim] = order[i];
    target[dim] = static_cast<int64_t>(i);
    CopyBlock(from, source, out, target, extent);
  }
  return out;
}

AttentionProblem PermuteProblem(const AttentionProblem& problem,
                                const std::vector<int64_t>& query_order,
                                const std::vector<int64_t>& key_order) {
  AttentionProblem out = problem;
  const size_t dim = LengthDim(problem.layout);
  out.query = PermuteDim(problem.query, dim, query_order);
  out.key = PermuteDim(problem.key, dim, key_order);
  out.value = PermuteDim(problem.value, dim, key_order);
  PermuteExtra(out.bias, 2, query_order);
  PermuteExtra(out.mask, 2, query_order);
  PermuteExtra(out.additive_mask, 2, query_order);
  PermuteExtra(out.bias, 3, key_order);
  PermuteExtra(out.mask, 3, key_order);
  PermuteExtra(out.additive_mask, 3, key_order);
  PermuteExtra(out.query_segments, 1, query_order);
  PermuteExtra(out.key_segments, 1, key_order);
  // A permuted token's position no longer equals its index, so positions become
  // an explicit input.
  const int64_t batch =
      problem.layout == Layout::kThd ? 1 : problem.query.shape[0];
  out.query_positions = PermuteDim(
      QueryPositions(problem, batch, static_cast<int64_t>(query_order.size()),
                     static_cast<int64_t>(key_order.size())),
      1, query_order);
  out.key_positions = PermuteDim(
      KeyPositions(problem, batch, static_cast<int64_t>(key_order.size())), 1,
      key_order);
  return out;
}

OperationOutcome RunPermutedRing(Machine& machine,
                                 const AttentionProblem& problem,
                                 const AttentionSpecs& specs,
                                 const OperationSettings& settings) {
  const SimMesh& mesh = machine.mesh();
  const size_t dim = LengthDim(problem.layout);
  const Spec spec = PadSpec(specs.query, problem.query.shape.size());
  const int64_t n = mesh.Parts(spec[dim]);
  const int64_t cut = settings.order == SequenceOrder::kZigZag ? 2 * n : n;
  const int64_t rows = problem.query.shape[dim];
  const int64_t keys = problem.key.shape[dim];
  if (rows % cut != 0 || keys % cut != 0) {
    OperationOutcome outcome;
    LayoutError why;
    const AxisGroup axes = DropTrivial(mesh, spec[dim]);
    why.axis = axes.empty() ? "" : axes.front();
    why.message = "lengths " + std::to_string(rows) + " and " +
                  std::to_string(keys) + " do not split into " +
                  std::to_string(cut) + " chunks";
    why.help = "pad the sequence, or use the contiguous order";
    outcome.unsupported = std::move(why);
    return outcome;
  }
  OperationSettings plain = settings;
  plain.order = SequenceOrder::kContiguous;
  if (problem.IsHollow()) return kRing.run(machine, problem, specs, plain);
  const auto query_order = RingOrder(settings.order, rows, n);
  const auto key_order = RingOrder(settings.order, keys, n);
  const AttentionProblem permuted =
      PermuteProblem(problem, query_order, key_order);
  OperationOutcome outcome = kRing.run(machine, permuted, specs, plain);
  if (outcome.unsupported) return outcome;
  LayoutError why;
  const auto whole = Gather(mesh, outcome.output, why);
  if (!whole) return outcome;  // replicas differ: the caller reports it
  std::vector<int64_t> inverse(query_order.size());
  for (size_t i = 0; i < query_order.size(); ++i) {
    inverse[AsIndex(query_order[i])] = static_cast<int64_t>(i);
  }
  outcome.output =
      Scatter(mesh, PermuteDim(*whole, dim, inverse), outcome.output.spec);
  return outcome;
}

}  // namespace shardc::exec
