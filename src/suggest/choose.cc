// Chooses the spec of each parameter group. One side of a weight matrix is the
// model's width (its hidden size). The other side is an inner dimension, such
// as heads or a feed-forward width. Tensor parallelism shards the inner
// dimension, and data axes shard the width.
//
// Four passes choose, in this order: a strategy for the weights of each
// attention or MLP block, a spec for each weight, the specs of vectors (biases,
// scales, one number per head), and the `axes:` section of the rules file. For
// example:
//
//   q_proj [4096, 4096], fsdp 16, tp 4  ->  [HEAD, [FSDP, SP]]: HEAD shards
//                                           dimension 0, FSDP and SP shard
//                                           dimension 1
//   q_proj.bias [4096]                  ->  [HEAD]
//   71 heads, tp 8                      ->  axes: {head: null}, because tp does
//                                           not divide the heads
#include "suggest/choose.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan/mesh_purposes.h"
#include "roles/headwise.h"
#include "roles/role.h"
#include "source/size.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

AxisPurpose PurposeOf(std::string_view logical_axis) {
  if (logical_axis == "FSDP" || logical_axis == "SP" || logical_axis == "EP") {
    return AxisPurpose::kData;
  }
  return logical_axis == "EXPERT" ? AxisPurpose::kExpert : AxisPurpose::kTensor;
}

int64_t PartsOf(const std::vector<AxisAssignment>& assigned) {
  int64_t parts = 1;
  for (const AxisAssignment& one : assigned) parts *= one.size;
  return parts;
}

int64_t PartsOf(const AxisSpec& spec) {
  int64_t parts = 1;
  for (const auto& dim : spec) parts *= PartsOf(dim);
  return parts;
}

bool IsReplicated(const AxisSpec& spec) {
  return std::all_of(spec.begin(), spec.end(),
                     [](const auto& dim) { return dim.empty(); });
}

// Reads the sizes of the axes by the purposes that their names state
// (plan/mesh_purposes.h):
//
//   data:8,model:4  ->  fsdp 8, tp 4
//
// The suggested file then has axis rules that map fsdp to `data` and tp to
// `model`.

MeshAxes AxesOf(const Mesh& mesh) {
  MeshAxes out;
  MeshPurposes purposes = PurposesOf(mesh);
  const std::pair<AxisRule, int64_t*> sizes[] = {
      {AxisRule::kDataParallel, &out.dp},
      {AxisRule::kFullyShardedDataParallel, &out.fsdp},
      {AxisRule::kTensorParallel, &out.tp},
      {AxisRule::kSequenceParallel, &out.sp},
      {AxisRule::kExpertParallel, &out.ep}};
  for (const auto& [rule, size] : sizes) {
    const std::string axis = purposes.renamed.Value(rule).axes.front();
    if (mesh.Find(axis)) *size = mesh.SizeOf(axis);
  }
  out.renamed = std::move(purposes.renamed);
  out.unused = std::move(purposes.unknown);
  out.stages = std::move(purposes.stages);
  return out;
}

namespace {

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
  std::unordered_map<std::string, Block> blocks_, keys_;
};

// Returns a strategy for each group of the tree, in the order of `tree.groups`.
// Strategies are chosen for the projections of attention and of feed-forward
// blocks. Another group gets the strategy of the attention block that contains
// it; kInner if it is in no attention block.
std::vector<TensorParallelStrategy> ChooseStrategies(
    const Tree& tree, const ModelDims& dims, const MeshAxes& mesh,
    const Preferences& preferences, const SpecChooser& specs) {
  const BlockStrategies blocks(tree, dims, mesh, preferences, specs);
  std::vector<TensorParallelStrategy> out;
  for (size_t k = 0; k < dims.groups.size(); ++k) out.push_back(blocks.Of(k));
  return out;
}

// Chooses the specs of biases, scales and head vectors from the specs of
// weights. A scale is sharded as its weight is, dimension by dimension. A bias
// is added to the output of its weight, so it is sharded only over the axes of
// the output and of the experts. Two kinds of vectors are sharded as the heads
// of their block are: a norm over all columns of the query or key, and
// attention sinks (one number per head):
//
//   q_proj [HEAD, FSDP], 64 heads of 64  ->  q_proj.bias [HEAD], sinks [HEAD]
//   q_norm [4096] over all columns       ->  [HEAD]
//   q_norm [64] over one head's columns  ->  replicated, every head reads it

