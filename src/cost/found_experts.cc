// Finds gates, experts and norms, and the orientation of weights, by their
// neighbours. The word `gate` names a router
// in most models with experts, and a projection in others. An expert is a
// feed-forward block below a number that is not the number of the layer. Unlike
// the number of a layer, it has nothing but feed-forward matrices below it. For
// example, with 8 experts in the configuration:
//
//   mlp.gate [14336, 4096], mlp.up [14336, 4096]     ->  a gate
//   mlp.gate [8, 4096], no up projection of 8 rows   ->  a router
//   layers.*.moe.ffns.*.up_proj, 8 for each router   ->  experts
//   block.*.layer.*.mlp.up_proj, next to attention   ->  no experts
//   layers.*.moe.all.up_proj, next to moe.ffns       ->  a shared expert
//   layers.*.scaler.w [4096], no matrix in scaler    ->  a norm
//   q.w [4096, 4096], down.w [4096, 14336]           ->  both are [out, in]
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

// Returns the path without its last `count` parts; empty if it has no more.
std::string_view Above(std::string_view path, char separator, int count) {
  for (; count > 0; --count) {
    const size_t end = path.rfind(separator);
    path = end == path.npos ? std::string_view() : path.substr(0, end);
  }
  return path;
}

// Returns the path of the module that holds the block of a projection:
// `layers.*.mlp` for `layers.*.mlp.shared.up_proj.weight`.
std::string_view AboveBlock(const ParamClass& param, char separator) {
  const std::string_view path = param.role.sibling_path;
  return Above(path.substr(0, path.find('?')), separator, 2);
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

void FindSharedExperts(CostInputs& work, char separator) {
  // The modules that hold a container of experts.
  std::set<std::string_view> above;
  for (const ParamClass& param : work.params) {
    if (!param.role.expert) continue;
    const std::string_view numbered = NumberedBlock(param.name);
    const bool counted = param.role.counted_expert && !numbered.empty();
    const std::string_view path =
        counted ? Above(numbered, separator, 2) : AboveBlock(param, separator);
    if (!path.empty() && !path.ends_with('*')) above.insert(path);
  }
  for (ParamClass& param : work.params) {
    ParameterRole& role = param.role;
    if (role.expert || param.described || !IsMlp(role.module_role)) continue;
    role.shared_expert |= above.contains(AboveBlock(param, separator));
  }
}

void FindNorms(CostInputs& work, char separator,
               std::span<const int> layer_dims) {
  const auto width = work.Hidden();
  if (!width) return;
  std::set<std::string_view> of_matrices;
  for (size_t i = 0; i < work.params.size(); ++i) {
    const ParamClass& param = work.params[i];
    if (param.type.shape && std::ssize(*param.type.shape) > layer_dims[i] + 1) {
      of_matrices.insert(Above(param.name, separator, 1));
    }
  }
  for (size_t i = 0; i < work.params.size(); ++i) {
    ParamClass& param = work.params[i];
    const bool layered =
        layer_dims[i] > 0 || param.name.find('*') != std::string::npos;
    if (param.role.module_role != Role::kOther || param.described || !layered ||
        param.role.leaf == Leaf::kBias || !param.type.shape ||
        std::ssize(*param.type.shape) != layer_dims[i] + 1 ||
        param.type.shape->back() != *width ||
        of_matrices.contains(Above(param.name, separator, 1))) {
      continue;
    }
    param.role.module_role = param.role.role = Role::kNorm;
  }
}

void FindOrientation(CostInputs& work, char separator) {
  const auto width = work.Hidden();
  const auto leaf = [&](const ParamClass& param) {
    const std::string_view name = param.name;
    return name.substr(name.rfind(separator) + 1);
  };
  const auto open = [](const ParamClass& param) {
    return param.IsWeight() && !param.role.in_first &&
           !param.role.packed_blocks;
  };
  // Whether weights with this last part are stored as [in, out].
  std::map<std::string_view, std::set<bool>> shown;
  for (const ParamClass& param : work.params) {
    const Role role = param.role.module_role;
    if (!open(param) || !width || (!TakesWidth(role) && !GivesWidth(role)) ||
        (param.SizeAt(param.in_dim) == *width) ==
            (param.SizeAt(param.out_dim) == *width)) {
      continue;
    }
    shown[leaf(param)].insert(param.in_dim < param.out_dim);
  }
  for (ParamClass& param : work.params) {
    if (!open(param)) continue;
    const auto at = shown.find(leaf(param));
    if (at == shown.end() || at->second.size() != 1) continue;
    param.role.in_first = *at->second.begin();
    if ((param.in_dim < param.out_dim) != *param.role.in_first) {
      std::swap(param.in_dim, param.out_dim);
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
