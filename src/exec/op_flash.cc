// Blocked online softmax on local slices (Dao et al. 2022), dense or over a
// table of blocks.
//
// The wrappers of both keep the axes of batch and heads and gather the rest,
// so that sequence axes save no memory; blocks count from global position 0,
// which keeps the bits of the unsharded run. blocksparse splits key and value
// over the query's head axes (the MHA spec); its table is in global block
// coordinates and follows the query's batch and heads.
//
// Products by bits: weights and values are cut within a block (narrow.h).
//
// Cost: all_gather of (n-1)(b_k + b_v), and b_q, where lengths are split.
#include <algorithm>
#include <utility>

#include "exec/narrow.h"
#include "exec/operation.h"
#include "exec/staging.h"

namespace shardc::exec {
namespace {

size_t At(int64_t i) { return static_cast<size_t>(i); }

ShardedTensor OutputLike(const Staged& staged, int devices) {
  ShardedTensor out;
  out.shape = staged.query.shape;
  out.shape[3] = staged.value.shape[3];
  out.dtype = staged.dtype;
  out.spec = {
      staged.query.spec[0], staged.query.spec[1], staged.query.spec[2], {}};
  out.local.resize(At(devices));
  return out;
}

}  // namespace

OperationOutcome RunFlashAttention(Machine& machine,
                                   const AttentionProblem& problem,
                                   const AttentionSpecs& specs,
                                   const OperationSettings& settings) {
  OperationOutcome outcome;
  StageOptions options;
  options.products_by_bits = true;
  auto staged = StageLocal(machine, problem, specs, settings, options, outcome);
  if (!staged) return outcome;
  Slices slices;
  MakeSlices(machine, *staged, GroupMap::kNaive, slices);
  ShardedTensor out = OutputLike(*staged, machine.devices());
  int64_t block = settings.blocksize_k;
  if (machine.Planted(Fault::kTileByLocalSize)) {
    block = std::max<int64_t>(1, block / machine.devices());
  }
  const int bits = settings.dot_bits;
  PerDevice scores;
  if (bits > 0) scores = ScoresByBits(machine, slices, {}, bits);
  machine.Local([&](int device) {
    const LocalSlice& slice = slices.at[At(device)];
    SoftmaxState state = EmptyState(slice);
    if (bits > 0) {
      FinishScores(slice, scores[At(device)]);
      AttendNarrow(slice, scores[At(device)], {bits, Dtype::kF32, block},
                   nullptr, state);
    } else {
      AttendKeys(slice, 0, slice.keys(), block, state);
    }
    out.local[At(device)] =
        FinishRows(machine, *staged, device, slice, state, out.dtype);
  });
  outcome.output = FinishOutput(machine, *staged, std::move(out));
  return outcome;
}

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

OperationOutcome RunBlockSparse(Machine& machine,
                                const AttentionProblem& problem,
                                const AttentionSpecs& specs,
                                const OperationSettings& settings) {
  OperationOutcome outcome;
  auto staged =
      StageLocal(machine, problem, specs, settings, {}, outcome, true);
  if (!staged) return outcome;
  const SimMesh& mesh = machine.mesh();
  Buffer table = BlockTable(problem, settings, staged->T(), staged->S());
  const Spec& q = staged->query.spec;
  Spec table_spec(4);
  if (table.shape[0] > 1) table_spec[0] = q[0];
  if (table.shape[1] > 1) table_spec[1] = q[2];
  const ShardedTensor tables = Scatter(mesh, table, table_spec);
  Slices slices;
  MakeSlices(machine, *staged, GroupMap::kNaive, slices);
  ShardedTensor out = OutputLike(*staged, machine.devices());
  const int64_t bq = settings.blocksize_q, bk = settings.blocksize_k;
  machine.Local([&](int device) {
    const LocalSlice& slice = slices.at[At(device)];
    const Buffer& blocks =
        tables
            .local[machine.Planted(Fault::kBlockTableOfRankZero) ? 0
                                                                 : At(device)];
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
            if (machine.Planted(Fault::kDiagonalBlockSkipped) && t / bq == j) {
              continue;
            }
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

}  // namespace shardc::exec
