// Builds a model's step as a graph of ops over named dimensions, from the
// description of the model family, a config.json and the parameters. This
// header builds the forward pass; vjp.h and optimizer.h append the backward
// pass and the optimizer.
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
  // The size of each label. The sizes of the description's dimensions and
  // counts are set; labels of tokens have 0.
  Sizes sizes = {};
  // The number of slots in an expert's queue, as a factor of tokens * top_k /
  // experts; 0 means no limit.
  double capacity = 0;
  // The number of the encoder's tokens; 0 means the same number as the
  // decoder's.
  int64_t encoder_length = 0;
};

// Builds the forward graph of a mode. Inserting a prompt is built as decoding.
// Returns nullopt after findings, such as a parameter without a role, a shape
// that does not match its role's dimensions, or a line that cannot be resolved.
// `config` may be null if the parameters determine every size. If `only_layers`
// is not empty, only these layers are built, and they keep their numbers.
// `roles` is the result of an earlier AssignRoles; if it is null, the roles are
// assigned here.
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