// Shards each dimension of the scale over the axes of the same dimension of the
// weight. A dimension stays unsharded if it has one element, or if the number
// of shards does not divide it. If scale and weight have different ranks, only
// the axes of the experts' dimension are copied.
void ShardScale(const InferredDims& scale, const InferredDims& weight,
                const Choice& choice, AxisSpec& spec) {
  const size_t rank = scale.dims.size();
  const bool same_dims =
      rank == weight.dims.size() ||
      (weight.by_name.packed_blocks && rank + 1 == weight.dims.size());
  for (size_t i = 0; i < rank; ++i) {
    const bool experts = static_cast<int>(i) == weight.experts;
    if (!same_dims && !experts) continue;
    if (scale.dims[i].size > 1 &&
        scale.dims[i].size % PartsOf(choice.spec[i]) == 0) {
      spec[i] = choice.spec[i];
    }
  }
}

// Returns whether a dimension of `stored` numbers may hold `size` weights, with
// 2, 4, 8 or 16 weights in each number.
bool IsPacked(int64_t size, int64_t stored) {
  return size == 2 * stored || size == 4 * stored || size == 8 * stored ||
         size == 16 * stored;
}

void ShardBias(const InferredDims& bias, const InferredDims& weight,
               const Choice& choice, AxisSpec& spec) {
  for (size_t i = 0; i < bias.dims.size(); ++i) {
    const bool experts = static_cast<int>(i) == weight.experts &&
                         bias.dims.size() > 1 &&
                         bias.dims[i].size == weight.dims[i].size;
    if (experts) spec[i] = choice.spec[i];
  }
  if (!weight.column || !choice.inner_sharded) return;
  const size_t inner = AsIndex(weight.inner);
  // If the bias has one dimension for heads and one for their columns, the
  // heads are the first of the two.
  const std::vector<size_t> own = bias.OfOneLayer();
  for (size_t i = 0; i < std::min<size_t>(2, own.size()); ++i) {
    const size_t at = own[own.size() - 1 - i];
    const int64_t size = weight.dims[inner].size;
    // AWQ packs the outputs of a weight: [896, 112] holds 8 in each number.
    const bool packed = own.size() == 1 && weight.OfOneLayer().size() == 2 &&
                        IsPacked(bias.dims[at].size, size);
    if (bias.dims[at].size != size && !packed) continue;
    if (!spec[at].empty()) continue;
    spec[at] = {choice.spec[inner].front()};
    return;
  }
}

// Returns the dimensions of more than one element that count no layers.
std::vector<size_t> SidesOf(const InferredDims& inferred) {
  std::vector<size_t> out = inferred.OfOneLayer();
  std::erase_if(out, [&](size_t d) { return inferred.dims[d].size == 1; });
  return out;
}

// The groups of attention blocks, and the sides of matrices below a block. With
// it, the work of a group does not grow with the number of other blocks.
class BlockIndex {
 public:
  // The arguments must outlive the index.
  BlockIndex(const Tree& tree, const ModelDims& dims)
      : tree_(tree), dims_(dims) {
    for (uint32_t k = 0; k < dims.groups.size(); ++k) {
      const Role role = dims.groups[k].role;
      if (IsAttention(role) || role == Role::kQueryNorm)
        attention_.push_back(k);
    }
    std::ranges::stable_sort(attention_, {}, [&](uint32_t k) {
      return std::string_view(dims.groups[k].by_name.block_path);
    });
  }

  // Returns the projections of an attention block and the norms of its queries,
  // in the order of the tree.
  std::span<const uint32_t> Attention(std::string_view block) const {
    const auto path = [&](uint32_t k) {
      return std::string_view(dims_.groups[k].by_name.block_path);
    };
    const auto begin = std::ranges::lower_bound(attention_, block, {}, path);
    return {begin,
            std::ranges::upper_bound(begin, attention_.end(), block, {}, path)};
  }

  // Returns whether the name of a matrix begins with `block`, and its first or
  // second side, by `side`, has this size.
  bool HasSide(const std::string& block, size_t side, int64_t size) {
    const auto [at, added] = sides_.try_emplace(block);
    if (added) at->second = SidesBelow(block);
    return at->second.contains({side, size});
  }

 private:
  using Sides = std::set<std::pair<size_t, int64_t>>;

  Sides SidesBelow(std::string_view block) {
    const auto name = [&](uint32_t k) {
      return std::string_view(tree_.groups[k].name);
    };
    if (names_.empty()) {
      names_.resize(tree_.groups.size());
      std::iota(names_.begin(), names_.end(), 0);
      std::ranges::sort(names_, {}, name);
    }
    Sides out;
    for (auto at = std::ranges::lower_bound(names_, block, {}, name);
         at != names_.end() && name(*at).starts_with(block); ++at) {
      const InferredDims& one = dims_.groups[*at];
      const auto sides = SidesOf(one);
      if (one.role == Role::kScale || sides.size() != 2) continue;
      for (const size_t side : {0, 1}) {
        out.emplace(side, one.dims[sides[side]].size);
      }
    }
    return out;
  }

