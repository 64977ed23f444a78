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
#include "suggest/companion_spec.h"

#include <algorithm>
#include <string>

#include "source/index.h"

namespace shardc::suggest {
namespace {

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

// Returns whether the queries of a block are normalised head by head: the query
// norm then does not have the length of all query heads together. The keys are
// then normalised head by head too. The length of the keys' norm cannot show
// this: with one KV head, that length is the width of the key projection in
// both cases.
bool QueryIsNormedByHead(const ModelDims& dims, const std::string& block) {
  int64_t query = 0;
  for (const InferredDims& one : dims.groups) {
    if (one.role == Role::kQuery && one.by_name.block_path == block) {
      query = std::max(query, one.inner_size);
    }
  }
  for (size_t k = 0; k < dims.groups.size(); ++k) {
    const auto own = dims.groups[k].OfOneLayer();
    if (dims.groups[k].role == Role::kQueryNorm && own.size() == 1 &&
        dims.groups[k].by_name.block_path == block &&
        dims.groups[k].dims[own[0]].size != query) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool IsCompanion(Role role) {
  return role == Role::kBias || role == Role::kScale || IsHeadVector(role);
}

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

Choice ChooseForHeadVector(size_t k, const ModelDims& dims,
                           const std::vector<Choice>& weights) {
  Choice out;
  const InferredDims& vector = dims.groups[k];
  const auto own_dims = vector.OfOneLayer();
  if (own_dims.size() != 1 || vector.dims[own_dims[0]].size < 2) return out;
  const std::string& block = vector.by_name.block_path;
  const bool norm = IsNorm(vector.role);
  for (size_t w = 0; w < dims.groups.size(); ++w) {
    const InferredDims& weight = dims.groups[w];
    if (weight.by_name.block_path != block || !weights[w].inner_sharded ||
        !weight.IsMatrix() || weight.units.empty()) {
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

}  // namespace shardc::suggest
