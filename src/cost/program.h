// Computes the communication of a step from the step's lowered program
// (step/program.h), divided into the parts that `cost` reports.
#ifndef SHARDC_COST_PROGRAM_H_
#define SHARDC_COST_PROGRAM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cost/communication.h"
#include "cost/inputs.h"
#include "cost/settings.h"
#include "model/project.h"
#include "plan/compile.h"
#include "plan/lowered_step.h"
#include "plan/representatives.h"
#include "step/layer_fold.h"
#include "step/macros.h"
#include "step/program.h"
#include "step/roles.h"

namespace shardc::cost {

// A graph of a step. It has only a few of the identical layers and one of the
// micro-batches.
struct StepGraph {
  step::StepModel model = {};
  std::string why_not = {};  // the reason why there is no graph; else empty
};

// The sizes of a graph's dimension labels, such as the batch b and the tokens
// t.
struct StepSizes {
  step::Sizes sizes = {};
  // The reason why a step cannot have these sizes: the bytes of all values do
  // not fit in 64 bits. Empty if they fit.
  std::string why_not = {};
};

// The graphs of a target. Several threads may use one object.
class StepGraphs {
 public:
  // Returns the graph of a step with these inputs, and builds it at the first
  // call. The graph has only the layers in LayerFold::layers, or all layers if
  // this list is empty. All calls must have the same model description,
  // configuration and manifest. The graph stays valid as long as this object.
  const StepGraph& GraphOf(const StepInputs& inputs,
                           const step::LayerFold& fold,
                           const step::AttentionForm& form);
  // Returns the sizes of the labels of a graph that GraphOf has returned, for
  // micro-batches of `rows` rows of `length` tokens.
  const StepSizes& SizesOf(const StepGraph& graph, int64_t rows,
                           int64_t length);
  // Returns the roles of the parameters, or null if they cannot be assigned.
  const step::Roles* RolesOf(const Compiled& compiled,
                             const ModelConfig* config);

 private:
  // The inputs on which a graph depends, in addition to the model.
  struct Key {
    Mode mode = Mode::kTrain;
    // True if there are several micro-batches. Their exact number is not a part
    // of the key, because it changes no collective. It changes only the
    // constants by which some losses, such as those of routers, are multiplied.
    bool has_microbatches = false;
    step::Reduction reduction = step::Reduction::kSharded;
    step::Remat remat = {};
    step::AttentionForm form = {};
    int64_t element_bytes = 0, cache_bytes = 0;
    std::optional<int64_t> gradient_bytes = {};
    // LayerFold::times of the graph: for each layer, the number of layers of
    // the model that this layer represents.
    std::vector<int64_t> layer_times = {};
    bool operator==(const Key&) const = default;
  };
  struct Entry {
    Key key = {};
    StepGraph graph = {};
    // The sizes, keyed by the number of rows of a micro-batch and the length.
    std::map<std::pair<int64_t, int64_t>, StepSizes> sizes = {};
  };

  std::mutex mutex_;  // guards the members below
  std::vector<std::unique_ptr<Entry>> entries_;
  bool has_roles_ = false;  // true if `roles_` was computed
  std::optional<step::Roles> roles_;
};

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