  const Tree& tree_;
  const ModelDims& dims_;
  std::vector<uint32_t> attention_;     // by the path of the block
  std::vector<uint32_t> names_;         // all groups by name; empty until used
  std::map<std::string, Sides> sides_;  // of the blocks that were needed
};

// Returns whether the queries of a block are normalised head by head: the query
// norm then does not have the length of all query heads together. The keys are
// then normalised head by head too. The length of the keys' norm cannot show
// this: with one KV head, that length is the width of the key projection in
// both cases.
// `block` lists the groups of the block.
bool QueryIsNormedByHead(const ModelDims& dims,
                         std::span<const uint32_t> block) {
  int64_t query = 0;
  for (const uint32_t k : block) {
    const InferredDims& one = dims.groups[k];
    if (one.role == Role::kQuery) query = std::max(query, one.inner_size);
  }
  return std::ranges::any_of(block, [&](uint32_t k) {
    const InferredDims& one = dims.groups[k];
    const auto own = one.OfOneLayer();
    return one.role == Role::kQueryNorm && own.size() == 1 &&
           one.dims[own[0]].size != query;
  });
}

// Returns whether the role is that of a companion: a bias, a scale or a head
// vector (a number for each head, or for each column of all heads).
bool IsCompanion(Role role) {
  return role == Role::kBias || role == Role::kScale || IsHeadVector(role);
}

// Returns the spec of a bias or scale whose weight is known. `weights` is
// indexed by parameter group and holds the choices for all groups that are not
// companions.
Choice ChooseForCompanion(const InferredDims& companion, const ModelDims& dims,
                          const std::vector<Choice>& weights) {
  Choice out;
  const InferredDims& weight = dims.groups[AsIndex(companion.weight)];
  const Choice& choice = weights[AsIndex(companion.weight)];
  if (choice.replicated() && choice.place_axis.empty()) return out;
  if (companion.expert_count > 1) {
    out.place_axis = choice.place_axis;
    out.place_count = choice.place_count;
    out.place_size = choice.place_size;
  }
  if (choice.spec.empty()) return out;
  out.spec.resize(companion.dims.size());
  if (companion.role == Role::kScale) {
    ShardScale(companion, weight, choice, out.spec);
  } else {
    ShardBias(companion, weight, choice, out.spec);
  }
  if (out.replicated()) out.spec.clear();
  return out;
}

// Returns the spec of a head vector, the parameter group with the index `k`. A
// vector with a number for each head, or for each column of all heads, is
// sharded as the heads of the projection in the same block are. Another vector
// is replicated.
Choice ChooseForHeadVector(size_t k, const ModelDims& dims,
                           const std::vector<Choice>& weights,
                           const BlockIndex& blocks) {
  Choice out;
  const InferredDims& vector = dims.groups[k];
  const auto own_dims = vector.OfOneLayer();
  if (own_dims.size() != 1 || vector.dims[own_dims[0]].size < 2) return out;
  const auto block = blocks.Attention(vector.by_name.block_path);
  const bool norm = IsNorm(vector.role);
  for (const uint32_t w : block) {
    const InferredDims& weight = dims.groups[w];
    if (!weights[w].inner_sharded || !weight.IsMatrix() ||
        weight.units.empty()) {
      continue;
    }
    const bool own = vector.role == Role::kKeyNorm
                         ? weight.role == Role::kKey
                         : weight.role == Role::kQuery ||
                               (!norm && weight.role == Role::kFusedQkv);
    if (!own) continue;
    const int64_t wanted = norm ? weight.inner_size : weight.units[0];
    if (vector.dims[own_dims[0]].size != wanted) continue;
    if (vector.role == Role::kKeyNorm && QueryIsNormedByHead(dims, block)) {
      continue;
    }
    out.spec.resize(vector.dims.size());
    out.spec[own_dims[0]] = {weights[w].spec[AsIndex(weight.inner)].front()};
    out.inner_sharded = true;
    return out;
  }
  return out;
}

// Returns the groups of the attention blocks that `name` is at most two parts
// below, in the order of the tree.
//
//   layers.*.attn.gate.weight  ->  blocks layers.*.attn.gate and layers.*.attn
std::vector<uint32_t> AttentionAbove(std::string_view name, char separator,
                                     const BlockIndex& blocks) {
  std::vector<uint32_t> out;
  if (separator == 0) return out;
  for (int parts = 0; parts < 2; ++parts) {
    const size_t end = name.rfind(separator);
    if (end == 0 || end == name.npos) break;
    const auto block = blocks.Attention(name.substr(0, end));
    out.insert(out.end(), block.begin(), block.end());
    name = name.substr(0, end);
  }
  std::ranges::sort(out);
  return out;
}

