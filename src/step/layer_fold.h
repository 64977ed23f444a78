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
  // Layers `second` and `third` begin two equal blocks of `period` layers. The
  // block that begins at `second` stands for all blocks that are not built.
  struct Run {
    int32_t second = 0, third = 0, period = 1;
  };
  std::vector<int32_t> layers = {};  // the layers that are built, ascending
  // How many layers of the model each layer stands for; 0 if it is not built.
  std::vector<int64_t> times = {};
  std::vector<Run> runs = {};  // empty: every layer is built
};

// Returns the layers to be built of a model whose layers have these kinds
// (LayerKinds). If a block of at most 16 layers occurs at least five times in
// succession, the first three occurrences and the last are built.
LayerFold FoldLayers(std::span<const int32_t> kinds);

// Returns for each instruction of a folded graph's program how many
// instructions of the complete model's program it stands for. Returns nullopt
// if the blocks that were not built may have other instructions: if the second
// and the third block of a run are lowered differently, or if an op with an
// operand for each layer reshards one of them.
std::optional<std::vector<int64_t>> InstructionTimes(const Graph& graph,
                                                     const Program& program,
                                                     const LayerFold& fold);

}  // namespace shardc::step

#endif  // SHARDC_STEP_LAYER_FOLD_H_
