#include "plan/plan_parameters.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "model/manifest.h"
#include "program/facts.h"
#include "roles/described.h"

namespace shardc {
namespace {

// Parameters as facts/parameters.h reads them, with each distinct type once.
class Tensors {
 public:
  void Add(std::string_view name, uint32_t type) {
    tensors_.push_back({name, type});
  }
  // Returns the number of a type.
  uint32_t Number(const TensorType& type) {
    const auto next = static_cast<uint32_t>(types_.size());
    const auto [at, fresh] = numbers_.try_emplace(type, next);
    if (fresh) types_.push_back(type);
    return at->second;
  }
  const std::vector<TensorType>& types() const { return types_; }
  // `described` is null if the plan has no description of the model's family.
  facts::ParameterTable Find(
      char separator, const ModelConfig* config,
      const std::shared_ptr<const program::Facts>& described) const {
    std::optional<DescribedRoles> family;
    if (described != nullptr) family.emplace(described);
    return facts::FindParameters({.tensors = tensors_,
                                  .types = types_,
                                  .separator = separator,
                                  .config = config,
                                  .family = family ? &*family : nullptr});
  }

 private:
  std::vector<Tensor> tensors_;
  std::vector<TensorType> types_;
  std::map<TensorType, uint32_t> numbers_;
};

}  // namespace

facts::ParameterTable ParametersOf(const ReadPlan& plan, char separator,
                                   const ModelConfig* config) {
  Tensors tensors;
  for (const ReadParam& param : plan.params) {
    tensors.Add(param.name, tensors.Number(param.type));
  }
  return tensors.Find(separator, config, plan.described);
}

facts::ParameterTable ParametersOf(const PlanTable& table, char separator) {
  Tensors tensors;
  std::vector<uint32_t> types;
  for (const ReadParam& param : table.classes.params) {
    types.push_back(tensors.Number(param.type));
  }
  for (size_t i = 0; i < table.names.size(); ++i) {
    tensors.Add(table.names[i], types[table.class_of[i]]);
  }
  return tensors.Find(separator, nullptr, nullptr);
}

std::vector<bool> StrangeGroupsOf(const ReadPlan& plan,
                                  const facts::ParameterTable& parameters,
                                  char separator) {
  Tensors tensors;
  for (const ReadParam& param : plan.params) tensors.Number(param.type);
  return facts::StrangeGroups(parameters, tensors.types(), separator);
}

}  // namespace shardc
