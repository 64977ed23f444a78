// Which meshes a model fits under its rules, the cost of each, and the best of
// them.
#ifndef SHARDC_COST_FIT_H_
#define SHARDC_COST_FIT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cost/report.h"
#include "cost/settings.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "model/rules.h"
#include "plan/compile.h"
#include "source/finding.h"

namespace shardc::cost {

struct FitInputs {
  RuleSet rules;
  Manifest manifest;
  CompileOptions options;
  std::optional<ModelConfig> model;
  Mesh like;  // mesh whose device profile is used, if given
  Mode mode = Mode::kTrain;
  Settings settings;
  // The communication of the step's program, if there is one; an empty
  // function: not used.
  std::function<std::optional<Communication>(const Compiled&,
                                             const CostInputs&)>
      program;
};

struct FitMesh {
  Mesh mesh;
  bool legal = false;
  std::vector<std::string> reasons;  // why it is illegal
  Memory memory;
  std::optional<int64_t> communication;  // bytes a device sends per step
  std::optional<Time> time;
  std::optional<double> flops;  // per device and step

  // False only if the memory is known.
  bool Fits() const { return legal && memory.Fits().value_or(true); }
};

// Returns nullopt with findings if the mesh cannot be compiled.
std::optional<FitMesh> FitOn(const FitInputs& inputs, const Mesh& mesh,
                             Findings& findings);

// The parallelism axes in force, the outermost first: data, fully sharded,
// experts if the model has some, sequence, tensor.
std::vector<std::string> UsualAxes(const RuleSet& rules, bool experts,
                                   bool sequence);
// All factorisations of the device count over the axes, in a fixed order; the
// first axis is the outermost. Returns nullopt if there are more than `most`.
std::optional<std::vector<Mesh>> MeshesOf(int64_t devices,
                                          const std::vector<std::string>& axes,
                                          size_t most);

// Sorts meshes that fit first, then the legal ones; among those by time, or if
// no time is known by bytes sent, then by memory.
void SortByCost(std::vector<FitMesh>& meshes);
// The legal mesh that lacks the least memory; null if none is legal.
const FitMesh* NearestToFit(const std::vector<FitMesh>& meshes);

// One axis alone, with the legality of each size.
struct AxisSize {
  std::string axis;
  FitMesh fit;
};

struct FitReport {
  std::string target;
  Mode mode = Mode::kTrain;
  Settings settings;
  std::vector<AxisSize> sizes;
  std::vector<FitMesh> meshes;  // sorted; empty if no device count is given
  std::vector<std::string> unknown;
};

}  // namespace shardc::cost

#endif  // SHARDC_COST_FIT_H_
