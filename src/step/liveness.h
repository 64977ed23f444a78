// What a device holds while a program runs, and when it holds most.
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
  kGradients,  // whole or still pending
  kCaches,
  kInputs,       // ids, labels, positions
  kGathered,     // parameters in another layout than their own
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
  int64_t instruction = -1;  // of the program's code, the first that holds most
  HeldBytes bytes = {};      // then
  int64_t Total() const { return TotalOf(bytes); }
};

// Of any device: all parts are alike. What the step is given and what it
// leaves behind is held from the first instruction to the last, and updates
// take the place of what they update. Dimensions that are split, merged,
// renamed or left as they are cost nothing; an elementwise op writes over an
// operand of its size that nobody reads later. Nothing else is fused.
PeakMemory PeakOf(const Graph& graph, const Program& program,
                  const Sizes& sizes, const ElementBytes& bytes);
// By instruction: all that is held while it runs.
std::vector<HeldBytes> HeldOver(const Graph& graph, const Program& program,
                                const Sizes& sizes, const ElementBytes& bytes);

}  // namespace shardc::step

#endif  // SHARDC_STEP_LIVENESS_H_
