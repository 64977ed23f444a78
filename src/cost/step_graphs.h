// Builds the graphs of a target's step, and keeps them. A graph depends neither
// on the mesh nor on specs, so meshes, threads and rules files share it.
#ifndef SHARDC_COST_STEP_GRAPHS_H_
#define SHARDC_COST_STEP_GRAPHS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/compile.h"
#include "plan/lowered_step.h"
#include "step/attention.h"
#include "step/layer_fold.h"
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

}  // namespace shardc::cost

#endif  // SHARDC_COST_STEP_GRAPHS_H_
