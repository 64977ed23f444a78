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
#include "cost/inputs.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/name.h"
#include "roles/classify.h"
#include "roles/role.h"
#include "source/list.h"
#include "source/size.h"

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
      JoinHalves(param, layers);
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
        const bool of_query = role == Role::kQuery || role == Role::kOutput;
        if (of_query && outer && heads_apart_ && rank - layers == 3) {
          param.heads = SizeOf(param, reads ? layers + 1 : layers);
        }
        return Join(param, layers, side, reads);
      }
    }
    // A vision tower has a hidden size and heads of its own, so no dimension
    // has the model's hidden size. Flax's DenseGeneral stores a query of such a
    // tower as [hidden size, heads, head size], and the output projection in
    // reverse order: [heads, head size, hidden size].
    if (rank - layers == 3 && param.role.leaf == Leaf::kKernel &&
        !IsAmong(hidden_, *param.type.shape)) {
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

void FindMatrixDims(CostInputs& work) {
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
  for (const ParamClass& param : work.params) {
    if (applies(param)) finder.LookForHeads(param, param.layer_dims);
  }
  for (ParamClass& param : work.params) {
    if (applies(param)) finder.Find(param, param.layer_dims);
  }
}

// Counts the layers and the experts of a model by the shapes and names of its
// parameters, and by its configuration. For example:
//
//   32 down projections `layers.*.mlp.down_proj`  ->  32 layers with an MLP
//   down projections of experts of shape [32, 8, 14336, 4096]  ->  8 experts

int64_t CostInputs::Experts() const {
  // `tensors` is the number of down projections of experts.
  int64_t tensors = 0, routers = 0;
  for (const ParamClass& param : params) {
    if (!param.IsWeight()) continue;
    const int rank = param.Rank();
    if (param.role.expert && rank >= 3) return param.SizeAt(rank - 3);
    const Role role = param.role.module_role;
    if (param.role.expert && role == Role::kDown) tensors += param.count;
    if (role == Role::kRouter && !param.role.shared_expert) {
      routers += param.Matrices();
    }
  }
  if (model && model->experts) return *model->experts;
  return routers > 0 ? tensors / routers : 0;
}

int64_t LayerCounts::Of(const ParamClass& param) {
  if (param.sharing_layers > 0) return param.sharing_layers;
  if (!param.role.expert) return param.Matrices();
  if (experts_ == 0) experts_ = std::max<int64_t>(work_.Experts(), 1);
  return param.Matrices() / experts_;
}

int64_t CostInputs::LayersWith(Role role) const {
  LayerCounts layers(*this);
  int64_t out = 0;
  for (const ParamClass& param : params) {
    if (param.role.module_role == role && param.IsApplied() &&
        !param.role.shared_expert) {
      out += layers.Of(param);
    }
  }
  return out;
}

LayersByKvHeads CostInputs::KvHeadsByShape() const {
  if (!model || !model->head_dim || model->latent_rank ||
      model->full_head_dim || model->windowed_head_dim) {
    return {};
  }
  const int64_t stated = model->kv_heads.value_or(model->heads.value_or(0));
  LayersByKvHeads out;
  // Values have the heads of keys, and show them where no key has a role.
  const Role shows = Find(Role::kKey) != nullptr ? Role::kKey : Role::kValue;
  for (const ParamClass& param : params) {
    if (param.role.module_role != shows || !param.IsApplied() || param.mixes ||
        param.stream != Stream::kModel || param.role.expert) {
      continue;
    }
    // Outputs of some quantised weights are packed, as in AWQ.
    if (param.packing != 1) return {};
    const int64_t size = param.SizeAt(param.out_dim);
    if (size % *model->head_dim != 0) return {};
    const int64_t heads = size / *model->head_dim;
    out[heads] = CheckedAdd(out[heads], param.Matrices()).value_or(INT64_MAX);
  }
  const bool differ = std::any_of(out.begin(), out.end(), [&](auto& one) {
    return one.first != stated && one.first != model->full_kv_heads &&
           one.first != model->windowed_kv_heads;
  });
  if (!differ || !out.contains(stated)) return {};
  return out;
}

std::optional<double> CostInputs::LayersWithAttention() const {
  if (attention_layers) return attention_layers;
  if (!model || !model->attention_layers) return std::nullopt;
  return Real(*model->attention_layers);
}

double CostInputs::LayersWithWindow() const {
  if (windowed_layers) return *windowed_layers;
  return model ? Real(model->windowed_layers.value_or(0)) : 0;
}

// Finds how many weights are packed into one stored number of a quantised
// matrix. An integer may hold several weights along the input dimension
// (compressed-tensors, GPTQ) or along the output dimension (AWQ). The number of
// weights follows from a matrix whose unpacked sizes are known, because it
// reads the hidden state. It is the same for all matrices of that dtype. For
// example:
//
//   up_proj.weight_packed I32 [2048, 896], hidden size 7168
//     ->  8 weights, because 8 * 896 = 7168
//   gate_proj.qweight I32 [4096, 1792], hidden size 4096, 14336 outputs by the
//   configuration
//     ->  8 weights, because 8 * 1792 = 14336

namespace {

bool IsPackable(const ParamClass& param) {
  return param.IsWeight() && !param.role.packed_blocks && param.type.dtype &&
         MayPack(*param.type.dtype);
}

// Returns the possible numbers of outputs of a projection of a role, computed
// from the configuration.
std::vector<int64_t> OutputsOf(const CostInputs& work, Role role) {
  std::vector<int64_t> out;
  if (!work.model) return out;
  const ModelConfig& model = *work.model;
  if (role == Role::kQuery && model.heads && model.head_dim) {
    out.push_back(Times(*model.heads, *model.head_dim));
  }
  const bool reads = role == Role::kKey || role == Role::kValue;
  if (reads && model.kv_heads && model.head_dim) {
    out.push_back(Times(*model.kv_heads, *model.head_dim));
  }
  const bool fused = role == Role::kFusedGateUp;
  if (fused || role == Role::kGate || role == Role::kUp) {
    for (const auto& width : {model.intermediate, model.moe_intermediate}) {
      if (width) out.push_back(Times(*width, int64_t{fused ? 2 : 1}));
    }
  }
  return out;
}

// Returns how many weights of 8, 4 or 2 bits each stored number of the matrix
// holds, or 1 if the matrix is not packed. Returns nullopt if the sizes of the
// matrix do not determine this.
std::optional<int64_t> PackingOf(const ParamClass& param, int64_t hidden,
                                 const std::vector<int64_t>& outputs) {
  const int64_t stored = DtypeBits(*param.type.dtype);
  const int64_t in = param.SizeAt(param.in_dim);
  const int64_t out = param.SizeAt(param.out_dim);
  const auto gives = [&](int64_t size) { return IsAmong(size, outputs); };
  // `in_dim` was chosen as the dimension of the hidden size. But a packed input
  // dimension is smaller than the hidden size, so `in_dim` may be the output
  // dimension. So both orders are tried.
  const std::pair<int64_t, int64_t> orders[] = {{in, out}, {out, in}};
  std::optional<int64_t> certain, likely;
  bool one_certain = true, one_likely = in != hidden && out != hidden;
  const auto set = [](int64_t held, std::optional<int64_t>& to, bool& one) {
    one = one && (!to || *to == held);
    to = held;
  };
  for (const int64_t bits : {stored, int64_t{8}, int64_t{4}, int64_t{2}}) {
    const int64_t held = stored / bits;
    for (const auto& [read, given] : orders) {
      const bool reads = Times(read, held) == hidden;
      if ((reads && gives(given)) ||
          (read == hidden && gives(Times(given, held)))) {
        set(held, certain, one_certain);
      }
      if (reads) set(held, likely, one_likely);
    }
  }
  if (certain) return one_certain ? certain : std::nullopt;
  return one_likely ? likely : std::nullopt;
}

}  // namespace

int64_t ParamClass::Inputs() const {
  // A byte of a block holds two weights of 4 bits, and so two inputs.
  return role.packed_blocks ? Times(SizeAt(in_dim), type.shape->back(), 2)
                            : Times(SizeAt(in_dim), packing);
}

void FindPacking(CostInputs& work, std::optional<int64_t> hidden) {
  if (!hidden) return;
  std::map<Dtype, int64_t> known;
  for (const ParamClass& param : work.params) {
    const Role role = param.role.module_role;
    if (!IsPackable(param) || !TakesWidth(role)) continue;
    const auto packing = PackingOf(param, *hidden, OutputsOf(work, role));
    if (packing) known.try_emplace(*param.type.dtype, *packing);
  }
  for (ParamClass& param : work.params) {
    if (!IsPackable(param)) continue;
    const auto found = known.find(*param.type.dtype);
    if (found != known.end()) param.packing = found->second;
  }
}

// Finds how many times a step applies the weights of a block that several
// layers share. In a checkpoint, the weights of a shared block are stored only
// once, under the name of the first layer that uses them. For example, if 2
// blocks `layers.*.shared_transformer` serve 9 layers with attention, both
// blocks together run 9 times. A block then runs 4.5 times on average.
//
// Adapters inside a block are not shared: each of them belongs to one layer.

void FindSharedBlocks(CostInputs& work, char separator) {
  if (!work.model || !work.model->attention_layers) return;
  const auto shared = [&](const ParamClass& param) {
    if (!param.IsApplied() || param.role.expert ||
        param.name.find("adapter") != std::string::npos) {
      return false;
    }
    const std::vector<std::string_view> parts =
        SplitName(param.name, separator);
    return std::any_of(parts.begin(), parts.end(), [](std::string_view part) {
      return part.starts_with("shared_transf");
    });
  };
  int64_t blocks = 0;
  for (const ParamClass& param : work.params) {
    if (param.role.module_role == Role::kKey && shared(param)) {
      blocks += param.Matrices();
    }
  }
  if (blocks == 0 || blocks >= *work.model->attention_layers) return;
  for (ParamClass& param : work.params) {
    if (!shared(param)) continue;
    param.sharing_layers = std::max(
        Times(param.Matrices(), *work.model->attention_layers) / blocks,
        param.Matrices());
  }
}

void ShareBlocksAs(const CostInputs& whole, CostInputs& chosen) {
  for (ParamClass& param : chosen.params) {
    param.sharing_layers = 0;
    for (const ParamClass& all : whole.params) {
      if (all.sharing_layers == 0 || all.name != param.name) continue;
      param.sharing_layers =
          std::max(Times(all.sharing_layers, param.Matrices()) / all.Matrices(),
                   param.Matrices());
      break;
    }
  }
}

std::optional<NotKnown> UnfoundExperts(const CostInputs& work) {
  if (!work.model || work.model->experts.value_or(0) < 2 ||
      !work.model->layers ||
      std::ranges::any_of(work.params, [](const ParamClass& param) {
        return param.role.expert;
      })) {
    return std::nullopt;
  }
  NotKnown out{.what = "which feed-forward blocks are experts",
               .settled_by = "a `model:` section in the rules"};
  int64_t blocks = 0;
  for (const ParamClass& param : work.params) {
    if (param.role.module_role != Role::kDown || !param.IsApplied() ||
        param.described || param.role.shared_expert ||
        param.stream != Stream::kModel) {
      continue;
    }
    blocks = CheckedAdd(blocks, param.Matrices()).value_or(INT64_MAX);
    AddOnce(out.params, param.name);
  }
  if (blocks <= *work.model->layers) return std::nullopt;
  return out;
}

}  // namespace shardc::cost
