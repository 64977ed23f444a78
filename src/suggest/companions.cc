// Links biases, scales and other vectors to the weights with the same module
// path. It also finds the blocks of quantised weights. A block is a range of
// elements along a dimension that share one quantisation scale, so a shard must
// not end inside a block. The length of a block is the power of two with which
// the weight has as many blocks as scales. The last block may be shorter. If no
// power of two fits, the length is the quotient of both sizes. For example:
//
//   down_proj.weight [576, 7168], weight_scale_inv [5, 56]  ->  blocks of 128
#include "suggest/companions.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "model/block_types.h"
#include "plan/quantised_modules.h"
#include "roles/quantisation.h"
#include "source/index.h"
#include "suggest/matrices.h"

namespace shardc::suggest {
namespace {

bool IsWeight(const Tree& tree, const ModelDims& dims, size_t k) {
  const Role role = dims.groups[k].role;
  return role != Role::kBias && role != Role::kScale &&
         tree.groups[k].rank() >= 2;
}

void SetBlocksOfScale(const InferredDims& scale, InferredDims& weight) {
  const bool same_rank = scale.dims.size() == weight.dims.size();
  const bool of_blocks = weight.by_name.packed_blocks &&
                         scale.dims.size() + 1 == weight.dims.size();
  if (!same_rank && !of_blocks) return;
  for (size_t i = 0; i < scale.dims.size(); ++i) {
    const int64_t scales = scale.dims[i].size;
    if (scales <= 1) continue;
    Dim& dim = weight.dims[i];
    dim.block = std::max(dim.block, BlockOf(dim.size, scales));
  }
}

}  // namespace

void LinkCompanions(const Tree& tree, ModelDims& dims) {
  // Maps each module path to the index of its group of weights.
  std::map<std::string_view, size_t> weights;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    if (!IsWeight(tree, dims, k)) continue;
    const auto [at, fresh] =
        weights.try_emplace(dims.groups[k].by_name.module_path, k);
    if (!fresh && tree.groups[k].count() > tree.groups[at->second].count()) {
      at->second = k;
    }
  }
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    if (IsWeight(tree, dims, k)) continue;
    const auto at = weights.find(dims.groups[k].by_name.module_path);
    if (at == weights.end()) continue;
    dims.groups[k].weight = static_cast<int>(at->second);
  }
}

void SetBlocks(const Tree& tree, const ModelConfig* model, ModelDims& dims) {
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    auto& own = dims.groups[k].dims;
    const auto dtype = tree.groups[k].dtype;
    if (!own.empty() && dtype) own.back().block = BlockElements(*dtype);
  }
  bool has_scales = false;
  for (const InferredDims& scale : dims.groups) {
    if (scale.role != Role::kScale) continue;
    has_scales = true;
    if (scale.weight < 0) continue;
    SetBlocksOfScale(scale, dims.groups[AsIndex(scale.weight)]);
  }
  if (has_scales || model == nullptr) return;
  const QuantisedModules modules(*model);
  if (!modules.Any()) return;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    InferredDims& inferred = dims.groups[k];
    const bool projection = IsAttention(inferred.role) || IsMlp(inferred.role);
    if (!inferred.IsMatrix() || MayPack(tree.groups[k]) || !projection) {
      continue;
    }
    int in = inferred.width, out = inferred.inner;
    if (!inferred.column) std::swap(in, out);
    for (const uint32_t tensor : tree.Members(tree.groups[k])) {
      const QuantisedBlock* const block =
          modules.Of(tree.NameOf(tensor), tree.separator,
                     inferred.by_name.leaf != Leaf::kOther);
      if (block == nullptr) continue;
      int64_t& columns = inferred.dims[AsIndex(in)].block;
      int64_t& rows = inferred.dims[AsIndex(out)].block;
      columns = std::lcm(columns, block->columns);
      rows = std::lcm(rows, block->rows);
    }
  }
}

}  // namespace shardc::suggest
