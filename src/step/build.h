// A model's step as a graph of ops over named dimensions: forward from a
// description, its config.json and the parameter tree. Backward and the
// optimizer are appended (vjp.h, optimizer.h).
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
  // The size of each label: of the description's dimensions and counts; 0 for
  // labels of tokens.
  Sizes sizes = {};
  // Slots of an expert's queue, as a factor of tokens * top_k / experts; 0: no
  // limit.
  double capacity = 0;
  int64_t encoder_length = 0;  // tokens; 0: as many as the model's own
};

// Builds the forward graph of a mode; inserting a prompt is built as decoding.
// Returns nothing after findings: a parameter without a role, a shape that does
// not match its role's dimensions, a line that cannot be resolved. `config` may
// be null if the tree determines every size. Only the layers named are built,
// with their own numbers; all if none is named. `roles` are those of an earlier
// AssignRoles; null: they are assigned here.
std::optional<StepModel> BuildForward(
    const ModelDescription& description, const ModelConfig* config,
    const Manifest& manifest, Mode mode, Findings& findings,
    const std::vector<int32_t>& only_layers = {},
    const AttentionForm& attention = {}, const Roles* roles = nullptr);

// Returns whether the model has a step of this mode: encoders do not decode.
bool HasMode(const ModelDescription& description, const ModelConfig* config,
             Mode mode);

}  // namespace shardc::step

#endif  // SHARDC_STEP_BUILD_H_
