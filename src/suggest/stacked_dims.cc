// Handles dimensions that count scanned layers or experts. Other functions of
// InferDims() expect tensors of one layer. So the dimensions of layers are
// removed before these functions run, and restored afterwards. For example, the
// second dimension of this tensor counts 32 layers:
//
//   decoder/layers/wi_0 [4096, 32, 14336]  ->  [4096, 14336], 32 times
//
// The first dimension of a tensor counts experts if the name contains
// `experts`. It may also count experts if two groups of one layer stack have
// three dimensions and equal first dimensions. Names and sizes that show
// another meaning, such as attention, exclude this.
#include "suggest/stacked_dims.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "model/name.h"
#include "source/checked.h"
#include "source/index.h"

namespace shardc::suggest {
namespace {

// A trailing dimension of at most this size is read as the taps of a
// convolution's kernel, and not as the side of a matrix.
constexpr int64_t kLeastStackSide = 16;

void SetExperts(InferredDims& inferred, int dim) {
  inferred.experts = dim;
  inferred.dims[AsIndex(dim)].use = DimUse::kExperts;
}

// Returns the number of experts of a group whose experts are separate tensors:
// one more than the largest number after `experts` in their names.
int64_t CountExperts(const Tree& tree, const ParameterGroup& group) {
  const size_t at = group.name.find("experts" + std::string(1, tree.separator));
  const auto before = static_cast<size_t>(std::count(
      group.name.begin(),
      group.name.begin() + static_cast<long>(std::min(at, group.name.size())),
      '*'));
  int64_t most = -1;
  for (const uint32_t member : tree.Members(group)) {
    const auto counters = CountersOf(tree.NameOf(member), group.name);
    if (before >= counters.size() || counters[before].size() > 9) continue;
    int64_t number = 0;
    for (const char c : counters[before]) number = number * 10 + (c - '0');
    most = std::max(most, number);
  }
  return most + 1;
}

// Returns whether the leading dimension of a group may count experts, although
// its name does not contain `experts`.
bool MayLeadWithExperts(const ParameterGroup& group,
                        const InferredDims& inferred) {
  return group.rank() == 3 && inferred.experts < 0 &&
         !inferred.by_name.expert && InLayers(group) &&
         !inferred.by_name.attention && !IsAttention(inferred.role) &&
         group.shape[1] > kLeastStackSide && group.shape[2] > kLeastStackSide &&
         (group.layers == 1 ||
          group.shape[0] <= std::min(group.shape[1], group.shape[2]));
}

// Returns whether a shape is that of an attention output, [heads, columns,
// width], where heads times columns are the width: [16, 64, 1024]. Experts may
// have such a shape too, but then another group has the transposed shape: [4,
// 256, 1024] and [4, 1024, 256]. In this case, returns false.
bool HasHeads(const Tree& tree, size_t k, const std::vector<size_t>& groups) {
  const Shape& shape = tree.groups[k].shape;
  return CheckedMul(shape[0], shape[1]) == shape[2] &&
         std::none_of(groups.begin(), groups.end(), [&](size_t other) {
           const Shape& own = tree.groups[other].shape;
           return own[1] == shape[2] && own[2] == shape[1];
         });
}

// Returns whether a stack has a router with this number of outputs.
bool HasRouter(const Tree& tree, const ModelDims& dims, std::string_view stack,
               int64_t experts) {
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const Shape& shape = tree.groups[k].shape;
    if (dims.groups[k].role == Role::kRouter &&
        tree.groups[k].stack() == stack &&
        std::find(shape.begin(), shape.end(), experts) != shape.end()) {
      return true;
    }
  }
  return false;
}

void RestoreDim(int at, int64_t size, InferredDims& inferred) {
  inferred.dims.insert(inferred.dims.begin() + at,
                       {.use = DimUse::kLayers, .size = size});
  for (int* const dim : {&inferred.inner, &inferred.width, &inferred.experts}) {
    if (*dim >= at) ++*dim;
  }
}

}  // namespace

bool InLayers(const ParameterGroup& group) {
  return !group.stack().empty() || group.stack_size;
}

LayerStacks StacksOf(const Tree& tree, const ModelConfig* model,
                     const ScanAxis& axis) {
  std::vector<StackCandidate> candidates;
  for (const ParameterGroup& group : tree.groups) {
    candidates.push_back({.name = group.name, .shape = &group.shape});
  }
  return FindLayerStacks(candidates, tree.separator,
                         model == nullptr ? std::nullopt : model->layers, axis);
}

Tree WithoutLayers(const Tree& tree, const LayerStacks& stacks) {
  Tree out;
  out.manifest = tree.manifest;
  out.separator = tree.separator;
  out.groups = tree.groups;
  out.members = tree.members;
  out.bytes = tree.bytes;
  out.shapeless = tree.shapeless;
  for (size_t k = 0; k < out.groups.size(); ++k) {
    ParameterGroup& group = out.groups[k];
    group.parts = SplitName(group.name, tree.separator);
    const auto& scanned = stacks.dims[k];
    for (auto one = scanned.rbegin(); one != scanned.rend(); ++one) {
      group.layers *= group.shape[AsIndex(one->dim)];
      group.shape.erase(group.shape.begin() + one->dim);
      const size_t path = stacks.stacks[one->stack].path.size();
      group.stack_size = std::max(path, group.stack_size.value_or(0));
    }
    if (group.layers > 1) {
      group.elements /= group.layers;
      group.bytes /= group.layers;
    }
  }
  return out;
}

void RestoreLayers(const Tree& tree, const LayerStacks& stacks,
                   ModelDims& dims) {
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    for (const ScannedDim& one : stacks.dims[k]) {
      RestoreDim(one.dim, tree.groups[k].shape[AsIndex(one.dim)],
                 dims.groups[k]);
    }
  }
}

void MarkExperts(const Tree& tree, const ModelConfig* model, ModelDims& dims) {
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    InferredDims& inferred = dims.groups[k];
    if (inferred.by_name.counted_expert) {
      inferred.expert_count = CountExperts(tree, tree.groups[k]);
    } else if (inferred.by_name.expert && inferred.dims.size() >= 2) {
      SetExperts(inferred, 0);
    }
  }
  std::map<std::pair<std::string_view, int64_t>, std::vector<size_t>> shared;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const ParameterGroup& group = tree.groups[k];
    if (!MayLeadWithExperts(group, dims.groups[k])) continue;
    shared[{group.stack(), group.shape.front()}].push_back(k);
  }
  for (auto& [key, groups] : shared) {
    const std::vector<size_t> all = groups;
    std::erase_if(groups, [&](size_t k) { return HasHeads(tree, k, all); });
    if (groups.size() < 2) continue;
    const bool shown = (model != nullptr && model->experts == key.second) ||
                       HasRouter(tree, dims, key.first, key.second);
    for (const size_t k : groups) {
      SetExperts(dims.groups[k], 0);
      dims.groups[k].experts_by_sizes = !shown;
    }
  }
}

}  // namespace shardc::suggest
