// Builds a step of few layers in place of many identical layers.
#ifndef SHARDC_STEP_LAYER_FOLD_H_
#define SHARDC_STEP_LAYER_FOLD_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "step/program.h"

namespace shardc::step {

struct LayerFold {
  // Layers `second` and `third` begin two equal blocks of `period` layers, of
  // which the first stands for all blocks that are left out.
  struct Run {
    int32_t second = 0, third = 0, period = 1;
  };
  std::vector<int32_t> layers = {};  // that are built, ascending
  // The number of layers that each layer of the model stands for; 0: it is not
  // built.
  std::vector<int64_t> times = {};
  std::vector<Run> runs = {};  // empty: every layer is built
};

// Returns the layers to build of a model whose layers have these kinds
// (LayerKinds). Of a block of layers that follows itself at least five times,
// the first three and the last are built.
LayerFold FoldLayers(std::span<const int32_t> kinds);

// Returns for each instruction of a folded graph's program how many
// instructions of the whole model's program it stands for. Returns nullopt if
// the program does not show that it grows by equal blocks: the second and the
// third block of a run are lowered differently, or an op outside of the layers
// moves the values of single layers.
std::optional<std::vector<int64_t>> InstructionTimes(const Graph& graph,
                                                     const Program& program,
                                                     const LayerFold& fold);

}  // namespace shardc::step

#endif  // SHARDC_STEP_LAYER_FOLD_H_
