// Computes the communication of a step from the step's lowered program
// (step/program.h), divided into the parts that `cost` reports.
#ifndef SHARDC_COST_PROGRAM_H_
#define SHARDC_COST_PROGRAM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cost/communication.h"
#include "cost/inputs.h"
#include "cost/settings.h"
#include "cost/step_graphs.h"
#include "model/project.h"
#include "plan/compile.h"
#include "plan/lowered_step.h"
#include "plan/representatives.h"
#include "step/layer_fold.h"
#include "step/program.h"

namespace shardc::cost {

// Returns the reason why a step with these settings cannot be built and lowered
// to a program, for example because the batch is not given. Returns an empty
// text if it can.
std::string AgainstProgram(const CostInputs& work, const Settings& settings);

// Returns the collectives of a program, grouped by part, kind, axes and pass.
// Those of the optimizer are grouped with the backward pass. The bytes are
// those that the busiest device sends. They come from a formula, and tests
// compare them with the bytes that the executor counts. `times` has, for each
// instruction, the number of instructions that it represents
// (step/layer_fold.h). If `times` is empty, each instruction represents only
// itself.
Communication CommunicationOf(const step::Graph& graph,
                              const step::Program& program,
                              const step::Sizes& sizes, int64_t element_bytes,
                              std::span<const int64_t> times = {});

// Computes the communication of a target's step for any number of meshes. The
// step's graph is built once for each AttentionForm, such as ring attention,
// and is lowered for each mesh. The graph has only a few of the identical
// layers and one of the micro-batches. The bytes include all layers and
// micro-batches.
class StepTraffic {
 public:
  // `all` is the target compiled with all its parameters. The mesh for which it
  // is compiled does not matter. The object keeps references to `all`, `model`
  // and `settings`. If `graphs` is null, the object makes new graphs. Otherwise
  // `graphs` must be made for the same model description, configuration and
  // manifest.
  StepTraffic(const Compiled& all, const std::optional<ModelConfig>& model,
              const Settings& settings,
              std::shared_ptr<StepGraphs> graphs = nullptr)
      : all_(all),
        model_(model),
        settings_(&settings),
        graphs_(graphs ? std::move(graphs) : std::make_shared<StepGraphs>()) {}
  // A copy shares the graphs with the original. Each thread needs its own copy.
  StepTraffic(const StepTraffic&) = default;
  StepTraffic& operator=(const StepTraffic&) = delete;

  // Replaces the settings, to which the object keeps a reference.
  void Use(const Settings& settings) { settings_ = &settings; }

  // Returns the communication on a mesh. `compiled` is the target on that mesh.
  // If `compiled` has only one parameter of each group, `representatives` must
  // be given. Returns nullopt and sets `why` if no program can be built, or if
  // a program cannot describe the step.
  std::optional<Communication> On(
      const Compiled& compiled, const CostInputs& work, std::string& why,
      const Representatives* representatives = nullptr);

  // Returns the number of ops that were lowered so far, over all meshes.
  int64_t lowered_ops() const { return lowered_ops_; }

 private:
  // Returns how attention runs on the mesh of `work`, for example as a ring of
  // 4 devices. Returns nullopt and sets `why` if the attention operation cannot
  // run on the mesh.
  std::optional<step::AttentionForm> FormFor(const CostInputs& work,
                                             std::string& why) const;
  StepInputs InputsFor(const Compiled& compiled, Mode mode,
                       const step::AttentionForm& form) const;
  // Returns the layers that are built in the graph. These are all layers if no
  // layers are identical.
  const step::LayerFold& FoldFor(Mode mode);
  std::optional<Communication> Lowered(const step::LayerFold& fold,
                                       const step::AttentionForm& form,
                                       const Compiled& compiled, Mode mode,
                                       const Representatives* representatives,
                                       std::string& why);

  const Compiled& all_;
  const std::optional<ModelConfig>& model_;
  const Settings* settings_;
  std::shared_ptr<StepGraphs> graphs_;
  std::map<Mode, step::LayerFold> folds_;
  int64_t lowered_ops_ = 0;
};

}  // namespace shardc::cost

#endif  // SHARDC_COST_PROGRAM_H_
