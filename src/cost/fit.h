// Evaluates a model on the meshes of a device count under its rules: which
// meshes are legal and fit the memory, the cost of each, and the best one.
#ifndef SHARDC_COST_FIT_H_
#define SHARDC_COST_FIT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/program.h"
#include "cost/report.h"
#include "cost/settings.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "model/rules.h"
#include "plan/compile.h"
#include "plan/representatives.h"
#include "plan/stage_units.h"
#include "source/finding.h"

namespace shardc::cost {

// The pipeline axis of a target's meshes, and how the model is divided into
// stages on each mesh.
struct StagesOfMeshes {
  std::string axis;  // a mesh without this axis has no stages
  // Returns the request to divide the model on a mesh. If `microbatches` is
  // given, it replaces the number of micro-batches that the target declares. On
  // failure, adds an error to `findings` and returns nullopt. Several threads
  // may call the function.
  std::function<std::optional<StageRequest>(const Mesh& mesh,
                                            std::optional<int64_t> microbatches,
                                            Findings& findings)>
      request;
  // True if the messages between ranks are exposed: a rank computes nothing
  // while it sends.
  bool exposed = false;
};

struct FitStages {
  std::string axis, schedule;
  int64_t microbatches = 1;
  std::vector<int64_t> layers;  // number of layers of each stage
  // The idle fraction of the step; nullopt if the tasks have no times.
  std::optional<double> bubble;
  // The seconds of a step; nullopt without a profile.
  std::optional<double> seconds;
};

// The cost of a pipeline as `search --all` compares it with other meshes: the
// memory of the fullest rank, and the bytes that the busiest rank sends.
struct StagedFit {
  FitStages stages;
  Memory memory;
  // nullopt if the roles of parameters are not known.
  std::optional<int64_t> communication;
};

// Returns the cost of the model's stages on the mesh of `compiled`, with the
// formulas of the command `cost`. If DivideIntoStages or PipelineCostOf fails,
// adds the error to `findings` and returns nullopt.
std::optional<StagedFit> StagedFitOf(const Compiled& compiled,
                                     const CostInputs& work,
                                     const Settings& settings,
                                     const StageRequest& request, bool exposed,
                                     Findings& findings);

// The target to evaluate, and the settings that do not depend on the mesh.
struct FitInputs {
  RuleSet rules;
  Manifest manifest;
  CompileOptions options;
  std::optional<ModelConfig> model;
  // The mesh that the target declares. Only its `device`, the type of
  // accelerator, is used: all evaluated meshes have this device.
  Mesh like;
  Mode mode = Mode::kTrain;
  Settings settings;
  // The pipeline for which the model is divided into stages; nullopt if the
  // model is not divided.
  std::optional<StagesOfMeshes> stages;
};

struct FitMesh {
  Mesh mesh;
  // The axes that shard the batch, if they differ from those of the rules:
  // MeshEvaluator also tries to shard the batch over the experts' axis, and
  // sets this if the mesh then costs less. Otherwise empty.
  AxisGroup batch;
  bool legal = false;
  std::vector<std::string> reasons;  // why the mesh is illegal
  Memory memory;
  // The bytes that the busiest device sends in a step.
  std::optional<int64_t> communication;
  std::optional<Time> time;
  std::optional<ExpectedTime> expected;
  // The floating-point operations of a device in a step.
  std::optional<double> flops;
  std::optional<FitStages> stages;
  std::vector<Finding>
      // The errors in dividing the model into stages; empty if there are none.
      refused;
  // The rank of the mesh by cost, which SortByCost sets for a mesh that fits or
  // may fit and whose time is known. The best mesh has rank 1. Meshes of the
  // same rank tie.
  std::optional<int64_t> rank;

  // Returns the seconds of a step by which meshes are compared. For a pipeline,
  // this is the time of the schedule plus the time of the update. In training,
  // it is the expected time if that is known. In all other cases, it is the sum
  // of the times of computation, memory and communication. Returns nullopt if
  // no time is known, for example because the profile, the batch or the length
  // is missing.
  std::optional<double> Seconds() const;

