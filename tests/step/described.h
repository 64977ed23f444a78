// Models from configurations and parameter trees, with the packs' descriptions,
// for tests.
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

// Returns a line "message (params)" for each finding.
std::string TextOf(const Findings& findings);

// Returns the description in the `model:` section of `text`.
std::shared_ptr<const ModelDescription> Description(const std::string& text,
                                                    Findings& findings);
// Returns the description of a pack; `name` has the form that `builtin:` takes.
std::shared_ptr<const ModelDescription> PackDescription(std::string_view name,
                                                        char separator);

// Returns the description of a pack, and the manifest that src/families builds
// from the text of a config.json in `naming`.
Described FromConfig(const std::string& config, std::string_view naming,
                     std::string_view pack);

// Returns random inputs of every kind for `sizes`. The same seed gives the same
// inputs.
dense::StepValues<double> RandomInputs(const Graph& graph, const Sizes& sizes,
                                       uint64_t seed);

}  // namespace shardc::step

#endif  // SHARDC_TESTS_STEP_DESCRIBED_H_
