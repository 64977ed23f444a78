// Models of configurations and trees under the packs' descriptions, for tests.
#ifndef SHARDC_TESTS_STEP_DESCRIBED_H_
#define SHARDC_TESTS_STEP_DESCRIBED_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "dense/step.h"
#include "model/manifest.h"
#include "model/model_description.h"
#include "model/project.h"
#include "model/step_graph.h"
#include "source/finding.h"
#include "step/build.h"

namespace shardc::step {

struct Described {
  std::shared_ptr<const ModelDescription> description;
  ModelConfig config;
  Manifest manifest;
};

// "message (params)" lines.
std::string TextOf(const Findings& findings);

// Returns the description in the `model:` section of `text`.
std::shared_ptr<const ModelDescription> Description(const std::string& text,
                                                    Findings& findings);
// Returns the description of a pack; `name` as `builtin:` takes it.
std::shared_ptr<const ModelDescription> PackDescription(std::string_view name,
                                                        char separator);

// Returns the tree that src/families builds from a config.json's text in
// `naming`, and the pack's description.
Described FromConfig(const std::string& config, std::string_view naming,
                     std::string_view pack);

// Random inputs of every kind for `sizes`, the same for the same seed.
dense::StepValues<double> RandomInputs(const Graph& graph, const Sizes& sizes,
                                       uint64_t seed);

}  // namespace shardc::step

#endif  // SHARDC_TESTS_STEP_DESCRIBED_H_
