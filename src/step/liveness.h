// The memory that a device uses while a program runs, and its peak.
#ifndef SHARDC_STEP_LIVENESS_H_
#define SHARDC_STEP_LIVENESS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "step/program.h"

namespace shardc::step {

enum class Held : uint8_t {
  kParameters,
  kMoments,
  kGradients,  // including partial gradients
  kCaches,
  kInputs,       // data, such as ids, labels, positions
  kGathered,     // copies of parameters in other shardings
  kActivations,  // everything else
};
inline constexpr size_t kHeldCount = 7;
std::string_view HeldName(Held held);  // "parameters"

using HeldBytes = std::array<int64_t, kHeldCount>;
int64_t TotalOf(const HeldBytes& bytes);

struct ElementBytes {
  int64_t values = 2;
  int64_t moments = 4;
};

struct PeakMemory {
  int64_t instruction = -1;  // index of the first instruction at the peak
  HeldBytes bytes = {};      // at that instruction
  int64_t Total() const { return TotalOf(bytes); }
};

// Returns the peak memory of a device. It is the same for all devices, because
// their shards have the same sizes. Inputs of the step are held from the first
// instruction to the last, results from their instruction to the last, and
// updates overwrite the old values. Ops that split, merge or rename dimensions
// take no memory. An elementwise op or an all-reduce overwrites an operand of
// its size that no later op reads. Nothing else is fused.
PeakMemory PeakOf(const Graph& graph, const Program& program,
                  const Sizes& sizes, const ElementBytes& bytes);
// Returns the bytes that are held while each instruction runs.
std::vector<HeldBytes> HeldOver(const Graph& graph, const Program& program,
                                const Sizes& sizes, const ElementBytes& bytes);

}  // namespace shardc::step

#endif  // SHARDC_STEP_LIVENESS_H_
