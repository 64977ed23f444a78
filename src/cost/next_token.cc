// Adds the layers that predict further tokens to the inputs of the cost model.
// Megatron-Core builds such a layer as a layer of the model with experts, with
// a norm of the hidden state, a norm of the embedding of the next token, and a
// projection of both into one hidden state (`eh_proj`). A norm follows the
// layer. The layer shares the embedding and the head of the model. If the
// model's last stage does not hold the embedding, it gets a copy of it. For
// example, with 61 layers of which 58 have 256 experts, one further layer:
//
//   model.layers.*.self_attn.o_proj.weight          61 ->    62 tensors
//   model.layers.*.mlp.experts.*.up_proj.weight  14848 -> 15104 tensors
//   model.layers.*.mlp.up_proj.weight                3 ->     3 tensors
//   eh_proj [7168, 14336]                            0 ->     1 tensor
//
// Source: NVIDIA/Megatron-LM, megatron/core/transformer/
// multi_token_prediction.py.
#include "cost/next_token.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "model/manifest.h"
#include "roles/role.h"
#include "source/wording.h"

namespace shardc::cost {
namespace {

// The name of the projection of two hidden states in published checkpoints.
constexpr std::string_view kProjection = "eh_proj";
// The norms of a layer besides those of a model's layer: one of the hidden
// state, one of the embedding, and one behind the layer.
constexpr int64_t kNorms = 3;

bool IsInLayer(const ParamClass& param) {
  return param.name.find('*') != std::string::npos;
}

bool OfDenseMlp(const ParamClass& param) {
  return IsMlp(param.role.module_role) && !param.role.expert &&
         !param.role.shared_expert;
}

// Returns the number of tensors of the class in a layer with experts; nullopt
// if it is not known. `all` is the number of layers, and `with_experts` the
// number of layers with experts.
std::optional<int64_t> TensorsOfLayer(const ParamClass& param, int64_t all,
                                      int64_t with_experts) {
  if (!param.placed_along.empty() || param.sharing_layers > 0) {
    return std::nullopt;
  }
  // A tensor of several matrices that does not hold experts stacks layers.
  if (param.IsWeight() && !param.role.expert &&
      param.Matrices() != param.count) {
    return std::nullopt;
  }
  const bool of_experts = param.role.expert || param.role.shared_expert ||
                          param.role.module_role == Role::kRouter;
  if (!of_experts && param.count % all == 0) return param.count / all;
  if (param.count % with_experts == 0) return param.count / with_experts;
  return std::nullopt;
}

// Returns the projection of two hidden states, with the sharding of an output
// projection.
ParamClass ProjectionLike(const ParamClass& output, int64_t hidden,
                          int64_t layers) {
  ParamClass out = output;
  out.name = kProjection;
  out.role = {};
  Shape& shape = *out.type.shape;
  shape[static_cast<size_t>(out.out_dim)] = hidden;
  shape[static_cast<size_t>(out.in_dim)] = Times(hidden, 2);
  out.count = layers;
  return out;
}

}  // namespace

std::vector<ParamClass> NextTokenParams(const CostInputs& work) {
  const int64_t layers = work.next_token_layers;
  const auto hidden = work.Hidden();
  const ParamClass* const down = work.Find(Role::kDown, true);
  const ParamClass* const output = work.Find(Role::kOutput);
  if (layers == 0 || !hidden || down == nullptr || output == nullptr ||
      output->mixes || output->Rank() != 2 || !work.model ||
      work.model->layers.value_or(0) < 1) {
    return {};
  }
  LayerCounts counts(work);
  const int64_t with_experts = counts.Of(*down);
  if (with_experts < 1) return {};
  std::vector<ParamClass> out;
  const ParamClass* norm = nullptr;
  for (const ParamClass& param : work.params) {
    if (param.stream != Stream::kModel || !IsInLayer(param) ||
        OfDenseMlp(param)) {
      continue;
    }
    if (!param.type.shape) return {};
    const auto tensors =
        TensorsOfLayer(param, *work.model->layers, with_experts);
    if (!tensors) return {};
    out.push_back(param);
    out.back().count = Times(*tensors, layers);
    if (param.role.module_role == Role::kNorm &&
        *param.type.shape == Shape{*hidden}) {
      norm = &param;
    }
  }
  if (out.empty()) return {};
  out.push_back(ProjectionLike(*output, *hidden, layers));
  if (norm != nullptr) {
    out.push_back(*norm);
    out.back().name = "eh_norm";
    out.back().role = {};
    out.back().count = Times(kNorms, layers);
  }
  return out;
}

CostInputs WithNextTokenLayers(const CostInputs& work) {
  CostInputs out = work;
  const int64_t layers = std::exchange(out.next_token_layers, 0);
  out.next_token_params.clear();
  for (const ParamClass& further : work.next_token_params) {
    const auto like = std::find_if(
        out.params.begin(), out.params.end(), [&](const ParamClass& param) {
          return param.name == further.name && param.type == further.type;
        });
    if (like == out.params.end()) {
      out.params.push_back(further);
    } else {
      like->count += further.count;
    }
  }
  if (out.model && out.model->layers) *out.model->layers += layers;
  if (out.model && out.model->attention_layers) {
    *out.model->attention_layers += layers;
  }
  if (out.attention_layers) *out.attention_layers += Real(layers);
  return out;
}

std::optional<NotKnown> MissingNextTokenLayers(const CostInputs& work) {
  if (!work.LacksLayers()) return std::nullopt;
  return NotKnown{
      .what = "the bytes of " + Counted(work.next_token_layers, "layer") +
              " that `num_nextn_predict_layers` adds: the parameters do not "
              "have them",
      .settled_by = "a manifest of a model that has them"};
}

}  // namespace shardc::cost
