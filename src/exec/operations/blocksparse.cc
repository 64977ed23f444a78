// The operation blocksparse: attention in blocks with an online softmax, which
// skips the pairs of a query block and a key block that a table marks as
// hidden.
//
// The table is an input or is computed. A computed table hides a pair if the
// key block has no keys. It also hides a pair if the causal mask hides all keys
// of the key block from all queries of the query block. A window hides pairs in
// the same way, except with the block mask `causal`, for which the table
// ignores the window. With the block mask `global`, the first key blocks are
// never hidden. Keys of a visible pair are masked one by one. For example, a
// causal table for 4 queries and 4 keys in blocks of 2 is [[1, 0], [1, 1]]:
// queries 0 and 1 never see keys 2 and 3.
//
// The operation runs as a local kernel. The wrapper around the kernel keeps the
// axes of batch and heads and gathers all other dimensions. Key and value are
// sharded over the query's head axes. The table has global block coordinates
// and is sharded as the query's batch and heads, so the bits equal the
// unsharded run's.
//
// Cost: if a length is sharded over n devices, query, key and value are
// all-gathered. A device that holds b bytes of a tensor sends (n-1) b bytes.
#include <algorithm>
#include <limits>
#include <utility>

#include "exec/attention/staging.h"
#include "exec/operations/operation.h"
#include "source/size.h"

namespace shardc::exec {

extern const Operation kBlockSparse;

namespace {

// The smallest and the largest position of the tokens of a block. PositionsOf
// ignores positions below its argument `least`. If it ignores all tokens of the
// block, `last` is below `first`.
struct Between {
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t last = std::numeric_limits<int64_t>::min();
};
Between PositionsOf(const Buffer& positions, int64_t row, int64_t block,
                    int64_t size, int64_t least) {
  Between out;
  const int64_t length = positions.shape[1];
  for (int64_t i = block * size; i < std::min((block + 1) * size, length);
       ++i) {
    const int64_t at = positions.integers[AsIndex(row * length + i)];
    if (at < least) continue;
    out.first = std::min(out.first, at);
    out.last = std::max(out.last, at);
  }
  return out;
}

// Returns true if a query of one block may attend to a key of the other block.
// Considers only the smallest and largest positions, the causal mask and, if
// `windowed`, the window. Returns false if there are no keys.
bool Meet(const Between& queries, const Between& keys, bool windowed,
          const AttentionOptions& options) {
  if (keys.last < keys.first) return false;
  if (options.causal && keys.first > queries.last) return false;
  if (!windowed || !options.window) return true;
  const Window& window = *options.window;
  return !(window.left && keys.last < queries.first - *window.left) &&
         !(window.right && keys.first > queries.last + *window.right);
}

// Returns a table [B|1, H|1, blocks of T, blocks of S]: nonzero if the block of
// keys is visible to the block of queries.
Buffer BlockTable(const AttentionProblem& problem,
                  const OperationSettings& settings, const Staged& staged) {
  if (settings.block_mask == BlockMask::kCustom && problem.blocks) {
    return *problem.blocks;
  }
  const int64_t bq = settings.blocksize_q, bk = settings.blocksize_k;
  const int64_t nq = (staged.T() + bq - 1) / bq;
  const int64_t nk = (staged.S() + bk - 1) / bk;
  const bool alike = !problem.key_lengths && !problem.query_positions &&
                     !problem.key_positions;
  Buffer out = Buffer::Zeros({alike ? 1 : staged.query.shape[0], 1, nq, nk},
                             Dtype::kBool);
  for (int64_t b = 0; b < out.shape[0]; ++b) {
    for (int64_t i = 0; i < nq; ++i) {
      const Between queries = PositionsOf(staged.query_positions, b, i, bq,
                                          std::numeric_limits<int64_t>::min());
      for (int64_t j = 0; j < nk; ++j) {
        const bool global = settings.block_mask == BlockMask::kGlobal &&
                            j < settings.global_blocks;
        const bool windowed = settings.block_mask != BlockMask::kCausal;
        out.integers[AsIndex((b * nq + i) * nk + j)] =
            global || Meet(queries,
                           // The smallest position that is counted is 0,
                           // because slots with negative positions are empty.
                           PositionsOf(staged.key_positions, b, j, bk, 0),
                           windowed, problem.options);
      }
    }
  }
  return out;
}

OperationOutcome RunBlocksparse(Machine& machine,
                                const AttentionProblem& problem,
                                const AttentionSpecs& specs,
                                const OperationSettings& settings) {
  OperationOutcome outcome;
  auto staged = StageLocal(machine, problem, specs, settings,
                           kBlockSparse.Staging(), outcome);
  if (!staged) return outcome;
  const SimMesh& mesh = machine.mesh();
  Buffer table = BlockTable(problem, settings, *staged);
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
    const LocalSlice& slice = slices.at[AsIndex(device)];
    const Buffer& blocks = tables.local[AsIndex(device)];
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
            if (blocks.integers[AsIndex(entry)] == 0) continue;
            AttendTile(
                slice,
                {b, h, t, t_end, j * bk, std::min((j + 1) * bk, slice.keys())},
                bk, state);
          }
        }
      }
    }
    out.local[AsIndex(device)] =
        FinishRows(machine, *staged, device, slice, state, out.dtype);
  });
  outcome.output = FinishOutput(machine, *staged, std::move(out));
  return outcome;
}

void BlocksparseBytes(Traffic& traffic) {
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
    .bytes = BlocksparseBytes,
    .run = RunBlocksparse,
};

}  // namespace shardc::exec