// Returns the spec of a parameter that has a number or a row for each head of
// the queries in the same block, whatever its name is: a gate for each head, or
// a table of relative positions. Returns nullopt for other parameters.
//
//   q_proj [8192, 4096] of 64 heads, g_proj [64, 4096]  ->  [HEAD, [FSDP, SP]]
std::optional<Choice> ChooseByHeads(const Tree& tree, size_t k,
                                    const ModelDims& dims,
                                    const std::vector<Choice>& weights,
                                    BlockIndex& blocks, bool small) {
  const InferredDims& own = dims.groups[k];
  const auto sides = SidesOf(own);
  if (IsAttention(own.role) || IsNorm(own.role) || IsHeadVector(own.role) ||
      IsAdapter(own.role) || own.role == Role::kScale || sides.empty() ||
      sides.size() > 2 ||
      (own.weight >= 0 && IsAttention(dims.groups[AsIndex(own.weight)].role))) {
    return std::nullopt;
  }
  const bool matrix = sides.size() == 2;
  if (own.role == Role::kPosition && !matrix) return std::nullopt;
  const std::string_view name = tree.groups[k].name;
  for (const uint32_t w : AttentionAbove(name, tree.separator, blocks)) {
    const InferredDims& query = dims.groups[w];
    if (query.role != Role::kQuery || !query.IsMatrix() ||
        query.heads_unknown || query.units.size() != 1 || query.units[0] <= 1 ||
        !weights[w].inner_sharded) {
      continue;
    }
    const std::string block = query.by_name.block_path + tree.separator;
    const std::string_view rest = name.substr(block.size());
    const int64_t heads = query.units[0];
    const auto at = std::ranges::find_if(
        sides, [&](size_t d) { return own.dims[d].size == heads; });
    if (at == sides.end() || (heads * heads == query.inner_size &&
                              !NamesHeads(rest, tree.separator))) {
      continue;
    }
    Choice out;
    out.spec.resize(own.dims.size());
    out.spec[*at] = {weights[w].spec[AsIndex(query.inner)].front()};
    out.inner_sharded = true;
    out.by_heads = true;
    if (!matrix) return out;
    const auto side = static_cast<size_t>(at - sides.begin());
    const size_t other = sides[1 - side];
    // If another matrix of the block has this size on its other side, the size
    // is the rank of two factors.
    if (own.dims[other].size == heads ||
        blocks.HasSide(block, 1 - side, heads)) {
      continue;
    }
    const size_t width = AsIndex(query.width);
    if (!small && own.dims[other].size == query.dims[width].size) {
      out.spec[other] = weights[w].spec[width];
    }
    return out;
  }
  return std::nullopt;
}

// Returns the mesh axes over which the batch is sharded: fsdp, ep and dp. The
// expert axis ep is one of them, because it shards tokens as well as experts.
AxisGroup BatchOverExperts(const AxisRules& axes) {
  AxisGroup batch;
  for (AxisRule rule : {AxisRule::kFullyShardedDataParallel,
                        AxisRule::kExpertParallel, AxisRule::kDataParallel}) {
    const auto value = axes.Value(rule);
    batch.insert(batch.end(), value.axes.begin(), value.axes.end());
  }
  return batch;
}

}  // namespace

void SetAxisRules(const ModelDims& dims, const MeshAxes& mesh, Choices& out) {
  bool attention = false, heads = false, keys = false, kv_heads = false;
  for (size_t k = 0; k < dims.groups.size(); ++k) {
    const Role role = dims.groups[k].role;
    if (!IsAttention(role)) continue;
    bool& seen = IsKeyOrValue(role) ? keys : attention;
    bool& sharded = IsKeyOrValue(role) ? kv_heads : heads;
    seen = true;
    sharded = sharded || out.groups[k].inner_sharded;
  }
  const bool tensor = mesh.tp > 1;
  out.heads_unsharded = tensor && attention && !heads;
  out.kv_heads_unsharded = tensor && (keys ? !kv_heads : attention && !heads);
  out.batch_over_experts = mesh.ep > 1;
  out.axes = mesh.renamed;
  if (out.heads_unsharded) out.axes.Set(AxisRule::kHead, {});
  if (out.kv_heads_unsharded) out.axes.Set(AxisRule::kKvHead, {});
  if (tensor) out.axes.Set(AxisRule::kHiddenState, {});
  if (out.batch_over_experts) {
    out.axes.Set(AxisRule::kBatch, {false, BatchOverExperts(out.axes)});
  }
  if (mesh.sp > 1) out.axes.Set(AxisRule::kDecodeQuerySequence, {false, {}});
}