  // Returns the bytes of the fullest device, by which meshes are sorted.
  // Returns INT64_MAX if the bytes of the parameters or the sum are unknown.
  // Otherwise a mesh with unknown parameters would come first, because the sum
  // of its other components is small.
  int64_t MemoryOrder() const {
    const bool known = memory.most.Of(Component::kParameters).has_value();
    return known ? memory.most.total.value_or(INT64_MAX) : INT64_MAX;
  }
  // Returns whether the memory suffices for what is known of the step. False if
  // the roles of parameters are not known (Memory::at_least).
  bool Fits() const {
    return legal && !memory.at_least && memory.Fits().value_or(true);
  }
  // Returns whether the step may fit: the lower estimate of its memory is
  // within the capacity of a device, and the upper estimate is not.
  bool MayFit() const { return legal && memory.Verdict() == Fit::kMayFit; }
};

// Evaluates a target on the mesh for which it is compiled. `traffic` must be
// made for the same target. `compiled` may have only one parameter of each
// group, such as `layers.0.w` for all `layers.*.w` with the same layout. In
// this case `representatives` must be given, because it has the number of
// parameters in each group.
FitMesh FitOf(const Compiled& compiled, const CostInputs& work,
              const Settings& settings, StepTraffic& traffic,
              const Representatives* representatives = nullptr);

// Evaluates meshes of one target. The work that does not depend on the mesh is
// done only once: names are matched, parameters are grouped, and the step's
// graph is built.
class MeshEvaluator {
 public:
  // Makes an evaluator for meshes with these axes. Keeps a reference to the
  // inputs. If the target cannot be compiled, adds errors to `findings` and
  // returns null.
  static std::unique_ptr<MeshEvaluator> Make(
      const FitInputs& inputs, const std::vector<std::string>& axes,
      Findings& findings);

  // Evaluates a mesh. If the mesh cannot be compiled, adds errors to `findings`
  // and returns nullopt. If the mesh is legal and has several devices along the
  // experts' axis, it is also evaluated with the batch sharded over that axis
  // (batch_over_experts_), and the better result is returned.
  std::optional<FitMesh> On(const Mesh& mesh, Findings& findings);
  // Evaluates several meshes, on at most `threads` threads. If one of them
  // cannot be compiled, adds errors to `findings` and returns nullopt.
  std::optional<std::vector<FitMesh>> OnEach(std::span<const Mesh> meshes,
                                             int threads, Findings& findings);

  // Uses these settings for all meshes that are evaluated afterwards.
  void Use(const Settings& settings);

  // Returns the number of ops that were lowered so far, over all meshes.
  int64_t lowered_ops() const { return traffic_->lowered_ops(); }

 private:
  MeshEvaluator(const FitInputs& inputs, std::unique_ptr<const Compiled> all,
                Representatives representatives,
                std::unique_ptr<const Compiled> few);
  std::optional<FitMesh> OnWith(const Mesh& mesh, StepTraffic& traffic,
                                Findings& findings) const;
  std::optional<FitMesh> Evaluate(const Mesh& mesh, const RuleSet& rules,
                                  StepTraffic& traffic,
                                  Findings& findings) const;
  // Evaluates the model on a mesh with a pipeline axis, over which the model is
  // divided into stages.
  std::optional<FitMesh> EvaluateStages(Mesh mesh, RuleSet rules,
                                        Findings& findings) const;

