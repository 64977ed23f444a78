// Permutes the tokens of a sequence for ring attention, so that every device
// has early and late tokens. Otherwise, under a causal mask, a device would be
// idle in each step in which all of its keys come after its queries. Positions
// are permuted with the tokens, and the output is permuted back. For example:
//
//   8 tokens on 2 devices  zig-zag  0 1 6 7 | 2 3 4 5
//                          striped  0 2 4 6 | 1 3 5 7
#include "exec/operations/ring_order.h"

#include <numeric>
#include <utility>

#include "exec/attention/staging.h"
#include "exec/operations/all.h"
#include "source/index.h"

namespace shardc::exec {
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
