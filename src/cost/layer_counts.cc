// Counts the layers and the experts of a model by the shapes and names of its
// parameters, and by its configuration. For example:
//
//   32 down projections `layers.*.mlp.down_proj`  ->  32 layers with an MLP
//   down projections of experts of shape [32, 8, 14336, 4096]  ->  8 experts
#include <algorithm>

#include "cost/inputs.h"
#include "source/checked.h"

namespace shardc::cost {

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
  for (const ParamClass& param : params) {
    if (param.role.module_role != Role::kKey || !param.IsApplied() ||
        param.mixes || param.stream != Stream::kModel || param.role.expert) {
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

}  // namespace shardc::cost
