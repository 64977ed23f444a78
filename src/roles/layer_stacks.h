// Finds layer stacks: layers whose parameters a scan or a vmap stacks in one
// tensor each, so that one dimension of each tensor counts layers.
#ifndef SHARDC_ROLES_LAYER_STACKS_H_
#define SHARDC_ROLES_LAYER_STACKS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/manifest.h"

namespace shardc {

// The dimension that counts scanned layers, if the user names it.
struct ScanAxis {
  bool none = false;       // no dimension counts layers
  std::optional<int> dim;  // nullopt: sizes decide; below 0: from the last
};

enum class StackConfidence : uint8_t { kUndecided, kLikely, kSure };

struct LayerStack {
  // Path of the subtree, with the last separator; may be empty.
  std::string path;
  int dim = 0;         // below 0: counted from the last dimension
  int64_t layers = 0;  // the size of the dimension `dim`
  size_t members = 0;  // number of parameter groups
  StackConfidence confidence = StackConfidence::kUndecided;
  std::string evidence;  // why it is a stack, or what cannot be decided
};

// A dimension of one parameter that counts the layers of a stack.
struct ScannedDim {
  int dim = 0;         // dimension of the stored parameter
  uint32_t stack = 0;  // index into LayerStacks::stacks
};

struct LayerStacks {
  std::vector<LayerStack> stacks;
  // The scanned dimensions of each parameter, ascending; empty if the parameter
  // is in no stack.
  std::vector<std::vector<ScannedDim>> dims;
};

// A parameter, or several parameters whose names differ only in numbers.
struct StackCandidate {
  std::string_view name;         // with `*` for each number
  const Shape* shape = nullptr;  // null: unknown
};

// Finds the stacks. `layers` is the number of layers in the configuration, if
// it is known.
LayerStacks FindLayerStacks(std::span<const StackCandidate> parameters,
                            char separator,
                            std::optional<int64_t> layers = std::nullopt,
                            const ScanAxis& axis = {});

// Returns for example "dimension 0 of 9 parameters below `verses/` counts 12
// layers".
std::string StackText(const LayerStack& stack);

}  // namespace shardc

#endif  // SHARDC_ROLES_LAYER_STACKS_H_