Choices Choose(const Tree& tree, const ModelDims& dims, const MeshAxes& mesh,
               const Preferences& preferences) {
  const SpecChooser specs(tree, dims, mesh, preferences);
  const auto strategies =
      ChooseStrategies(tree, dims, mesh, preferences, specs);
  Choices out;
  out.groups.resize(dims.groups.size());
  for (size_t k = 0; k < dims.groups.size(); ++k) {
    if (IsCompanion(dims.groups[k].role)) continue;
    out.groups[k] = specs.Choose(k, strategies[k]);
  }
  BlockIndex blocks(tree, dims);
  for (size_t k = 0; k < dims.groups.size(); ++k) {
    const InferredDims& one = dims.groups[k];
    if (IsHeadVector(one.role)) {
      out.groups[k] = ChooseForHeadVector(k, dims, out.groups, blocks);
    } else if (auto by_heads = ChooseByHeads(tree, k, dims, out.groups, blocks,
                                             specs.IsSmall(k))) {
      out.groups[k] = *std::move(by_heads);
    } else if (IsCompanion(one.role) && one.weight >= 0) {
      out.groups[k] = ChooseForCompanion(one, dims, out.groups);
    } else if (one.role == Role::kScale && !specs.IsSmall(k)) {
      out.groups[k] = specs.Choose(k, TensorParallelStrategy::kInner);
    }
  }
  SetAxisRules(dims, mesh, out);
  return out;
}

// Chooses the spec of a weight. The weight's role and the strategy of its block
// decide which dimension tp shards. The data axes are fsdp, sp, and ep if ep
// shards no experts. Every assignment of data axes to dimensions is tried, and
// the legal spec with the most shards is chosen. DataDims() lists the
// dimensions that data axes should shard, the preferred ones first. It decides
// between specs with equally many shards. For example:
//
//   q [4096, 4096], tp 8, 32 heads  ->  [HEAD, [FSDP, SP]]
//   q [4544, 4544], tp 8, 71 heads  ->  [null, [FSDP, SP, TP]]
//
// In the second line tp does not divide 71 heads, so tp shards the model's
// width. Axes are written as logical axes such as FSDP. The axis rules map
// these to axes of the mesh, such as `data`.

namespace {

// Groups whose tensors have fewer elements than this stay replicated, unless
// their role requires sharding. In a small model, the limit is a fiftieth of
// the model's elements.
constexpr int64_t kSmallElements = 65536;
constexpr int64_t kSmallFraction = 50;
// Limits on the bytes of a group, in thousandths of the model's bytes.
// Options() does not shard a group over tp if its bytes are below a limit:
// - kSmallShare for projections to a latent and weights of a state space mixer
// - kTableShare for groups of unknown role, and for embeddings and output heads
//   whose vocabulary tp does not divide
// IsSmall() compares the bytes of the group with kSmallShare thousandths of the
// bytes that a device holds if the model is fully sharded.
constexpr double kSmallShare = 5;
constexpr double kTableShare = 10;
// If tp cannot shard the KV heads, keys and values are replicated over tp,
// unless the copies add this many thousandths of the model's bytes or more. In
// that case, tp shards the model's width.
constexpr double kKeysShare = 40;
// If no data axis shards the keys and values, linting reports copies of a
// hundredth of the model, for keys and for values.
constexpr double kReportedKeysShare = 20;

// Returns whether `parts` equal shards of a dimension end at block boundaries.
bool DividesInto(int64_t size, int64_t parts, int64_t block) {
  return size % parts == 0 && (size / parts) % block == 0;
}

// Returns whether linting compares a projection with others of its module: its
// role must be certain.
bool IsComparedByLint(const ParameterRole& role) {
  return role.confidence == Confidence::kSure && IsWeight(role);
}

bool IsLegal(const InferredDims& inferred, const AxisSpec& spec) {
  for (size_t i = 0; i < spec.size(); ++i) {
    const Dim& dim = inferred.dims[i];
    if (!DividesInto(dim.size, PartsOf(spec[i]), dim.block)) return false;
  }
  return true;
}

// Adds a data axis to the axes of a dimension. It is placed after a logical
// axis such as HEAD, so that heads stay together. It is placed before TP, which
// shards slices of the width.
void AddDataAxis(std::vector<AxisAssignment>& assigned, std::string axis,
                 int64_t size) {
  const auto at =
      std::find_if(assigned.begin(), assigned.end(),
                   [](const AxisAssignment& one) { return one.axis == "TP"; });
  assigned.insert(at, {std::move(axis), size});
}

}  // namespace

