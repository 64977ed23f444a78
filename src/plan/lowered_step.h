// Builds a target's step (a graph of ops) from its compiled rules, and lowers
// it to a program for the mesh.
#ifndef SHARDC_PLAN_LOWERED_STEP_H_
#define SHARDC_PLAN_LOWERED_STEP_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/mesh.h"
#include "model/project.h"
#include "model/step_graph.h"
#include "plan/compile.h"
#include "plan/plan.h"
#include "source/finding.h"
#include "step/accumulate.h"
#include "step/build.h"
#include "step/constraints.h"
#include "step/lower.h"
#include "step/macros.h"
#include "step/program.h"
#include "step/recompute.h"
#include "step/roles.h"

namespace shardc {

// The tokens per row of a step whose length is not given.
inline constexpr int64_t kUsualLength = 8192;

struct StepInputs {
  const Compiled* compiled = nullptr;
  const ModelConfig* config = nullptr;  // The model's config.json; may be null.
  Mode mode = Mode::kTrain;
  int64_t batch = 0, length = 0;
  int64_t element_bytes = 2;  // The bytes of an element of activations.
  int64_t cache_bytes = 2;
  // The bytes of an element of a gradient. If nullopt, a gradient has the dtype
  // of its parameter.
  std::optional<int64_t> gradient_bytes = {};
  // The ZeRO stage; used in training only.
  int zero = 0;
  // The policy by which the mesh axes that shard an op are chosen. By default
  // it is the choice of XLA's partitioner and of FSDP in every mode: a weight
  // that is sharded over an axis of tokens is gathered, also in decoding.
  step::Policy policy = step::Policy::kPublished;
  bool keep_gathered = false;
  // Whether sharding conflicts are recorded, see step::LowerRequest.
  bool records_conflicts = true;
  // The rematerialisation policy; used in training only.
  step::Remat remat = {};
  // The number of micro-batches into which the batch is split; used in training
  // only.
  int64_t microbatches = 1;
  step::Reduction reduction = step::Reduction::kSharded;
  // If set, this function adds the micro-batches and the optimizer to the
  // graph, in place of step::Accumulate and step::AppendOptimizer. Pipelines
  // need it. It returns false if the loss is not a mean over tokens.
  std::function<bool(step::Graph&)> accumulate = {};
  // Whether the graph contains only one micro-batch, which represents all
  // micro-batches (step::AccumulateOne).
  bool builds_one_microbatch = false;
  // The roles of the parameters. If null, BuildStep() assigns the roles.
  const step::Roles* roles = nullptr;
  // Sharding constraints for activations. They override the constraints that
  // follow from the axis rules, which map logical axes to mesh axes.
  std::vector<step::ShardingConstraintOverride> constraints = {};
};
// Returns the name of a way to reduce the gradients of micro-batches, such as
// "once".
std::string_view ReductionName(step::Reduction reduction);
// Returns the name of a policy for choosing the mesh axes that shard an op:
// "published" or "cost".
std::string_view StepPolicyName(step::Policy policy);
// Returns the inputs of a step with the model's real sizes. If no batch is
// given, the batch has two sequences for each device. If no length is given, a
// sequence has 4,096 tokens.
StepInputs UsualStepInputs(const Compiled& compiled, const ModelConfig* config,
                           std::optional<int64_t> batch,
                           std::optional<int64_t> length = {});

// The graph of a step, its sizes, and the program to which it is lowered.
struct LoweredStep {
  step::StepModel model = {};
  step::Sizes sizes = {};
  // Indexed by parameter of the graph: the parameter's spec.
  std::vector<Spec> specs = {};
  std::optional<step::Program> program = {};
  // The reason why the step has no program with these specs; empty if it has
  // one.
  std::string why_not = {};
};

// Builds the graph of a step, its sizes and its specs, but no program. The
// graph has the given `layers`, or all layers if `layers` is empty. Returns
// nullopt after a finding.
std::optional<LoweredStep> BuildStep(const StepInputs& inputs,
                                     const std::vector<int32_t>& layers,
                                     Findings& findings,
                                     const step::AttentionForm& form = {});
// Builds only the graph of a step, without its real sizes and the specs of its
// parameters. Returns nullopt after a finding.
std::optional<step::StepModel> BuildStepModel(
    const StepInputs& inputs, const std::vector<int32_t>& layers,
    Findings& findings, const step::AttentionForm& form = {});
// Lowers the graph for a mesh, which is usually Compiled::step_mesh. If some of
// its axes are factors of the axes of the specs, the specs and the sharding
// constraints are written with the factors. Returns nullopt and sets `why` if
// the step has no program on this mesh.
std::optional<step::Program> LowerStep(const StepInputs& inputs,
                                       const LoweredStep& of, const Mesh& mesh,
                                       std::string& why);
// Lowers a graph. `sizes` has the size of each dimension label, and `specs` the
// spec of each parameter of the graph. Returns nullopt and sets `why` if the
// step has no program on this mesh.
std::optional<step::Program> LowerStep(const StepInputs& inputs,
                                       const step::Graph& graph,
                                       const step::Sizes& sizes,
                                       std::vector<Spec> specs,
                                       const Mesh& mesh, std::string& why);

// Returns whether a layer belongs to the encoder. The encoder's layers begin at
// index `encoder`, which is -1 if the model has no encoder.
inline bool IsEncoderLayer(int32_t layer, int32_t encoder) {
  return encoder >= 0 && layer >= encoder;
}
// Returns the name of the part of the model to which an op belongs: "layer 3",
// "encoder 3" for a layer of the encoder, "model" or "optimizer".
std::string StepPartName(const step::Graph& graph, const step::Op& op);
std::string StepOpName(const step::Op& op);
// Returns the dimension labels of a value as text, such as "[b,t,d]".
std::string StepLabelsText(const step::Graph& graph, step::ValueId value);

// The specs that ZeRO chooses. Each list is indexed by parameter of the graph.
struct ZeroSpecs {
  std::vector<Spec> parameters = {};
  // The specs of the optimizer's moments, and of gradients at the end of a
  // step.
  std::vector<Spec> states = {};
  // The specs of gradients while they are accumulated over micro-batches. If
  // empty, the gradients have the specs of the parameters.
  std::vector<Spec> sums = {};
};

// Returns the specs of ZeRO stage `stage`, which is at least 1. `tokens` are
// the axes of batch and sequence. Those axes of `tokens` that a spec does not
// use are appended to the spec. Stage 1 extends the specs of states, stage 2
// also those of accumulated gradients, and stage 3 also those of parameters.
//
// The axes are appended to the dimension with the largest shard among the
// dimensions that they divide. If they divide no dimension, the last axis is
// left out, and then the axis before it, until the remaining axes divide a
// dimension.
ZeroSpecs ShardOverReplicas(const step::Graph& graph, const step::Sizes& sizes,
                            const Mesh& mesh, const AxisGroup& tokens,
                            std::vector<Spec> specs, int stage);

// Returns the specs of the graph's parameters, indexed by parameter. The spec
// of a parameter without tensors is empty. If several tensors, such as one for
// each expert, are stacked into one parameter, its first dimension is sharded
// over the axis of the `place` of their rule. Without `place` it is unsharded.
//
// The spec of a parameter of scanned layers is its tensor's spec without the
// dimension that counts the layers. If a mesh axis shards that dimension, a
// device holds some layers completely and no part of other layers. A step
// cannot express this, so `why` is set unless it is null.
//
// If the plan divides each of several parts of a dimension (`parts` of a rule),
// the step must divide them too (`fused: by_part` of the `model:` section). If
// it does not, `why` is set. `sizes` has the sizes of the graph's labels.
//
// If `plan` has only one parameter of each group, `representatives` maps each
// tensor of the graph's manifest to its parameter in the plan. If it is empty,
// a tensor and its parameter have the same index.
std::vector<Spec> StepSpecs(const Plan& plan, const step::Graph& graph,
                            const step::Sizes& sizes, Mode mode,
                            std::span<const uint32_t> representatives = {},
                            std::string* why = nullptr);

}  // namespace shardc

#endif  // SHARDC_PLAN_LOWERED_STEP_H_
