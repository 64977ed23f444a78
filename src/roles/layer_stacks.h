// Finds layer stacks. In a stack, a scan or a vmap has stacked the parameters
// of several layers in one tensor each, so that one dimension of a tensor
// counts layers.
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
#include "roles/classify.h"

namespace shardc {

// What the user states about the dimension that counts scanned layers.
struct ScanAxis {
  bool none = false;  // if true, no dimension counts layers
  // The dimension; below 0, it is counted from the last one. If nullopt, the
  // dimension is found from the sizes of the parameters.
  std::optional<int> dim;
};

enum class StackConfidence : uint8_t { kUndecided, kLikely, kSure };

struct LayerStack {
  // The path of the subtree, with a separator at its end; empty for the
  // complete model.
  std::string path;
  int dim = 0;         // below 0 if counted from the last dimension
  int64_t layers = 0;  // the size of the dimension `dim`
  size_t members = 0;  // number of parameter groups in the stack
  StackConfidence confidence = StackConfidence::kUndecided;
  std::string evidence;  // a text that explains `confidence`
};

// A dimension of one parameter that counts the layers of a stack.
struct ScannedDim {
  int dim = 0;         // index of a dimension of the stored parameter
  uint32_t stack = 0;  // index into LayerStacks::stacks
};

struct LayerStacks {
  std::vector<LayerStack> stacks;
  // Indexed by parameter: the dimensions that count layers, in ascending order.
  // They are empty if the parameter is in no stack.
  std::vector<std::vector<ScannedDim>> dims;
};

// A parameter, or several parameters whose names differ only in numbers.
struct StackCandidate {
  std::string_view name;         // has `*` in place of each number
  const Shape* shape = nullptr;  // null if unknown
  // By the name; null if the shape is unknown.
  const ParameterRole* role = nullptr;
};

// Finds the layer stacks of a model. `layers` is the number of layers in the
// configuration; nullopt if it is unknown.
LayerStacks FindLayerStacks(std::span<const StackCandidate> parameters,
                            char separator,
                            std::optional<int64_t> layers = std::nullopt,
                            const ScanAxis& axis = {});

// Returns a text such as "dimension 0 of 9 parameters below `verses/` counts 12
// layers".
std::string StackText(const LayerStack& stack);

struct LayerName {
  std::string_view chain;  // the name before the number, such as `model.layers`
  // The name up to the number, such as `model.layers.5`.
  std::string_view module;
  int64_t layer = 0;
};

// Finds the layer in a name. The number of the layer is the first part that is
// a number, as in `layers.5.mlp`. The number may also be at the end of a part,
// after a word for layers and `_`, as in `decoder/layers_5/mlp/wi/kernel` (see
// StemLength() of model/name.h). If the first part of the name is a number,
// this part is not a layer. Returns nullopt if no part has a layer number.
std::optional<LayerName> LayerOf(std::string_view name, char separator);

// For a parameter outside of layers, IsBeforeLayers() returns whether it is a
// token or position embedding. IsAfterLayers() returns whether it is a norm or
// an output head. Both use the role of the parameter. The words in its name
// decide only where the role does not: `embed_out` is a head, although
// it has the word `embed`.
bool IsBeforeLayers(const ParameterRole& role, std::string_view name);
bool IsAfterLayers(const ParameterRole& role, std::string_view name);

}  // namespace shardc

#endif  // SHARDC_ROLES_LAYER_STACKS_H_
