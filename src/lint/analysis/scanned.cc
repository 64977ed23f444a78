#include "lint/analysis/scanned.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "source/index.h"

namespace shardc {

LayerStacks StacksOf(const Facts& facts) {
  std::vector<StackCandidate> candidates;
  for (const ParameterGroup& group : facts.groups()) {
    const auto& shape = facts.TypeOf(group).shape;
    candidates.push_back(
        {.name = group.name, .shape = shape ? &*shape : nullptr});
  }
  return FindLayerStacks(
      candidates, facts.separator(),
      facts.model() == nullptr ? std::nullopt : facts.model()->layers);
}

std::vector<int> UnscannedDims(const Facts& facts, const LayerStacks& stacks,
                               const ParameterGroup& group) {
  const auto at = static_cast<size_t>(&group - facts.groups().data());
  const std::vector<ScannedDim>& scanned = stacks.dims[at];
  std::vector<int> out;
  for (int dim = 0; dim < facts.Rank(group); ++dim) {
    const bool layers =
        std::any_of(scanned.begin(), scanned.end(), [&](const ScannedDim& one) {
          return one.dim == dim && stacks.stacks[one.stack].confidence !=
                                       StackConfidence::kUndecided;
        });
    if (!layers) out.push_back(dim);
  }
  return out;
}

Shape LayersFirst(const Facts& facts, const LayerStacks& stacks,
                  const ParameterGroup& group) {
  const Shape& shape = *facts.TypeOf(group).shape;
  const std::vector<int> last = UnscannedDims(facts, stacks, group);
  Shape out;
  for (int dim = 0; dim < facts.Rank(group); ++dim) {
    if (std::find(last.begin(), last.end(), dim) == last.end()) {
      out.push_back(shape[AsIndex(dim)]);
    }
  }
  for (const int dim : last) out.push_back(shape[AsIndex(dim)]);
  return out;
}

std::optional<MatrixDims> MatrixDimsOf(const Facts& facts,
                                       const LayerStacks& stacks,
                                       const ParameterGroup& group) {
  // A parameter with two dimensions is a matrix, even if one of them has the
  // size of the number of layers.
  if (facts.Rank(group) == 2) return MatrixDims{0, 1};
  const std::vector<int> dims = UnscannedDims(facts, stacks, group);
  if (dims.size() != 2) return std::nullopt;
  return MatrixDims{dims[0], dims[1]};
}

std::optional<int> VectorDimOf(const Facts& facts, const LayerStacks& stacks,
                               const ParameterGroup& group) {
  // A parameter with one dimension is a vector, even if the dimension has the
  // size of the number of layers.
  if (facts.Rank(group) == 1) return 0;
  const std::vector<int> dims = UnscannedDims(facts, stacks, group);
  if (dims.size() != 1) return std::nullopt;
  return dims.front();
}

}  // namespace shardc
