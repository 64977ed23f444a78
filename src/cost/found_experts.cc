// Finds gates and experts by their neighbours. The word `gate` names a router
// in most models with experts, and a projection in others. An expert is a
// feed-forward block below a number that is not the number of the layer. Unlike
// the number of a layer, it has nothing but feed-forward matrices below it. For
// example, with 8 experts in the configuration:
//
//   mlp.gate [14336, 4096], mlp.up [14336, 4096]     ->  a gate
//   mlp.gate [8, 4096], no up projection of 8 rows   ->  a router
//   layers.*.moe.ffns.*.up_proj, 8 for each router   ->  experts
//   block.*.layer.*.mlp.up_proj, next to attention   ->  no experts
#include "cost/found_experts.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "source/checked.h"

namespace shardc::cost {
namespace {

bool IsRouter(const ParamClass& param) {
  return param.role.module_role == Role::kRouter && !param.role.shared_expert &&
         param.role.leaf != Leaf::kBias && param.type.shape &&
         param.type.shape->size() == 2;
}

bool IsExpert(const ParamClass& param) { return param.role.expert; }

// Returns the name up to its last number, if this is the second number or a
// later one: `layers.*.moe.ffns.*`. Returns an empty text otherwise.
std::string_view NumberedBlock(std::string_view name) {
  const size_t last = name.rfind('*');
  if (last == name.npos || last + 1 == name.size() || name.find('*') == last) {
    return {};
  }
  return name.substr(0, last + 1);
}

// The parameters below the second number of a name.
struct Blocks {
  int64_t count = 0;  // the number of blocks
  bool only_mlp = true;
  std::map<std::string_view, int64_t> downs;  // by name
};

}  // namespace

void FindGates(CostInputs& work) {
  std::set<std::pair<std::string_view, Shape>> ups;
  for (const ParamClass& param : work.params) {
    if (param.role.module_role == Role::kUp && param.type.shape) {
      ups.emplace(param.role.sibling_path, *param.type.shape);
    }
  }
  for (ParamClass& param : work.params) {
    ParameterRole& role = param.role;
    if (role.module_role != Role::kRouter || param.described ||
        !param.type.shape ||
        !ups.contains({role.sibling_path, *param.type.shape})) {
      continue;
    }
    if (role.role == Role::kRouter) role.role = Role::kGate;
    role.module_role = Role::kGate;
  }
}

void FindExperts(CostInputs& work) {
  if (std::any_of(work.params.begin(), work.params.end(), IsExpert)) return;
  int64_t experts = work.model ? work.model->experts.value_or(0) : 0;
  int64_t routers = 0;
  std::map<std::string_view, Blocks> found;
  for (const ParamClass& param : work.params) {
    if (IsRouter(param)) {
      routers += param.count;
      const Shape& shape = *param.type.shape;
      if (experts == 0) experts = std::min(shape[0], shape[1]);
    }
    const std::string_view path = NumberedBlock(param.name);
    if (path.empty()) continue;
    Blocks& blocks = found[path];
    const Role role = param.role.module_role;
    blocks.only_mlp = blocks.only_mlp && IsMlp(role) && !param.described &&
                      !param.role.shared_expert;
    if (role == Role::kDown) {
      int64_t& downs = blocks.downs[param.name];
      downs += param.count;
      blocks.count = std::max(blocks.count, downs);
    }
  }
  if (experts < 2 || routers == 0) return;
  for (const auto& [path, blocks] : found) {
    if (!blocks.only_mlp || CheckedMul(experts, routers) != blocks.count) {
      continue;
    }
    for (ParamClass& param : work.params) {
      if (NumberedBlock(param.name) != path) continue;
      param.role.expert = param.role.counted_expert = true;
    }
  }
}

std::optional<NotKnown> UnfoundExperts(const CostInputs& work) {
  if (!work.model || work.model->experts.value_or(0) < 2 ||
      !work.model->layers ||
      std::any_of(work.params.begin(), work.params.end(), IsExpert)) {
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
    if (std::find(out.params.begin(), out.params.end(), param.name) ==
        out.params.end()) {
      out.params.push_back(param.name);
    }
  }
  if (blocks <= *work.model->layers) return std::nullopt;
  return out;
}

}  // namespace shardc::cost
