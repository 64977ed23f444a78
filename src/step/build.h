// Builds a training, prefill or decoding step of a model as a graph of ops over
// named dimensions. The inputs are the description of the model family, a
// config.json and the parameters. This header builds the forward pass; vjp.h
// and optimizer.h append the backward pass and the optimizer.
//
//   auto step = BuildForward(*rules.model, &config, manifest, Mode::kTrain,
//                            findings);
//   Differentiate(step->graph);
//   AppendOptimizer(step->graph);
//   const Sizes sizes = RealSizes(*step, batch, length);
#ifndef SHARDC_STEP_BUILD_H_
#define SHARDC_STEP_BUILD_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "model/axis_rules.h"
#include "model/manifest.h"
#include "model/model_description.h"
#include "model/project.h"
#include "model/step_graph.h"
#include "source/finding.h"
#include "step/attention.h"
#include "step/roles.h"

namespace shardc::step {

struct StepModel {
  Graph graph = {};
  // The size of each label, indexed by LabelId. The sizes of the description's
  // dimensions and of counts such as the experts per token are set. Sizes that
  // depend on the batch or on the number of tokens are 0 here; RealSizes()
  // computes these sizes.
  Sizes sizes = {};
  // The capacity factor of experts: the number of slots in an expert's queue,
  // divided by tokens * top_k / experts. 0 means no limit.
  double capacity = 0;
  // The number of the encoder's tokens; 0 means the same number as the
  // decoder's.
  int64_t encoder_length = 0;
};

// Builds the forward graph of a mode. The mode in which a prompt is inserted
// (kInsert) is built as decoding. Reports errors and returns nullopt if, for
// example, a parameter has no role, a shape does not match its role's
// dimensions, or a line of the description cannot be resolved.
//
// `config` may be null if the parameters determine every size. If `only_layers`
// is not empty, only these layers are built, and they keep their numbers.
// `roles` is the result of an earlier AssignRoles(). If it is null,
// BuildForward() assigns the roles.
std::optional<StepModel> BuildForward(
    const ModelDescription& description, const ModelConfig* config,
    const Manifest& manifest, Mode mode, Findings& findings,
    const std::vector<int32_t>& only_layers = {},
    const AttentionForm& attention = {}, const Roles* roles = nullptr);

// Returns whether the model has a step of this mode. A model that is not causal
// has no decode and insert steps.
bool HasMode(const ModelDescription& description, const ModelConfig* config,
             Mode mode);

}  // namespace shardc::step

#endif  // SHARDC_STEP_BUILD_H_
