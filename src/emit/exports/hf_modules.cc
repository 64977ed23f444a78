// Groups parameters into the modules that own them. Modules whose names differ
// only in numbers become one module. Its name has `*` for each number, as in
// transformers' plans. For example:
//
//   model.layers.0.mlp.up_proj.weight, .bias, model.layers.1.mlp.up_proj.weight
//     -> `model.layers.*.mlp.up_proj` with the tensors `weight` and `bias`
#include "emit/exports/hf_modules.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "emit/exports/hf_names.h"
#include "emit/exports/tensor_parallel.h"
#include "model/name.h"
#include "source/after_last.h"
#include "source/index.h"

namespace shardc::exports {

const AxisSharding* HfTensor::Same() const {
  return shardings.size() == 1 ? &*shardings.begin() : nullptr;
}

bool HfTensor::AnySplit() const {
  return std::any_of(shardings.begin(), shardings.end(),
                     [](const AxisSharding& sharding) {
                       return sharding.split() || sharding.placed;
                     });
}

bool HfTensor::AllVectors() const {
  return !shapes.empty() &&
         std::all_of(shapes.begin(), shapes.end(),
                     [](const Shape& shape) { return shape.size() == 1; });
}

bool HfTensor::AllScalars() const {
  return !shapes.empty() &&
         std::all_of(shapes.begin(), shapes.end(), [](const Shape& shape) {
           return std::all_of(shape.begin(), shape.end(),
                              [](int64_t size) { return size == 1; });
         });
}

const HfTensor* HfModule::Find(std::string_view leaf) const {
  const auto found = tensors.find(leaf);
  return found == tensors.end() ? nullptr : &found->second;
}

bool HfModule::AnySplit() const {
  return std::any_of(tensors.begin(), tensors.end(), [](const auto& tensor) {
    return tensor.second.AnySplit();
  });
}

namespace {

AxisSharding ShardingOf(const Request& request, const std::string& axis,
                        const ReadParam& param) {
  AxisSharding out;
  const Spec& spec = param.SpecOf(request.options.mode);
  if (const auto split = SplitBy(request.plan.mesh, axis, spec)) {
    out.dim = split->dim;
    out.stride = split->stride;
    out.parts = PartsAt(param.parts, AsIndex(split->dim));
  }
  out.placed = param.placement.has_value();
  const auto& shape = param.type.shape;
  out.rank = static_cast<int64_t>(shape ? shape->size()
                                        : std::max<size_t>(spec.size(), 1));
  return out;
}

// Changes the sharding of a tensor of one expert to that of the parameter that
// has the tensors of all experts.
void Stack(const HfName& name, const std::string& axis, const ReadParam& param,
           AxisSharding& sharding) {
  ++sharding.rank;
  if (sharding.split()) {
    if (sharding.dim == 0) sharding.parts *= name.packed;
    ++sharding.dim;
  } else if (param.placement && param.placement->axis == axis) {
    sharding.dim = 0;
    sharding.placed = false;
  }
}

}  // namespace

HfModules ModulesOf(const Request& request, const std::string& axis,
                    bool converts) {
  HfModules out;
  const HfNames names(request.plan, converts);
  for (const ReadParam& param : request.plan.params) {
    const HfName name =
        names.Of(NameTemplate(param.name, '.', TemplateNumbers::kParts));
    const std::string module(ParentOf(name.name));
    if (name.buffer && HoldsExperts(module)) continue;
    const auto [at, fresh] = out.of.try_emplace(module);
    if (fresh) {
      out.order.push_back(module);
      at->second.place = param.place;
    }
    AxisSharding sharding = ShardingOf(request, axis, param);
    if (name.stacked) Stack(name, axis, param, sharding);
    HfTensor& tensor =
        at->second.tensors[std::string(AfterLast(name.name, '.'))];
    tensor.shardings.insert(sharding);
    tensor.buffer = name.buffer;
    if (!param.type.shape) continue;
    Shape shape = *param.type.shape;
    if (name.stacked) {
      // The number of experts is not counted: no style depends on it.
      if (!shape.empty()) shape[0] *= name.packed;
      shape.insert(shape.begin(), 1);
    }
    tensor.shapes.insert(std::move(shape));
  }
  return out;
}

std::string_view ParentOf(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view()
                                       : name.substr(0, dot);
}

Role RoleOfModule(const std::string& name) {
  return Classify(name + ".weight", '.').module_role;
}

bool HasChildren(const HfModules& modules, std::string_view name) {
  const std::string inside = std::string(name) + ".";
  const auto next = modules.of.lower_bound(inside);
  return next != modules.of.end() && next->first.starts_with(inside);
}

bool HoldsExperts(std::string_view name) {
  return AfterLast(name, '.') == "experts";
}

}  // namespace shardc::exports
