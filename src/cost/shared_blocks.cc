// Finds how many times a step applies the weights of a block that several
// layers share. In a checkpoint, the weights of a shared block are stored only
// once, under the name of the first layer that uses them. For example, if 2
// blocks `layers.*.shared_transformer` serve 9 layers with attention, both
// blocks together run 9 times. A block then runs 4.5 times on average.
//
// Adapters inside a block are not shared: each of them belongs to one layer.
#include "cost/shared_blocks.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "model/name.h"

namespace shardc::cost {

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

}  // namespace shardc::cost
