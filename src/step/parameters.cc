// Creates an input of the graph for each parameter: first for the parameters
// outside of layers, then for those of each layer. If all layers of a stack
// share one parameter, its input is created for the first layer, and the other
// layers use this input. A role that is tied to another role uses the other
// role's input:
//
//   lm_head, tied to embed  ->  lm_head uses the input of embed
#include "step/parameters.h"

#include <algorithm>
#include <string>

#include "source/index.h"

namespace shardc::step {

bool IsWritten(std::span<const int32_t> only_layers, int32_t layer) {
  return only_layers.empty() ||
         std::find(only_layers.begin(), only_layers.end(), layer) !=
             only_layers.end();
}

void Parameters::Make(std::span<const int32_t> only_layers,
                      LabelTable& labels) {
  const size_t roles = description_.roles.size();
  values_.assign(roles * AsIndex(roles_.layers), kNoValue);
  std::vector<Labels> of_role(roles);
  for (size_t role = 0; role < roles; ++role) {
    if (!AnyRow(role)) continue;
    for (const DescribedDim& dim : description_.roles[role].dims) {
      of_role[role].push_back(labels.Of(dim));
    }
  }
  for (const bool in_layers : {false, true}) {
    const int64_t layers = in_layers ? roles_.layers : 1;
    for (int32_t layer = 0; layer < layers; ++layer) {
      for (size_t role = 0; role < roles; ++role) {
        if (roles_.in_layers[role] != in_layers) continue;
        if (in_layers && !IsWritten(only_layers, layer) &&
            !Serves(role, layer)) {
          continue;
        }
        MakeOne(role, in_layers ? layer : -1, of_role[role]);
      }
    }
  }
  write_.layer = -1;
}

// Returns whether the other layers of a stack use the parameter of this layer,
// because the role is shared.
bool Parameters::Serves(size_t role, int64_t layer) const {
  const DescribedRole& described = description_.roles[role];
  return described.shared && layer == roles_.BeginOf(described.stack);
}

bool Parameters::AnyRow(size_t role) const {
  const size_t begin = role * AsIndex(roles_.layers);
  for (size_t i = 0; i < AsIndex(roles_.layers); ++i) {
    if (!roles_.rows[begin + i].empty()) return true;
  }
  return false;
}

void Parameters::MakeOne(size_t role, int32_t layer, const Labels& labels) {
  const size_t at = role * AsIndex(roles_.layers) + AsIndex(std::max(layer, 0));
  if (roles_.rows[at].empty()) return;
  const std::string& name = description_.roles[role].name;
  write_.layer = layer;
  write_.name = name;
  values_[at] = write_.Input(labels);
  // Parameters with one dimension, such as norms, have no weight decay.
  const int64_t row = roles_.rows[at].front();
  write_.graph().parameters.push_back(
      {name, layer, values_[at], roles_.rows[at], labels.size() > 1, true,
       row < 0 ? -1 : roles_.tensors[AsIndex(row)].stack_dim});
}

ValueId Parameters::Of(int32_t role, int32_t layer) const {
  const bool in_layers = roles_.in_layers[AsIndex(role)];
  const DescribedRole& described = description_.roles[AsIndex(role)];
  if (in_layers && layer < 0) return kNoValue;
  const ValueId value =
      values_[AsIndex(role * roles_.layers + (in_layers ? layer : 0))];
  if (value != kNoValue) return value;
  const auto first = static_cast<int32_t>(roles_.BeginOf(described.stack));
  if (described.shared && layer != first) return Of(role, first);
  if (described.tied.empty()) return value;
  const int32_t other = RoleNamed(described.tied);
  return other < 0 ? kNoValue : Of(other, layer);
}

ValueId Parameters::BiasOf(int32_t role, int32_t layer) {
  auto [at, is_new] = biases_.emplace(role, -1);
  if (is_new) {
    at->second = RoleNamed(description_.roles[AsIndex(role)].name + ".bias");
  }
  return at->second < 0 ? kNoValue : Of(at->second, layer);
}

int32_t Parameters::RoleNamed(std::string_view name) const {
  for (size_t i = 0; i < description_.roles.size(); ++i) {
    if (description_.roles[i].name == name) return static_cast<int32_t>(i);
  }
  return -1;
}

}  // namespace shardc::step
