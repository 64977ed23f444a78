// Builds a step of a few layers that represents a step of many identical
// layers.
#ifndef SHARDC_STEP_LAYER_FOLD_H_
#define SHARDC_STEP_LAYER_FOLD_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/axis_rules.h"
#include "model/model_description.h"
#include "model/project.h"
#include "step/program.h"
#include "step/roles.h"

namespace shardc::step {

struct LayerFold {
  // A run of equal blocks of `period` layers each. The second block begins at
  // the layer `second`, and the third block at the layer `third`. The second
  // block represents all blocks that are not built.
  struct Run {
    int32_t second = 0, third = 0, period = 1;
  };
  // The numbers of the layers that are built, ascending.
  std::vector<int32_t> layers = {};
  // Indexed by layer: the number of the model's layers that this layer
  // represents, including itself; 0 if the layer is not built.
  std::vector<int64_t> times = {};
  // The runs of equal blocks; empty if every layer is built.
  std::vector<Run> runs = {};
};

// Returns which layers of a model are built. `kinds` has a number for each
// layer, which is equal for layers with the same ops (LayerKinds). If a block
// of at most 16 layers occurs at least five times in succession, only the first
// three occurrences and the last one are built.
LayerFold FoldLayers(std::span<const int32_t> kinds);

// Returns for each instruction of a folded graph's program the number of
// instructions of the complete model's program that it represents. Returns
// nullopt if the blocks that were not built may have other instructions. That
// is the case if the second and the third block of a run are lowered
// differently, or if an op with an operand for each layer reshards one of them.
std::optional<std::vector<int64_t>> InstructionTimes(const Graph& graph,
                                                     const Program& program,
                                                     const LayerFold& fold);

// Returns a number for each layer of all stacks. Layers with the same number
// have ops that differ only in the layer's number. These layers are in the same
// stack, and have the same settings, the same lines whose `if` condition is
// true, and the same roles. For each role, they have the same number of
// tensors, and these tensors have the same class.
//
// `class_of_row` has the class of each tensor of the manifest. Tensors of one
// class must have the same sharding. Returns nullopt if the settings or the
// `if` conditions of a layer cannot be evaluated.
std::optional<std::vector<int32_t>> LayerKinds(
    const ModelDescription& description, const ModelConfig* config,
    const Roles& roles, Mode mode, std::span<const uint32_t> class_of_row);

}  // namespace shardc::step

#endif  // SHARDC_STEP_LAYER_FOLD_H_
