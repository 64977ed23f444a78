// Blocked online softmax over a table of blocks, those that it hides left out.
//
// The wrapper keeps the axes of batch and heads and gathers the rest; key and
// value are split over the query's head axes (the MHA spec). The table is in
// global block coordinates and follows the query's batch and heads, so that
// bits are the unsharded run's.
//
// Example: 4 queries and 4 keys in blocks of 2 under a causal table
// [[1, 0], [1, 1]]: queries 0 and 1 never meet keys 2 and 3.
//
// Cost: all_gather of (n-1)(b_k + b_v), and b_q, where lengths are split.
#include <algorithm>
#include <utility>

#include "exec/attention/staging.h"
#include "exec/operations/operation.h"

namespace shardc::exec {
namespace {

size_t At(int64_t i) { return static_cast<size_t>(i); }

// Which blocks are visible: [B|1, H|1, blocks of T, blocks of S].
Buffer BlockTable(const AttentionProblem& problem,
                  const OperationSettings& settings, int64_t rows,
                  int64_t keys) {
  if (settings.block_mask == BlockMask::kCustom && problem.blocks) {
    return *problem.blocks;
  }
  const int64_t bq = settings.blocksize_q, bk = settings.blocksize_k;
  const int64_t nq = (rows + bq - 1) / bq, nk = (keys + bk - 1) / bk;
  Buffer out = Buffer::Zeros({1, 1, nq, nk}, Dtype::kBool);
  for (int64_t i = 0; i < nq; ++i) {
    for (int64_t j = 0; j < nk; ++j) {
      // Positions of the block's corners; queries end where keys do.
      const int64_t q_first = keys - rows + i * bq;
      const int64_t q_last = keys - rows + std::min((i + 1) * bq, rows) - 1;
      const int64_t k_first = j * bk;
      const int64_t k_last = std::min((j + 1) * bk, keys) - 1;
      bool visible = true;
      if (problem.options.causal) visible = k_first <= q_last;
      if (settings.block_mask != BlockMask::kCausal && problem.options.window) {
        const Window& window = *problem.options.window;
        if (window.left && k_last < q_first - *window.left) visible = false;
        if (window.right && k_first > q_last + *window.right) visible = false;
      }
      if (settings.block_mask == BlockMask::kGlobal &&
          j < settings.global_blocks) {
        visible = true;
      }
      out.whole[At(i * nk + j)] = visible;
    }
  }
  return out;
}

OperationOutcome Run(Machine& machine, const AttentionProblem& problem,
                     const AttentionSpecs& specs,
                     const OperationSettings& settings) {
  OperationOutcome outcome;
  auto staged = StageLocal(machine, problem, specs, settings,
                           kBlockSparse.Staging(), outcome);
  if (!staged) return outcome;
  const SimMesh& mesh = machine.mesh();
  Buffer table = BlockTable(problem, settings, staged->T(), staged->S());
  const Spec& q = staged->query.spec;
  Spec table_spec(4);
  if (table.shape[0] > 1) table_spec[0] = q[0];
  if (table.shape[1] > 1) table_spec[1] = q[2];
  ShardedTensor tables = Scatter(mesh, table, table_spec);
  const SliceSeam& seam = machine.Seam<SliceSeam>();
  if (seam.blocks) seam.blocks(machine, tables);
  Slices slices;
  MakeSlices(machine, *staged, GroupMap::kNaive, slices);
  ShardedTensor out = EmptyOutput(machine, *staged);
  const int64_t bq = settings.blocksize_q, bk = settings.blocksize_k;
  machine.Local([&](int device) {
    const LocalSlice& slice = slices.at[At(device)];
    const Buffer& blocks = tables.local[At(device)];
    const int64_t nk = blocks.shape[3];
    SoftmaxState state = EmptyState(slice);
    for (int64_t b = 0; b < slice.batch(); ++b) {
      for (int64_t h = 0; h < slice.heads(); ++h) {
        for (int64_t t = 0; t < slice.rows(); t += bq) {
          const int64_t t_end = std::min(t + bq, slice.rows());
          for (int64_t j = 0; j < nk; ++j) {
            const int64_t entry = OffsetOf(
                blocks.shape, {blocks.shape[0] == 1 ? 0 : b,
                               blocks.shape[1] == 1 ? 0 : h, t / bq, j});
            if (blocks.whole[At(entry)] == 0) continue;
            AttendTile(
                slice,
                {b, h, t, t_end, j * bk, std::min((j + 1) * bk, slice.keys())},
                bk, state);
          }
        }
      }
    }
    out.local[At(device)] =
        FinishRows(machine, *staged, device, slice, state, out.dtype);
  });
  outcome.output = FinishOutput(machine, *staged, std::move(out));
  return outcome;
}

void Bytes(Traffic& traffic) {
  traffic.GatherLengths();
  traffic.KeysOnHeads();
  traffic.MoveExtras();
  traffic.FinishAs(traffic.query.spec);
}

}  // namespace

constinit const Operation kBlockSparse = {
    .name = "blocksparse",
    .summary = "blocked online softmax over a block table",
    .supports = {.batch = "local",
                 .query_length = "all_gather q",
                 .key_length = "all_gather k, v",
                 .heads = "local, key heads as the query's",
                 .dim = "all_gather"},
    .heads_on_keys = true,
    .settings = {Setting::kDropout, Setting::kBlocksizeQ, Setting::kBlocksizeK,
                 Setting::kBlocksizeB, Setting::kBlockMask,
                 Setting::kGlobalBlocks},
    .inputs = kDenseInputs | InputSet{Input::kBlockTable},
    .block_table = BlockTable,
    .bytes = Bytes,
    .run = Run,
};

}  // namespace shardc::exec
