// Gives weights the two dimensions of a matrix if they are stored with more or
// with fewer dimensions. For example:
//
//   MaxText, query       [4096, 32, 128]   -> [4096, 32 * 128]
//   MaxText, out         [32, 128, 4096]   -> [32 * 128, 4096]
//   Gemma, gating_einsum [2, 2048, 16384]  -> [2048, 2 * 16384]
//   DBRX, experts.mlp.w1 [16 * 10752, 6144] -> [16, 10752, 6144]
//
// The dimension that has the hidden size becomes one dimension of the matrix.
// All other dimensions are joined into the second dimension of the matrix in
// two cases. In the first case, the product of their sizes is a width that the
// configuration gives, such as heads times head size. In the second case, the
// model stores heads in a dimension of their own. This is known if a query has
// three dimensions and the first of them has the hidden size. Dimensions that
// count layers come first and are not changed.
#include "cost/matrix_dims.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "source/index.h"

namespace shardc::cost {
namespace {

bool IsFeedForward(Role role) {
  return role == Role::kGate || role == Role::kUp || role == Role::kDown ||
         role == Role::kFusedGateUp;
}

// Returns whether a projection of this role belongs to attention and reads or
// computes the hidden state.
bool IsHeads(Role role) {
  return role == Role::kQuery || role == Role::kKey || role == Role::kValue ||
         role == Role::kFusedQkv || role == Role::kFusedKeyValue ||
         role == Role::kOutput;
}

class MatrixFinder {
 public:
  MatrixFinder(CostInputs& work, int64_t hidden)
      : work_(work), hidden_(hidden) {
    experts_ = work.model ? work.model->experts.value_or(0) : 0;
    for (const ParamClass& param : work.params) {
      if (!param.type.shape || param.role.module_role != Role::kRouter)
        continue;
      const Shape& shape = *param.type.shape;
      if (experts_ > 0 || shape.size() < 2) continue;
      const int64_t last = shape.back();
      experts_ = last == hidden ? shape[shape.size() - 2] : last;
    }
  }

  void LookForHeads(const ParamClass& param, int layers) {
    heads_apart_ = heads_apart_ || (param.role.module_role == Role::kQuery &&
                                    param.Rank() - layers == 3 &&
                                    SizeOf(param, layers) == hidden_);
  }

  void Find(ParamClass& param, int layers) const {
    const Role role = param.role.module_role;
    const int stored = param.Rank() - layers;
    if (role == Role::kLatentUp && stored == 3) {
      JoinHeadsOfLatent(param, layers);
    } else if (IsHeads(role) && !param.role.expert && stored > 2) {
      JoinHeads(param, layers);
    } else if (IsFeedForward(role) && !param.role.expert && stored == 3) {
      const bool counts = SizeOf(param, layers) == experts_ && experts_ > 1 &&
                          !param.role.shared_expert;
      if (counts) {
        param.role.expert = true;
      } else {
        JoinHalves(param, layers);
      }
    } else if (IsFeedForward(role) && param.role.expert && stored == 2) {
      SplitExperts(param, layers);
    }
  }

 private:
  static int64_t SizeOf(const ParamClass& param, int dim) {
    return (*param.type.shape)[AsIndex(dim)];
  }

  // Joins the dimensions from `first` on into the two dimensions of a matrix.
  // One of them is the dimension `side`, and the other is the product of the
  // remaining dimensions. The matrix is [side, other] if `reads` is true, and
  // [other, side] if it is false. With `side` 0 and `reads`, [4096, 8, 128]
  // becomes [4096, 1024].
  static void Join(ParamClass& param, int first, int side, bool reads) {
    Shape& shape = *param.type.shape;
    int64_t size = 1;
    AxisGroup axes;
    for (int d = first; d < std::ssize(shape); ++d) {
      if (d == side) continue;
      size = Times(size, shape[AsIndex(d)]);
      const AxisGroup& own = param.AxesAt(d);
      axes.insert(axes.end(), own.begin(), own.end());
    }
    const int64_t side_size = shape[AsIndex(side)];
    AxisGroup side_axes = param.AxesAt(side);
    shape.resize(AsIndex(first) + 2);
    param.spec.resize(shape.size());
    const size_t at = AsIndex(first) + (reads ? 0 : 1);
    const size_t other = AsIndex(first) + (reads ? 1 : 0);
    shape[at] = side_size;
    param.spec[at] = std::move(side_axes);
    shape[other] = size;
    param.spec[other] = std::move(axes);
    param.role.in_first = true;
  }

  // Returns whether a projection of this role may have this number of columns.
  // By the configuration, the number of columns is a number of heads times the
  // size of a head: 32 query heads of size 128 have 4096 columns. The
  // configuration may define several sizes, such as one for layers with a
  // window.
  bool AreColumns(Role role, int64_t columns) const {
    if (!work_.model || !work_.model->heads) return false;
    const ModelConfig& model = *work_.model;
    const int64_t heads = *model.heads;
    const std::optional<int64_t> sizes[] = {
        model.head_dim,           model.full_head_dim,
        model.value_dim,          model.windowed_head_dim,
        model.windowed_value_dim, model.latent_value_dim};
    const std::optional<int64_t> key_heads[] = {model.kv_heads.value_or(heads),
                                                model.full_kv_heads,
                                                model.windowed_kv_heads};
    for (const auto& size : sizes) {
      if (!size) continue;
      const bool of_query = role == Role::kQuery || role == Role::kOutput;
      if (of_query && columns == Times(heads, *size)) return true;
      if (of_query) continue;
      for (const auto& keys : key_heads) {
        if (!keys) continue;
        const int64_t all = role == Role::kFusedQkv        ? heads + 2 * *keys
                            : role == Role::kFusedKeyValue ? 2 * *keys
                                                           : *keys;
        if (columns == Times(all, *size)) return true;
      }
    }
    return false;
  }