  const FitInputs& inputs_;
  Settings settings_;
  const std::unique_ptr<const Compiled> all_;
  const Representatives representatives_;
  // The target, compiled with only the parameters in `representatives_`.
  const std::unique_ptr<const Compiled> few_;
  // The rules, changed so that the batch is also sharded over the experts'
  // axis. It is nullopt if the model has no experts, if the rules have no
  // experts' axis, or if they already shard the batch over that axis.
  std::optional<RuleSet> batch_over_experts_;
  std::optional<StepTraffic> traffic_;
};

// Returns the parallelism axes that the rules use, from the outermost to the
// innermost: data, fully sharded, experts (only if `experts` is true), sequence
// (only if `sequence` is true), tensor.
std::vector<std::string> UsualAxes(const RuleSet& rules, bool experts,
                                   bool sequence);
// Returns all factorisations of the device count over the axes, in a fixed
// order. The first axis is the outermost. Returns nullopt if there are more
// than `most` factorisations.
std::optional<std::vector<Mesh>> MeshesOf(int64_t devices,
                                          const std::vector<std::string>& axes,
                                          size_t most);

// Two times that differ by less than this many per cent are a tie: the expected
// time of published runs has a median error of about 4 %.
inline constexpr int64_t kTiePerHundred = 5;

// Sorts the meshes and sets their ranks. The meshes are first divided into five
// groups: meshes that fit, meshes that may fit, meshes of unknown memory
// (MemoryOrder), legal meshes that do not fit, and illegal meshes. Each group
// is sorted by time, then by bytes sent, then by memory. A mesh with an unknown
// figure follows the meshes that have the figure. In the first two groups, the
// fastest mesh and the meshes that tie with it are then sorted again: by
// memory, by the number of axes in use, and by time. The same is done with the
// fastest of the remaining meshes, and so on.
void SortByCost(std::vector<FitMesh>& meshes);
// Returns the legal mesh on which a device holds the fewest known bytes.
// Returns the first legal mesh if the bytes are unknown on all of them, and
// null if no mesh is legal.
const FitMesh* NearestToFit(const std::vector<FitMesh>& meshes);

// A change of the settings, written as flags, and a mesh that fits with this
// change.
struct FitChange {
  std::vector<std::string> flags;  // for example "--remat nothing_saveable"
  FitMesh fit;
};
// Finds the smallest change of the settings with which a mesh fits, for the
// case that no mesh fits. Returns the change together with the best mesh that
// fits. The changes are tried in this order: keep nothing for the backward
// pass; more micro-batches (up to 64); both. Only the 32 legal meshes on which
// a device holds the fewest known bytes are tried. Returns nullopt if no change
// suffices, if the mode is not train, or if the batch or the length is missing.
// Changes the evaluator's settings.
std::optional<FitChange> ChangeThatFits(const std::vector<FitMesh>& meshes,
                                        const Settings& settings, Mode mode,
                                        MeshEvaluator& evaluator,
                                        Findings& findings);

// One size of an axis, evaluated on a mesh that has only this axis.
struct AxisSize {
  std::string axis;
  FitMesh fit;
};

struct FitReport {
  std::string target;
  Mode mode = Mode::kTrain;
  Settings settings;
  std::vector<AxisSize> sizes;
  // The meshes from best to worst; empty if no number of devices is given.
  std::vector<FitMesh> meshes;
  // The smallest change with which a mesh fits; set only if no mesh fits.
  std::optional<FitChange> change;
  std::vector<NotKnown> unknown;
  // True if the model is divided into pipeline stages and the user gave no
  // number of micro-batches. Each mesh then uses the default number of its
  // pipeline schedule.
  bool usual_microbatches = false;
};

// Makes a text that is equal for two rules files that shard a model in the same
// way.

// Returns a text with the mesh, the sharding of the parameters, and the mesh
// axes of the activations. If two targets have equal texts, and also the same
// settings, model configuration and `model:` section of the rules, the figures
// of their training steps are equal. `work` are the inputs made of `compiled`.
// Returns nullopt if a spec of training is illegal. Also returns nullopt if
// parameters whose names differ only in numbers have different types or
// shardings, because the text has one entry for them.
std::optional<std::string> SignatureOf(const Compiled& compiled,
                                       const CostInputs& work);

}  // namespace shardc::cost

#endif  // SHARDC_COST_FIT_H_
