// Compares the structure of small models of every family with
// testdata/tables/step_structure.txt: the roles of their parameters, also for
// scanned layers, the kinds of their layers, and the ops and parameters of each
// pipeline stage.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/size.h"
#include "step/accumulate.h"
#include "step/build.h"
#include "step/graph_writer.h"
#include "step/layer_fold.h"
#include "step/lines.h"
#include "step/roles.h"
#include "step/small_models.h"
#include "tables.h"

namespace shardc::step {
namespace {

// Returns the name without its first number, such as "layers.q" for
// "layers.3.q"; empty if it has no number.
std::string WithoutLayer(const std::string& name, char separator) {
  for (size_t i = 0; i + 1 < name.size(); ++i) {
    if (name[i] != separator || std::isdigit(name[i + 1]) == 0) continue;
    const size_t end = name.find_first_not_of("0123456789", i + 1);
    if (end == std::string::npos) return name.substr(0, i);
    if (name[end] == separator) return name.substr(0, i) + name.substr(end);
  }
  return "";
}

// Returns the tree with scanned layers: one tensor for each parameter of all
// layers, whose dimension `at` counts the layers.
Manifest Scanned(const Manifest& from, size_t at) {
  std::map<std::string, std::vector<const Tensor*>> groups;
  for (const Tensor& tensor : from.tensors) {
    const std::string name =
        WithoutLayer(std::string(tensor.name), from.separator);
    if (!name.empty()) groups[name].push_back(&tensor);
  }
  ManifestBuilder builder;
  for (const Tensor& tensor : from.tensors) {
    if (WithoutLayer(std::string(tensor.name), from.separator).empty()) {
      builder.Add(tensor.name, from.TypeOf(tensor));
    }
  }
  for (const auto& [name, tensors] : groups) {
    TensorType type = from.TypeOf(*tensors.front());
    Shape& shape = type.shape.value();
    shape.insert(
        shape.begin() + static_cast<int64_t>(std::min(at, shape.size())),
        static_cast<int64_t>(tensors.size()));
    builder.Add(name, std::move(type));
  }
  Manifest out = builder.Take();
  out.separator = from.separator;
  out.source = from.source;
  return out;
}

std::string RolesText(const Described& model, const Manifest& manifest) {
  Findings findings;
  const auto formulas =
      Formulas::Make(*model.description, &model.config, findings);
  REQUIRE(formulas != nullptr);
  const auto roles =
      AssignRoles(*model.description, *formulas, manifest, findings);
  if (!roles) return "refused: " + TextOf(findings) + "\n";
  std::string out = std::to_string(roles->layers) + " layers;";
  for (size_t role = 0; role < roles->in_layers.size(); ++role) {
    int64_t rows = 0;
    for (int64_t layer = 0; layer < roles->layers; ++layer) {
      rows += static_cast<int64_t>(
          roles->rows[role * AsIndex(roles->layers) + AsIndex(layer)].size());
    }
    if (rows == 0 && !roles->exists[role]) continue;
    out += " " + model.description->roles[role].name + " " +
           std::to_string(rows) + (roles->in_layers[role] ? "" : " once") +
           (roles->by_expert[role] ? " by expert" : "") +
           (roles->exists[role] ? "" : " not expected") + ",";
  }
  std::map<int, int64_t> dims;
  for (const TensorRole& tensor : roles->tensors) ++dims[tensor.stack_dim];
  out += " stacked";
  for (const auto& [dim, count] : dims) {
    out += " " + std::to_string(count) + " at " + std::to_string(dim) + ",";
  }
  out += "\n";
  for (const RoleProblem& problem : roles->problems) {
    out += "  " + std::string(printing::EnumeratorName(problem.fault)) + " " +
           problem.message + "\n";
  }
  return out;
}

std::string KindsText(const Described& model) {
  Findings findings;
  const auto formulas =
      Formulas::Make(*model.description, &model.config, findings);
  REQUIRE(formulas != nullptr);
  const auto roles =
      AssignRoles(*model.description, *formulas, model.manifest, findings);
  REQUIRE(roles.has_value());
  std::string out;
  for (const Mode mode : {Mode::kTrain, Mode::kDecode}) {
    // Here all tensors of one shape and dtype have the same sharding and are
    // one class.
    std::vector<uint32_t> class_of;
    for (const Tensor& tensor : model.manifest.tensors) {
      class_of.push_back(tensor.type);
    }
    const auto kinds =
        LayerKinds(*model.description, &model.config, *roles, mode, class_of);
    out += std::string(ModeName(mode)) + ":";
    if (!kinds) out += " none";
    for (const int32_t kind : kinds.value_or(std::vector<int32_t>{})) {
      out += " " + std::to_string(kind);
    }
    out += "\n";
  }
  return out;
}

// Returns how many ops of each phase belong to each of two stages.
std::string StagesText(const Family& family, int64_t micro) {
  StepModel model = Built(family, Mode::kTrain);
  Graph& graph = model.graph;
  Differentiate(graph);
  if (micro > 1) REQUIRE(Accumulate(graph, micro, Reduction::kSharded));
  AppendOptimizer(graph);
  StageDivision division;
  division.stages = 2;
  int32_t layers = 0;
  for (const Op& op : graph.ops) layers = std::max(layers, op.layer + 1);
  for (int32_t i = 0; i < layers; ++i) {
    division.of_layer.push_back(i < layers / 2 ? 0 : 1);
  }
  const std::vector<OpStage> ops = StagesOfOps(graph, division, {}, micro > 1);
  std::map<std::string, int64_t> counts;
  for (size_t i = 0; i < ops.size(); ++i) {
    const std::string_view phase = printing::EnumeratorName(graph.ops[i].phase);
    std::string key = std::string(phase.substr(1)) + " " +
                      std::string(printing::EnumeratorName(ops[i].work));
    if (ops[i].stage >= 0) key += " of " + std::to_string(ops[i].stage);
    if (ops[i].outside) key += " outside";
    ++counts[key];
  }
  std::string out;
  for (const auto& [key, count] : counts) {
    out += key + ": " + std::to_string(count) + ", ";
  }
  const auto of_parameters = StagesOfParameters(graph, ops);
  std::map<std::vector<int32_t>, std::string> read;
  for (size_t i = 0; i < of_parameters.size(); ++i) {
    const Parameter& parameter = graph.parameters[i];
    if (parameter.layer > 0) continue;
    read[of_parameters[i]] += " " + parameter.role;
  }
  for (const auto& [stages, names] : read) {
    out += "\n  read by";
    for (const int32_t stage : stages) out += " " + std::to_string(stage);
    out += ":" + names;
  }
  return out + "\n";
}

std::string Result(const TableCase& given) {
  const auto number = static_cast<size_t>(std::stoi(given.Text("family")));
  REQUIRE(number < kFamilies.size());
  const Family& family = kFamilies[number];
  const Described model = ModelOf(family);
  std::string out = "roles: " + RolesText(model, model.manifest);
  for (const size_t at : {size_t{0}, size_t{1}}) {
    out += "scanned at " + std::to_string(at) + ": " +
           RolesText(model, Scanned(model.manifest, at));
  }
  out += "kinds in " + KindsText(model);
  if (!HasMode(*model.description, &model.config, Mode::kTrain)) return out;
  out += "stages: " + StagesText(family, 1);
  return out + "stages, accumulated: " + StagesText(family, 2);
}

TEST_CASE("the structure of every family is as written") {
  size_t cases = 0;
  CheckTable("step_structure.txt", [&](const TableCase& given) {
    ++cases;
    return Result(given);
  });
  CHECK(cases == kFamilies.size());
}

}  // namespace
}  // namespace shardc::step
