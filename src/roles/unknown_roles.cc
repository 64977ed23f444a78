#include "roles/unknown_roles.h"

#include <algorithm>

#include "model/name.h"
#include "roles/classify.h"
#include "roles/words.h"

namespace shardc {
namespace {

// A dimension of a matrix has at least this size. A smaller one counts the taps
// of a convolution.
constexpr int64_t kLeastMatrixSide = 16;

}  // namespace

bool IsOutOfMixer(std::string_view name, char separator) {
  const auto parts = SplitName(name, separator);
  return std::find(parts.begin(), parts.end(), "out_proj") != parts.end() &&
         std::any_of(parts.begin(), parts.end(), NamesMixer);
}

bool IsUnknownByName(std::string_view name, char separator, const Shape& shape,
                     const std::vector<int>& layers) {
  int sides = 0;
  for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
    const int64_t size = shape[static_cast<size_t>(dim)];
    const bool counts_layers =
        std::find(layers.begin(), layers.end(), dim) != layers.end();
    if (counts_layers || size <= 1) continue;
    if (size < kLeastMatrixSide) return false;
    ++sides;
  }
  if (sides < 2) return false;
  const ParameterRole role = Classify(name, separator, Confidence::kLikely,
                                      static_cast<int>(shape.size()));
  return role.role == Role::kOther && role.module_role == Role::kOther &&
         role.leaf != Leaf::kEmbeddingTable && !IsOutOfMixer(name, separator);
}

}  // namespace shardc
