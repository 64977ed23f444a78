// Scanned layers have no number in their names. All groups below a path such as
// `decoder.layers` then have one size in common, which is the number of layers;
// if several sizes are common, the configuration's number, else the smallest:
//
//   layers/wi_0 [4096, 32, 14336], layers/norm [4096, 32], layers/q [...]
//       ->  32 layers
//
// A dimension counts experts if the name contains `experts`, or if two groups
// of one stack have three dimensions and share the leading size.
#include "suggest/stacked_dims.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "source/index.h"

namespace shardc::suggest {
namespace {

constexpr std::array<std::string_view, 7> kStackWords = {
    "layers", "blocks", "h", "block", "layer", "decoder_layers", "stack"};
// Smaller trailing dimensions are a kernel's taps rather than a matrix.
constexpr int64_t kLeastSide = 16;

int64_t SizeOfLayers(const Tree& tree, const ModelConfig* model,
                     const std::vector<size_t>& groups) {
  bool matrix = false;
  std::map<int64_t, size_t> groups_with;
  for (const size_t k : groups) {
    const Shape& shape = tree.groups[k].shape;
    matrix = matrix || shape.size() >= 3;
    for (const int64_t size : std::set<int64_t>(shape.begin(), shape.end())) {
      ++groups_with[size];
    }
  }
  if (!matrix || groups.size() < 3) return 0;
  const auto common = [&](int64_t size) {
    const auto at = groups_with.find(size);
    return at != groups_with.end() && at->second == groups.size();
  };
  if (model != nullptr && model->layers && common(*model->layers)) {
    return *model->layers < 2 ? 0 : *model->layers;
  }
  for (const auto& [size, count] : groups_with) {
    if (size >= 2 && common(size)) return size;
  }
  return 0;
}

void SetExperts(InferredDims& inferred, int dim) {
  inferred.experts = dim;
  inferred.dims[AsIndex(dim)].use = DimUse::kExperts;
}

// One more than the largest number after `experts` in the names of a group.
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

// Whether the leading dimension of a group of unknown name may count experts.
bool MayLeadWithExperts(const ParameterGroup& group,
                        const InferredDims& inferred) {
  const auto rest = WithoutLayers(inferred);
  return rest.size() == 3 && inferred.experts < 0 && !inferred.by_name.expert &&
         !group.stack().empty() && !inferred.by_name.attention &&
         group.shape[AsIndex(rest[1])] > kLeastSide &&
         group.shape[AsIndex(rest[2])] > kLeastSide;
}

}  // namespace

std::vector<int> WithoutLayers(const InferredDims& inferred) {
  std::vector<int> out;
  for (size_t i = 0; i < inferred.dims.size(); ++i) {
    if (inferred.dims[i].use != DimUse::kLayers) {
      out.push_back(static_cast<int>(i));
    }
  }
  return out;
}

void MarkLayers(const Tree& tree, const ModelConfig* model, ModelDims& dims) {
  std::map<std::string, std::vector<size_t>> stacks;  // by path
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const ParameterGroup& group = tree.groups[k];
    if (!group.stack().empty() || group.rank() == 0) continue;
    std::string path;
    for (size_t i = 0; i + 1 < group.parts.size(); ++i) {
      path += std::string(group.parts[i]) + tree.separator;
      if (std::find(kStackWords.begin(), kStackWords.end(), group.parts[i]) !=
          kStackWords.end()) {
        stacks[path].push_back(k);
        break;
      }
    }
  }
  for (const auto& [path, groups] : stacks) {
    const int64_t layers = SizeOfLayers(tree, model, groups);
    if (layers == 0) continue;
    for (const size_t k : groups) {
      auto& all = dims.groups[k].dims;
      const auto at = std::find_if(all.begin(), all.end(), [&](const Dim& dim) {
        return dim.size == layers;
      });
      if (at != all.end()) at->use = DimUse::kLayers;
    }
  }
}

void MarkExperts(const Tree& tree, ModelDims& dims) {
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    InferredDims& inferred = dims.groups[k];
    const auto rest = WithoutLayers(inferred);
    if (inferred.by_name.counted_expert) {
      inferred.expert_count = CountExperts(tree, tree.groups[k]);
    } else if (inferred.by_name.expert && rest.size() >= 2) {
      SetExperts(inferred, rest.front());
    }
  }
  std::map<std::pair<std::string_view, int64_t>, std::vector<size_t>> shared;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const ParameterGroup& group = tree.groups[k];
    if (!MayLeadWithExperts(group, dims.groups[k])) continue;
    const int leading = WithoutLayers(dims.groups[k]).front();
    shared[{group.stack(), group.shape[AsIndex(leading)]}].push_back(k);
  }
  for (const auto& [key, groups] : shared) {
    if (groups.size() < 2) continue;
    for (const size_t k : groups) {
      SetExperts(dims.groups[k], WithoutLayers(dims.groups[k]).front());
    }
  }
}

}  // namespace shardc::suggest
