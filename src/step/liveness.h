// Computes the memory that a device uses while a program runs, and its peak.
#ifndef SHARDC_STEP_LIVENESS_H_
#define SHARDC_STEP_LIVENESS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/step_graph.h"
#include "step/program.h"

namespace shardc::step {

enum class Held : uint8_t {
  kParameters,
  kMoments,
  kGradients,  // The gradients, including partial gradients.
  kCaches,
  kInputs,       // Data such as ids, labels and positions.
  kGathered,     // Copies of parameters in other shardings.
  kActivations,  // All other values.
};
inline constexpr size_t kHeldCount = 7;
// Returns the name of a class of memory, such as "parameters".
std::string_view HeldName(Held held);

using HeldBytes = std::array<int64_t, kHeldCount>;
int64_t TotalOf(const HeldBytes& bytes);

struct ElementBytes {
  int64_t values = 2;
  int64_t moments = 4;
};

struct PeakMemory {
  int64_t instruction = -1;  // The first instruction at the peak.
  // The bytes of each class of memory at that instruction.
  HeldBytes bytes = {};
  int64_t Total() const { return TotalOf(bytes); }
};

// Returns the peak memory of a device. The peak is the same for all devices,
// because their shards have the same sizes. Inputs of the step are held from
// the first instruction to the last, and results from the instruction that
// computes them to the last. Updates overwrite the old values. Ops that split,
// merge or rename dimensions take no memory. An elementwise op or an all-reduce
// overwrites an operand of the same size that no later op reads. No other
// fusion is assumed.
PeakMemory PeakOf(const Graph& graph, const Program& program,
                  const Sizes& sizes, const ElementBytes& bytes);
// Returns for each instruction the bytes that are held while it runs.
std::vector<HeldBytes> HeldOver(const Graph& graph, const Program& program,
                                const Sizes& sizes, const ElementBytes& bytes);

// Returns the floating-point operations of one device for an instruction. An
// exponential, a root or a quotient is one operation. Collectives, and ops that
// only move elements, have no operations. A slot of an expert's queue holds at
// most one token, so a product over tokens and slots is counted as if it had
// only the slots.
double FlopsOf(const Graph& graph, const Program& program,
               const Instruction& instruction, const Sizes& sizes);

// Returns whether an op is a matmul: an einsum that sums a dimension.
bool IsMatmul(const Graph& graph, const Op& op);

}  // namespace shardc::step

#endif  // SHARDC_STEP_LIVENESS_H_