// A dimension that tensor parallelism may shard, and the logical axis that the
// spec gets for this dimension. `dim` is -1 if tp shards no dimension.
struct SpecChooser::Option {
  int dim = -1;
  std::string axis;
  Reason reason = Reason::kUsual;
};

struct SpecChooser::DataAxis {
  std::string axis;
  int64_t size = 1;
};

bool ShardsInner(const InferredDims& inferred, int64_t parts) {
  if (inferred.inner < 0) return false;
  const Dim& dim = inferred.dims[AsIndex(inferred.inner)];
  return DividesInto(dim.size, parts, dim.block) &&
         std::all_of(inferred.units.begin(), inferred.units.end(),
                     [&](int64_t units) { return units % parts == 0; });
}

SpecChooser::SpecChooser(const Tree& tree, const ModelDims& dims,
                         const MeshAxes& mesh, const Preferences& preferences)
    : tree_(tree), dims_(dims.groups), mesh_(mesh), preferences_(preferences) {
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const ParameterGroup& group = tree.groups[k];
    elements_ += std::min(kSmallElements, group.elements) * group.count();
    if (dims_[k].IsMatrix() && IsKeyOrValue(dims_[k].role)) {
      key_bytes_ += group.total_bytes();
    }
    const ParameterRole& role = dims_[k].by_name;
    if (!IsComparedByLint(role)) continue;
    Siblings& module =
        siblings_.try_emplace(role.sibling_path, Siblings{role.module_role})
            .first->second;
    module.several = module.several || module.first != role.module_role;
  }
}

double SpecChooser::Thousandths(int64_t bytes) const {
  return tree_.bytes <= 0 ? 0.0
                          : static_cast<double>(bytes) * 1000 /
                                static_cast<double>(tree_.bytes);
}

bool SpecChooser::IsSmall(size_t k) const {
  const ParameterGroup& group = tree_.groups[k];
  if (group.elements < std::min(kSmallElements, elements_ / kSmallFraction)) {
    return true;
  }
  return Thousandths(group.total_bytes()) *
             static_cast<double>(mesh_.DevicesOfReplica()) <
         kSmallShare;
}

// Returns what tp may shard in a group, the preferred option first. If several
// options lead to equally many parts, Choose() uses the first.
std::vector<SpecChooser::Option> SpecChooser::Options(
    size_t k, TensorParallelStrategy strategy) const {
  const InferredDims& inferred = dims_[k];
  const double share = Thousandths(tree_.groups[k].total_bytes());
  const bool inner = strategy == TensorParallelStrategy::kInner;
  const Option slices = {inferred.width, "TP", Reason::kSlices};
  const Option none = {-1, "", Reason::kNotOverTensor};
  switch (inferred.role) {
    case Role::kQuery:
    case Role::kFusedQkv:
    case Role::kOutput:
    case Role::kLatentUp:
      if (inner) return {{inferred.inner, "HEAD"}};
      return {slices, none};
    case Role::kKey:
    case Role::kValue:
    case Role::kFusedKeyValue:
      if (inner) return {{inferred.inner, "KV_HEAD"}};
      if (Thousandths(key_bytes_) * static_cast<double>(mesh_.tp - 1) <
              kKeysShare &&
          (mesh_.DevicesOfReplica() > mesh_.tp ||
           Thousandths(key_bytes_) < kReportedKeysShare)) {
        return {{-1, "", Reason::kReplicatedKeys}};
      }
      return {slices, none};
    case Role::kGate:
    case Role::kUp:
    case Role::kFusedGateUp:
    case Role::kDown:
      if (inner) return {{inferred.inner, "MLP_INTERMEDIATE"}};
      if (strategy == TensorParallelStrategy::kExpertsOverTp) {
        return {{inferred.experts, "TP", Reason::kExpertsOverTp}};
      }
      return {slices, none};
    case Role::kEmbedding:
    case Role::kHead:
      if (inferred.inner < 0) return AnyDim(inferred);
      if (ShardsInner(inferred, mesh_.tp)) return {{inferred.inner, "VOCAB"}};
      if (share < kTableShare || preferences_.prefer_traffic) return {none};
      return {slices, none};
    case Role::kProjection:
      if (ShardsInner(inferred, mesh_.tp)) return {{inferred.inner, "TP"}};
      return {slices, none};
    case Role::kLatentDown:
    case Role::kStateSpace:
      if (share < kSmallShare) return {none};
      if (inferred.width < 0) return AnyDim(inferred);
      return {slices, none};
    case Role::kAdapterDown:
    case Role::kAdapterUp:
    case Role::kRouter:
    case Role::kNorm:
    case Role::kLatentNorm:
    case Role::kVector:
      return {none};
    default:
      if (share < kTableShare) return {none};
      return AnyDim(inferred);
  }
}

