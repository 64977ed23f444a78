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
  // Of the description's dimensions and counts; 0 for those of tokens and, by
  // FinishSizes, for what is made of others.
  Sizes sizes = {};
  // Slots of an expert's queue by tokens times top_k over experts; 0: as many
  // as come.
  double capacity = 0;
  int64_t encoder_length = 0;  // tokens; 0: as many as the model's own
};

// Nothing after findings: a parameter without a role, a shape that is not what
// the dimensions say, a line that means nothing. `config` may be null where
// the tree tells every size. Insertion is decoding. Of the layers only those
// named are written, by their true numbers; all where none is. Attention is
// written in its form. Roles that are known already are not looked for again.
std::optional<StepModel> BuildForward(
    const ModelDescription& description, const ModelConfig* config,
    const Manifest& manifest, Mode mode, Findings& findings,
    const std::vector<int32_t>& only_layers = {},
    const AttentionForm& attention = {}, const Roles* roles = nullptr);

// Whether the model has such a step: an encoder does not decode, nor yet a
// model that has one beside it.
bool HasMode(const ModelDescription& description, const ModelConfig* config,
             Mode mode);

}  // namespace shardc::step

#endif  // SHARDC_STEP_BUILD_H_
