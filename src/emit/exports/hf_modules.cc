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

#include "emit/exports/tensor_parallel.h"
#include "model/name.h"
#include "source/after_last.h"

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

HfModules ModulesOf(const Request& request, const std::string& axis) {
  HfModules out;
  for (const ReadParam& param : request.plan.params) {
    const std::string name =
        NameTemplate(param.name, '.', TemplateNumbers::kParts);
    const std::string module(ParentOf(name));
    const auto [at, fresh] = out.of.try_emplace(module);
    if (fresh) {
      out.order.push_back(module);
      at->second.place = param.place;
    }
    AxisSharding sharding;
    const Spec& spec = param.SpecOf(request.options.mode);
    if (const auto split = SplitBy(request.plan.mesh, axis, spec)) {
      sharding.dim = split->dim;
      sharding.stride = split->stride;
    }
    sharding.placed = param.placement.has_value();
    const Shape* const shape = param.type.shape ? &*param.type.shape : nullptr;
    sharding.rank = static_cast<int64_t>(
        shape != nullptr ? shape->size() : std::max<size_t>(spec.size(), 1));
    HfTensor& tensor = at->second.tensors[std::string(AfterLast(name, '.'))];
    tensor.shardings.insert(sharding);
    if (shape != nullptr) tensor.shapes.insert(*shape);
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
