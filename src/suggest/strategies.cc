// Chooses a tensor-parallel strategy for each attention or feed-forward block.
// All projections of a block get the same strategy, because one projection's
// output is the next one's input. The preferred strategy shards the inner
// dimension: heads or a feed-forward width. Another strategy is chosen if tp
// does not divide the inner dimension, or if the other strategy needs much less
// memory. For example:
//
//   q, o of 71 heads, tp 8        ->  tp shards the model's width
//   8 experts of width 100, tp 8  ->  each device holds one complete expert
//
// Keys and values may have another strategy than the queries, because there may
// be too few KV heads to shard. They are sharded over the inner dimension only
// if the queries are.
#include "suggest/strategies.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "source/index.h"

namespace shardc::suggest {
namespace {

// How much memory another strategy must save to justify its communication. The
// strategy kWidthSlices shards the model's width and gathers each weight before
// use. It must save more than kWorthSlices thousandths of the bytes that a
// device holds if the complete model is fully sharded. Any other strategy must
// reduce the bytes of the block by a factor of more than kWorthOther.
constexpr double kWorthSlices = 30;
constexpr double kWorthOther = 1.05;

struct Block {
  std::vector<size_t> groups;
  // Whether tp can shard the inner dimension of every group of the block.
  bool shards_inner = true;
  TensorParallelStrategy strategy = TensorParallelStrategy::kInner;
};

// Returns the key of a block: its path. For feed-forward weights, the key
// includes their width, so that a shared expert and routed experts of another
// width are two blocks.
std::string BlockKey(const InferredDims& inferred) {
  const std::string& path = inferred.by_name.block_path;
  if (!IsMlp(inferred.role)) return path;
  const bool fused = inferred.role == Role::kFusedGateUp;
  return path + "\n" +
         std::to_string(fused ? inferred.inner_size / 2 : inferred.inner_size);
}

class BlockStrategies {
 public:
  BlockStrategies(const Tree& tree, const ModelDims& dims, const MeshAxes& mesh,
                  const Preferences& preferences, const SpecChooser& specs)
      : tree_(tree),
        dims_(dims.groups),
        mesh_(mesh),
        preferences_(preferences),
        specs_(specs) {
    for (size_t k = 0; k < dims_.size(); ++k) {
      const InferredDims& inferred = dims_[k];
      const bool projection =
          IsAttention(inferred.role) || IsMlp(inferred.role);
      if (!inferred.IsMatrix() || !projection) continue;
      auto& blocks = IsKeyOrValue(inferred.role) ? keys_ : blocks_;
      Block& block = blocks[BlockKey(inferred)];
      block.groups.push_back(k);
      block.shards_inner =
          block.shards_inner && ShardsInner(inferred, mesh_.tp);
    }
    for (auto& [key, block] : blocks_) block.strategy = StrategyOf(block);
    for (auto& [key, block] : keys_) {
      const auto queries = blocks_.find(key);
      const bool inner =
          block.shards_inner &&
          (queries == blocks_.end() ||
           queries->second.strategy == TensorParallelStrategy::kInner);
      block.strategy = inner ? TensorParallelStrategy::kInner
                             : TensorParallelStrategy::kWidthSlices;
    }
  }

  TensorParallelStrategy Of(size_t k) const {
    const auto& blocks = IsKeyOrValue(dims_[k].role) ? keys_ : blocks_;
    const auto at = blocks.find(BlockKey(dims_[k]));
    return at == blocks.end() ? TensorParallelStrategy::kInner
                              : at->second.strategy;
  }

 private:
  TensorParallelStrategy StrategyOf(const Block& block) const {
    std::vector<TensorParallelStrategy> strategies;
    if (block.shards_inner) {
      strategies.push_back(TensorParallelStrategy::kInner);
    }
    const bool experts =
        std::all_of(block.groups.begin(), block.groups.end(),
                    [&](size_t k) { return DividesExperts(dims_[k]); });
    if (experts) strategies.push_back(TensorParallelStrategy::kExpertsOverTp);
    strategies.push_back(TensorParallelStrategy::kWidthSlices);
    TensorParallelStrategy best = strategies.front();
    double least = BytesWith(block, best);
    for (size_t i = 1; i < strategies.size() && mesh_.tp > 1; ++i) {
      const double bytes = BytesWith(block, strategies[i]);
      const double saved =
          specs_.Thousandths(static_cast<int64_t>(least - bytes)) *
          static_cast<double>(mesh_.DevicesOfReplica());
      const bool to_slices =
          strategies[i] == TensorParallelStrategy::kWidthSlices &&
          best != TensorParallelStrategy::kWidthSlices;
      const bool worth =
          to_slices ? saved > kWorthSlices : bytes * kWorthOther < least;
      if (!worth) continue;
      best = strategies[i];
      least = bytes;
    }
    return best;
  }

  // Returns whether experts can be divided over tp. If experts are a dimension,
  // the size of ep times the size of tp must divide its size. If each expert is
  // a tensor, tp must divide their number, and the experts must not be
  // distributed over ep or fsdp.
  bool DividesExperts(const InferredDims& inferred) const {
    if (inferred.experts >= 0) {
      return inferred.Experts() % (mesh_.ep * mesh_.tp) == 0;
    }
    return inferred.expert_count > 1 && mesh_.ep == 1 &&
           !preferences_.place_experts && inferred.expert_count % mesh_.tp == 0;
  }

  // Returns the bytes of a block that a device holds under a strategy.
  double BytesWith(const Block& block, TensorParallelStrategy strategy) const {
    double out = 0;
    for (const size_t k : block.groups) {
      out += static_cast<double>(tree_.groups[k].total_bytes()) /
             static_cast<double>(specs_.Choose(k, strategy).Parts());
    }
    return out;
  }

  const Tree& tree_;
  const std::vector<InferredDims>& dims_;
  const MeshAxes& mesh_;
  const Preferences& preferences_;
  const SpecChooser& specs_;
  // Keyed by BlockKey(). `keys_` has the projections to keys and values, and
  // `blocks_` has all other projections.
  std::map<std::string, Block> blocks_, keys_;
};

}  // namespace

std::vector<TensorParallelStrategy> ChooseStrategies(
    const Tree& tree, const ModelDims& dims, const MeshAxes& mesh,
    const Preferences& preferences, const SpecChooser& specs) {
  const BlockStrategies blocks(tree, dims, mesh, preferences, specs);
  std::vector<TensorParallelStrategy> out;
  for (size_t k = 0; k < dims.groups.size(); ++k) out.push_back(blocks.Of(k));
  return out;
}

}  // namespace shardc::suggest