std::vector<SpecChooser::Option> SpecChooser::AnyDim(
    const InferredDims& inferred) const {
  std::vector<Option> out;
  for (const int dim : DataDims(inferred)) out.push_back({dim, "TP"});
  out.push_back({-1, "", Reason::kNotOverTensor});
  return out;
}

// Returns the dimensions that data axes may shard, in order of preference. The
// dimension of experts is first, if Preferences::place_experts is set. The
// width is next, followed by dimensions of unknown use by descending size. The
// inner dimension is last, and is left out for adapters.
std::vector<int> SpecChooser::DataDims(const InferredDims& inferred) const {
  std::vector<int> out;
  if (preferences_.place_experts && inferred.experts >= 0) {
    out.push_back(inferred.experts);
  }
  if (inferred.width >= 0) out.push_back(inferred.width);
  std::vector<int> unknown;
  for (size_t i = 0; i < inferred.dims.size(); ++i) {
    if (inferred.dims[i].use == DimUse::kUnknown) {
      unknown.push_back(static_cast<int>(i));
    }
  }
  std::stable_sort(unknown.begin(), unknown.end(), [&](int a, int b) {
    return inferred.dims[AsIndex(a)].size > inferred.dims[AsIndex(b)].size;
  });
  out.insert(out.end(), unknown.begin(), unknown.end());
  if (inferred.inner >= 0 && !IsAdapter(inferred.role)) {
    out.push_back(inferred.inner);
  }
  return out;
}

// Returns the data axes that may shard a group. An axis over which the group's
// experts are distributed (`placed`) is left out. The expert axis is included
// only if it shards no experts of the group and the group is not an adapter.
std::vector<SpecChooser::DataAxis> SpecChooser::DataAxes(
    const InferredDims& inferred, bool experts_sharded,
    const std::string& placed) const {
  std::vector<DataAxis> out;
  if (placed != "FSDP") out.push_back({"FSDP", mesh_.fsdp});
  if (mesh_.ep > 1 && !experts_sharded && placed != "EP" &&
      !IsAdapter(inferred.role)) {
    out.push_back({"EP", mesh_.ep});
  }
  out.push_back({"SP", mesh_.sp});
  return out;
}

// Tries every assignment of data axes to dimensions, in which each axis shards
// one dimension or no dimension. Returns the legal spec with the most parts.
AxisSpec SpecChooser::AddDataAxes(const InferredDims& inferred,
                                  const AxisSpec& base,
                                  const std::vector<DataAxis>& axes) const {
  const std::vector<int> dims = DataDims(inferred);
  // The last choice is to shard no dimension.
  const size_t choices = dims.size() + 1;
  size_t all = 1;
  for (size_t i = 0; i < axes.size(); ++i) all *= choices;
  AxisSpec best = base;
  int64_t most = 0;
  size_t least_moved = 0;
  for (size_t code = 0; code < all; ++code) {
    AxisSpec spec = base;
    size_t rest = code;
    // How far this assignment is from the preferred one. `pick` is the index,
    // in `dims`, of the dimension that an axis shards: 0 for the preferred
    // dimension, and the length of `dims` for no dimension. An axis of several
    // devices adds 4 * pick, and an axis of size 1 only adds pick.
    size_t moved = 0;
    int64_t parts = 1;
    for (const DataAxis& axis : axes) {
      const size_t pick = rest % choices;
      rest /= choices;
      moved += pick * (axis.size > 1 ? 4 : 1);
      if (pick == dims.size()) continue;
      AddDataAxis(spec[AsIndex(dims[pick])], axis.axis, axis.size);
      parts *= axis.size;
    }
    const bool better =
        most == 0 || parts > most || (parts == most && moved < least_moved);
    if (!better || !IsLegal(inferred, spec)) continue;
    best = std::move(spec);
    most = parts;
    least_moved = moved;
  }
  return best;
}