  void JoinHeads(ParamClass& param, int layers) const {
    const Role role = param.role.module_role;
    const bool reads = role != Role::kOutput;
    const int rank = param.Rank();
    int64_t all = 1;
    for (int d = layers; d < rank; ++d) all = Times(all, SizeOf(param, d));
    for (int i = layers; i < rank; ++i) {
      // Several dimensions may have the hidden size. The first of them is tried
      // first if the projection reads the hidden state, and the last of them if
      // the projection computes the hidden state.
      const int side = reads ? i : rank - 1 - (i - layers);
      if (SizeOf(param, side) != hidden_) continue;
      const bool outer = side == (reads ? layers : rank - 1);
      if ((outer && heads_apart_) || AreColumns(role, all / hidden_)) {
        return Join(param, layers, side, reads);
      }
    }
    // A vision tower has a hidden size and heads of its own, so no dimension
    // has the model's hidden size. Flax's DenseGeneral stores a query of such a
    // tower as [hidden size, heads, head size], and the output projection in
    // reverse order: [heads, head size, hidden size].
    if (rank - layers == 3 && param.role.leaf == Leaf::kKernel &&
        std::find(param.type.shape->begin(), param.type.shape->end(),
                  hidden_) == param.type.shape->end()) {
      Join(param, layers, reads ? layers : rank - 1, reads);
    }
  }

  // Changes a projection of latent attention (MLA) that computes the heads from
  // the latent to a matrix: [latent, heads, columns of a head] becomes [latent,
  // heads * columns].
  void JoinHeadsOfLatent(ParamClass& param, int layers) const {
    if (heads_apart_ ||
        (work_.model && work_.model->heads == SizeOf(param, layers + 1))) {
      Join(param, layers, layers, true);
    }
  }

  // Joins the gate and the up projection of a weight that has both. The weight
  // is stored with a dimension of size 2, such as [2, 2048, 16384].
  void JoinHalves(ParamClass& param, int layers) const {
    const int rank = param.Rank();
    if (param.role.module_role == Role::kDown) return;
    // A first dimension of size 2 may also count the layers of a stack that was
    // not recognised. So it is joined only if the name of the weight shows that
    // it holds both projections, as `gating_einsum` does.
    const bool fused = param.role.module_role == Role::kFusedGateUp;
    for (int side = layers; side < rank; ++side) {
      const int half = side == layers ? layers + 1 : layers;
      if (SizeOf(param, side) != hidden_ || SizeOf(param, half) != 2) continue;
      if (half == layers && !fused) continue;
      param.role.module_role = param.role.role = Role::kFusedGateUp;
      return Join(param, layers, side, true);
    }
  }

  // Splits a weight that holds the matrices of all experts one below the other.
  // The experts become the first dimension of the weight: [16 * 10752, 6144]
  // becomes [16, 10752, 6144]. Of the mesh axes that shard 16 * 10752, the
  // first ones shard the 16 experts, as long as the product of their sizes
  // divides 16. The remaining axes shard 10752.
  void SplitExperts(ParamClass& param, int layers) const {
    if (param.role.counted_expert || param.role.shared_expert) return;
    if (experts_ < 2 || !work_.model) return;
    const ModelConfig& model = *work_.model;
    const auto width =
        model.moe_intermediate ? model.moe_intermediate : model.intermediate;
    if (!width) return;
    const int64_t halves = param.role.module_role == Role::kFusedGateUp ? 2 : 1;
    for (const int dim : {layers, layers + 1}) {
      const int64_t inner = Times(*width, halves);
      if (SizeOf(param, dim) != Times(experts_, inner)) continue;
      AxisGroup axes = param.AxesAt(dim), of_experts;
      int64_t parts = 1;
      while (!axes.empty()) {
        parts = Times(parts, work_.mesh.SizeOf(axes.front()));
        if (experts_ % parts != 0) break;
        of_experts.push_back(axes.front());
        axes.erase(axes.begin());
      }
      (*param.type.shape)[AsIndex(dim)] = inner;
      param.spec[AsIndex(dim)] = std::move(axes);
      param.type.shape->insert(param.type.shape->begin() + layers, experts_);
      param.spec.insert(param.spec.begin() + layers, std::move(of_experts));
      return;
    }
  }

  const CostInputs& work_;
  int64_t hidden_;
  int64_t experts_ = 0;  // experts of a layer; 0 if there are none or unknown
  // True if a query is stored as [hidden size, heads, size of a head].
  bool heads_apart_ = false;
};

}  // namespace

void FindMatrixDims(CostInputs& work, const std::vector<int>& layer_dims) {
  // A checkpoint may have dimensions of size 0. If the hidden size is 0,
  // nothing is changed, because JoinHeads divides by the hidden size.
  const auto hidden = work.Hidden();
  if (!hidden || *hidden <= 0) return;
  MatrixFinder finder(work, *hidden);
  const auto applies = [](const ParamClass& param) {
    return param.type.shape && !param.role.packed_blocks &&
           param.type.shape->size() == param.spec.size() &&
           param.role.leaf != Leaf::kBias && param.role.leaf != Leaf::kScale &&
           param.role.leaf != Leaf::kZeroPoint;
  };
  for (size_t i = 0; i < work.params.size(); ++i) {
    if (applies(work.params[i])) {
      finder.LookForHeads(work.params[i], layer_dims[i]);
    }
  }
  for (size_t i = 0; i < work.params.size(); ++i) {
    if (applies(work.params[i])) finder.Find(work.params[i], layer_dims[i]);
  }
}

}  // namespace shardc::cost
