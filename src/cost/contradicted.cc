// Compares the sizes that a figure takes from the model's configuration with
// the parameters: heads, the hidden size, experts and layers. A configuration
// of another model gives wrong operations of attention and wrong activations.
// It is enough that one parameter of a role has the size, because a tree may
// hold several towers.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cost/unknown_roles.h"
#include "roles/stated_heads.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::cost {
namespace {

constexpr std::string_view kSettles = "the config.json of these parameters";

bool IsOfModel(const ParamClass& param) {
  return param.IsWeight() && param.IsApplied() && !param.mixes &&
         param.packing == 1 && !param.role.packed_blocks &&
         (param.stream == Stream::kModel || param.stream == Stream::kEncoder);
}

void AddHeads(const CostInputs& work, std::vector<NotKnown>& out) {
  // The heads of latent attention have two sizes.
  const auto heads = HeadsOf(*work.model);
  if (!heads || work.model->latent_rank) return;
  const int64_t query = heads->heads * heads->head_dim;
  const bool gated = std::any_of(
      work.params.begin(), work.params.end(), [&](const ParamClass& param) {
        return param.role.module_role == Role::kOutput && param.IsWeight() &&
               param.SizeAt(param.in_dim) == query;
      });
  bool has_queries = false;
  for (const StatedWidth& stated : StatedWidths(*heads, gated)) {
    const ParamClass* first = nullptr;
    bool fits = false;
    for (const ParamClass& param : work.params) {
      if (param.role.module_role != stated.role || !IsOfModel(param)) continue;
      if (first == nullptr) first = &param;
      fits =
          fits || std::find(stated.widths.begin(), stated.widths.end(),
                            param.SizeAt(param.out_dim)) != stated.widths.end();
    }
    has_queries = has_queries || (fits && stated.role == Role::kQuery);
    // If separate query projections fit, a fused one is of another tower.
    if (first == nullptr || fits ||
        (stated.role == Role::kFusedQkv && has_queries)) {
      continue;
    }
    out.push_back(
        {.what = "the heads and their size: the configuration gives " +
                 stated.text + ", and `" + first->name + "` has " +
                 CountText(first->SizeAt(first->out_dim)) + " outputs",
         .settled_by = std::string(kSettles)});
    return;
  }
}

void AddHidden(const CostInputs& work, std::vector<NotKnown>& out) {
  const auto hidden = work.model->hidden;
  if (!hidden) return;
  bool any = false;
  for (const ParamClass& param : work.params) {
    if (!IsOfModel(param)) continue;
    const Shape& shape = *param.type.shape;
    if (std::find(shape.begin(), shape.end(), *hidden) != shape.end()) return;
    any = true;
  }
  if (!any) return;
  out.push_back({.what = "the hidden size: the configuration gives " +
                         CountText(*hidden) +
                         ", which is no dimension of any matrix",
                 .settled_by = std::string(kSettles)});
}

void AddExperts(const CostInputs& work, std::vector<NotKnown>& out) {
  const auto experts = work.model->experts;
  if (!experts) return;
  const ParamClass* first = nullptr;
  for (const ParamClass& param : work.params) {
    const int rank = param.Rank();
    if (!param.role.expert || !param.IsWeight() || rank < 3) continue;
    const Shape& shape = *param.type.shape;
    if (std::find(shape.begin(), shape.end(), *experts) != shape.end()) return;
    if (first == nullptr) first = &param;
  }
  if (first == nullptr) return;
  out.push_back({.what = "the experts: the configuration gives " +
                         CountText(*experts) + ", and `" + first->name +
                         "` has " + CountText(first->SizeAt(first->Rank() - 3)),
                 .settled_by = std::string(kSettles)});
}

void AddLayers(const CostInputs& work, std::vector<NotKnown>& out) {
  const ModelConfig& model = *work.model;
  // Next to an encoder, each layer of the decoder attends twice, to its own
  // tokens and to the encoder's, so that projections do not count layers.
  if (!model.layers || model.has_encoder) return;
  std::set<int64_t> counts;
  for (const Role role : {Role::kOutput, Role::kDown, Role::kQuery}) {
    counts.insert(work.LayersWith(role));
  }
  // With mixers, a layer may be a mixer, attention or an MLP alone.
  if (std::any_of(work.params.begin(), work.params.end(),
                  [](const ParamClass& param) { return param.mixes; })) {
    counts.insert(
        CheckedAdd(work.LayersWith(Role::kOutput), work.LayersWith(Role::kDown))
            .value_or(INT64_MAX));
  }
  counts.erase(0);
  // The layers that predict further tokens, which may follow.
  int64_t further = 0;
  for (const ParamClass& param : work.params) {
    if (param.name.find("eh_proj") != std::string::npos) {
      further = CheckedAdd(further, param.Matrices()).value_or(INT64_MAX);
    }
  }
  const auto fits = [&](int64_t layers) {
    const auto at = counts.lower_bound(layers);
    return at != counts.end() && *at - layers <= further;
  };
  if (counts.empty() || fits(*model.layers) ||
      (model.attention_layers && fits(*model.attention_layers))) {
    return;
  }
  out.push_back({.what = "the number of layers: the configuration gives " +
                         CountText(*model.layers) +
                         ", and the parameters are those of " +
                         CountText(*counts.rbegin()),
                 .settled_by = std::string(kSettles)});
}

}  // namespace

std::vector<NotKnown> ContradictedSizes(const CostInputs& work) {
  std::vector<NotKnown> out;
  // A stage has a part of the layers, and the complete model was compared.
  if (!work.model || work.hidden_size) return out;
  AddHeads(work, out);
  AddHidden(work, out);
  AddExperts(work, out);
  AddLayers(work, out);
  return out;
}

}  // namespace shardc::cost
