// Which meshes a model can lie on under its rules, what each costs, and which
// is best.
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
  Mesh like;  // its device, where a mesh was given
  Mode mode = Mode::kTrain;
  Settings settings;
  // What the step's program sends, where there is one; empty: nobody reads it.
  std::function<std::optional<Communication>(const Compiled&, const Work&)>
      program;
};

struct FitMesh {
  Mesh mesh;
  bool legal = false;
  std::vector<std::string> reasons;  // why not
  Memory memory;
  std::optional<int64_t> communication;  // bytes of a device in a step
  std::optional<Time> time;
  std::optional<double> flops;  // of a device in a step

  // False only where it is known.
  bool Fits() const { return legal && memory.Fits().value_or(true); }
};

// A mesh that cannot be compiled at all gives findings and nothing.
std::optional<FitMesh> FitOn(const FitInputs& inputs, const Mesh& mesh,
                             Findings& findings);

// The parallelism axes in force, the outermost first: data, fully sharded,
// experts where the model has some, sequence, tensor.
std::vector<std::string> UsualAxes(const RuleSet& rules, bool experts,
                                   bool sequence);
// Every way to share devices among axes, in a fixed order; the first axis is
// the outermost. Nothing where there are more than `most`.
std::optional<std::vector<Mesh>> MeshesOf(int64_t devices,
                                          const std::vector<std::string>& axes,
                                          size_t most);

// The better first: those that fit, then the legal; of two that both do the
// faster, or where no time is known the one that sends less, then the emptier.
void SortByCost(std::vector<FitMesh>& meshes);
// Of the legal ones the one that lacks least memory; null where none is.
const FitMesh* NearestToFit(const std::vector<FitMesh>& meshes);

// One axis alone, size by size.
struct AxisSize {
  std::string axis;
  FitMesh fit;
};

struct FitReport {
  std::string target;
  Mode mode = Mode::kTrain;
  Settings settings;
  std::vector<AxisSize> sizes;
  std::vector<FitMesh> meshes;  // sorted; empty where no devices are given
  std::vector<std::string> unknown;
};

}  // namespace shardc::cost

#endif  // SHARDC_COST_FIT_H_