Choice SpecChooser::Choose(size_t k, TensorParallelStrategy strategy) const {
  const InferredDims& inferred = dims_[k];
  Choice out;
  const bool sharded_by_role =
      inferred.IsMatrix() && inferred.role != Role::kRouter &&
      inferred.role != Role::kProjection && !IsAdapter(inferred.role) &&
      inferred.role != Role::kStateSpace;
  if (inferred.by_name.module_role == Role::kNorm) return out;
  if (!sharded_by_role && IsSmall(k)) return out;
  AxisSpec base(inferred.dims.size());
  bool experts_sharded = false;
  if (inferred.experts >= 0) {
    experts_sharded = inferred.Experts() % mesh_.ep == 0;
    if (experts_sharded) {
      base[AsIndex(inferred.experts)].push_back({"EXPERT", mesh_.ep});
    }
  } else if (inferred.expert_count > 1) {
    PlaceExperts(inferred, strategy, out);
  }
  const auto axes = DataAxes(inferred, experts_sharded, out.place_axis);
  int64_t most = -1;
  for (const Option& option : Options(k, strategy)) {
    AxisSpec spec = base;
    if (option.dim >= 0) {
      spec[AsIndex(option.dim)].push_back({option.axis, mesh_.tp});
    } else if (option.reason == Reason::kSlices) {
      continue;
    }
    if (!IsLegal(inferred, spec)) continue;
    spec = AddDataAxes(inferred, spec, axes);
    const int64_t parts = PartsOf(spec);
    if (parts <= most) continue;
    most = parts;
    out.spec = std::move(spec);
    out.reason = option.reason;
    out.inner_sharded = option.dim >= 0 && option.dim == inferred.inner;
    out.width_slices = option.reason == Reason::kSlices;
  }
  SetReason(inferred, axes, out);
  const bool undivided =
      inferred.role == Role::kStateSpace || inferred.role == Role::kLatentDown;
  if (out.width_slices && undivided) {
    out.reason = Reason::kUndivided;
  } else if (out.width_slices && inferred.heads_unknown) {
    out.reason = Reason::kHeadsUnknown;
  } else if (out.width_slices && inferred.role == Role::kProjection &&
             !inferred.units.empty() && !inferred.described) {
    out.reason = Reason::kRoleUnknown;
  } else if (out.width_slices && ShardsInner(inferred, mesh_.tp)) {
    out.reason = Reason::kBlockSlices;
  }
  if (out.replicated()) out.spec.clear();
  return out;
}

// Distributes experts that are separate tensors over an axis that divides their
// number. The axis is tp if the strategy is kExpertsOverTp. It is fsdp if the
// user prefers that and the mesh has no ep axis. Otherwise it is ep.
void SpecChooser::PlaceExperts(const InferredDims& inferred,
                               TensorParallelStrategy strategy,
                               Choice& out) const {
  const int64_t count = inferred.expert_count;
  if (strategy == TensorParallelStrategy::kExpertsOverTp) {
    out.place_axis = "TP";
    out.place_size = mesh_.tp;
  } else if (mesh_.ep == 1 && preferences_.place_experts && mesh_.fsdp > 1 &&
             count % mesh_.fsdp == 0) {
    out.place_axis = "FSDP";
    out.place_size = mesh_.fsdp;
  } else if (count % mesh_.ep == 0) {
    out.place_axis = "EP";
    out.place_size = mesh_.ep;
  }
  out.place_count = out.place_axis.empty() ? 0 : count;
}

void SpecChooser::SetReason(const InferredDims& inferred,
                            const std::vector<DataAxis>& axes,
                            Choice& out) const {
  const Role role = inferred.by_name.module_role;
  out.ignore_reshard = out.width_slices && mesh_.tp > 1 &&
                       inferred.by_name.attention && HasSibling(inferred) &&
                       inferred.OfOneLayer().size() == 2 &&
                       inferred.layers_shown &&
                       (role == Role::kQuery || role == Role::kKey ||
                        role == Role::kValue || role == Role::kFusedQkv);
  if (out.reason != Reason::kUsual) return;
  int64_t parts = 1;
  for (const DataAxis& axis : axes) parts *= axis.size;
  int64_t used = 1;
  for (size_t i = 0; i < out.spec.size(); ++i) {
    for (const AxisAssignment& one : out.spec[i]) {
      if (PurposeOf(one.axis) != AxisPurpose::kData) continue;
      used *= one.size;
      if (static_cast<int>(i) == inferred.inner && one.size > 1) {
        out.reason = Reason::kDataOnInner;
      }
    }
  }
  if (used < parts) out.reason = Reason::kLessData;
}

// Returns whether linting compares this projection with a projection of another
// role in the same module.
bool SpecChooser::HasSibling(const InferredDims& inferred) const {
  const ParameterRole& own = inferred.by_name;
  return IsComparedByLint(own) && siblings_.at(own.sibling_path).several;
}

}  // namespace shardc::suggest
