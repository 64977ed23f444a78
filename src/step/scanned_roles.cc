// Finds the roles of tensors that hold the parameters of all scanned layers. A
// scan over layers stacks the parameters of a role in one tensor. The tensor's
// name has no layer number, and its shape has an additional dimension that
// counts the layers. The position of this dimension depends on the model. For
// example, with 32 layers:
//
//   layers/$i/self_attn/q_proj/kernel [d, n h]
//     ->  layers/self_attn/q_proj/kernel        [32, 4096, 4096]
//         layers/block/self_attn/q_proj/kernel  [4096, 32, 4096]
#include "step/scanned_roles.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "match/match.h"
#include "source/checked.h"
#include "step/role_pattern.h"
#include "step/role_tree.h"

namespace shardc::step {
namespace {

// Returns the size of a dimension according to the configuration; 0 if the size
// is unknown.
int64_t KnownSize(const RoleTree& tree, const DescribedDim& dim) {
  if (!tree.formulas.has_config()) return 0;
  int64_t product = 1;
  for (const auto& parts : dim.factors) {
    int64_t sum = 0;
    for (const std::string& part : parts) {
      const auto size = tree.formulas.Dim(part);
      if (!size) return 0;
      sum += *size;
    }
    const auto next = CheckedMul(product, sum);
    if (!next) return 0;
    product = *next;
  }
  return product;
}

bool IsLayerShape(const Shape& shape, const Shape& known) {
  for (size_t d = 0; d < shape.size(); ++d) {
    if (known[d] != 0 && known[d] != shape[d]) return false;
  }
  return true;
}

// Returns the first dimension that has `layers` elements and whose removal
// leaves the shape of one layer's parameter. If there is no such dimension,
// returns the first dimension with `layers` elements, or else 0.
int StackDimOf(const Shape& shape, const Shape& known, int64_t layers) {
  std::optional<int> of_size;
  for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
    if (shape[AsIndex(dim)] != layers) continue;
    if (IsLayerShape(WithoutDim(shape, dim), known)) return dim;
    if (!of_size) of_size = dim;
  }
  return of_size.value_or(0);
}

// Returns the indices of the tensors that hold all scanned layers of a stack.
std::vector<size_t> ScannedOf(const RoleTree& tree, size_t stack) {
  std::vector<size_t> out;
  for (size_t i = 0; i < tree.roles.tensors.size(); ++i) {
    const TensorRole& at = tree.roles.tensors[i];
    if (at.stack_dim >= 0 && tree.StackOf(at.role) == stack) out.push_back(i);
  }
  return out;
}

const Shape& ShapeOf(const RoleTree& tree, size_t tensor) {
  return *tree.ShapeOf(static_cast<int64_t>(tensor));
}

}  // namespace

bool MatchScanned(RoleTree& tree, Findings& findings) {
  std::vector<size_t> tensors;
  std::vector<std::string_view> names;
  for (size_t i = 0; i < tree.roles.tensors.size(); ++i) {
    if (tree.roles.tensors[i].role != kNoRole) continue;
    tensors.push_back(i);
    names.push_back(tree.manifest.tensors[i].name);
  }
  if (names.empty()) return true;
  std::vector<Pattern> patterns;
  std::vector<RolePattern> made;
  // Maps the index of a pattern to the index of its role.
  std::vector<size_t> role_of;
  for (size_t role = 0; role < tree.role_count(); ++role) {
    const DescribedText& text = tree.description.roles[role].pattern;
    const char separator = tree.description.separator;
    const std::string scanned = ScannedPattern(text.text, separator);
    if (!tree.roles.exists[role] || scanned.empty()) continue;
    made.push_back(MakePattern(scanned));
    patterns.push_back({made.back().text, text.place, separator});
    role_of.push_back(role);
  }
  if (patterns.empty()) return true;
  const auto matcher = Matcher::Compile(patterns, findings);
  if (!matcher) return false;
  const Matches matches = matcher->Match(names, tree.manifest.separator);
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = matches.Of(i);
    if (found.empty()) continue;
    const auto role = static_cast<int32_t>(role_of[found[0]]);
    const Shape* const shape = tree.ShapeOf(static_cast<int64_t>(tensors[i]));
    const size_t rank = tree.Stored(role).size() + 1;
    if (shape == nullptr || shape->size() != rank) continue;
    TensorRole& at = tree.roles.tensors[tensors[i]];
    at.role = role;
    at.expert = NumberIn(*matcher, found[0], names[i], tree.manifest.separator,
                         made[found[0]].expert_group);
    // The dimension is found later, when the number of layers is known.
    at.stack_dim = 0;
  }
  return true;
}

void FindTowers(RoleTree& tree) {
  Roles& roles = tree.roles;
  std::vector<std::set<std::string_view>> read(tree.description.stacks.size());
  for (size_t stack = 0; stack < read.size(); ++stack) {
    for (const DescribedLine& line : tree.description.stacks[stack].layer) {
      for (const DescribedArgument& argument : line.arguments) {
        read[stack].insert(argument.names.begin(), argument.names.end());
      }
    }
  }
  std::vector<bool> has_tower(read.size());
  for (size_t i = 0; i < roles.tensors.size(); ++i) {
    TensorRole& at = roles.tensors[i];
    if (at.role < 0 || at.layer >= 0 || at.stack_dim >= 0) continue;
    const size_t stack = tree.StackOf(at.role);
    const std::string_view name = tree.description.roles[AsIndex(at.role)].name;
    const Shape* const shape = tree.ShapeOf(static_cast<int64_t>(i));
    if (!read[stack].contains(name.substr(0, name.find('.'))) ||
        shape == nullptr || shape->size() != tree.Stored(at.role).size() + 1) {
      continue;
    }
    at.stack_dim = 0;
    roles.in_layers[AsIndex(at.role)] = true;
    has_tower[stack] = true;
  }
  tree.leading.assign(read.size(), 0);
  for (TensorRole& at : roles.tensors) {
    if (at.role < 0 || at.stack_dim >= 0 || !roles.InLayers(at.role)) continue;
    const size_t stack = tree.StackOf(at.role);
    if (at.layer < 0) {
      at.role = kNoRole;
    } else if (has_tower[stack]) {
      tree.leading[stack] =
          std::max(tree.leading[stack], int64_t{at.layer} + 1);
    }
  }
}

std::optional<int64_t> ScannedLayers(const RoleTree& tree, size_t stack) {
  const std::vector<size_t> scanned = ScannedOf(tree, stack);
  if (scanned.empty()) return std::nullopt;
  const Shape& first = ShapeOf(tree, scanned.front());
  for (size_t d = 0; d < first.size(); ++d) {
    const bool all =
        std::all_of(scanned.begin(), scanned.end(), [&](size_t tensor) {
          const Shape& shape = ShapeOf(tree, tensor);
          return d < shape.size() && shape[d] == first[d];
        });
    if (all) return first[d];
  }
  return std::nullopt;
}

void FindStackDims(RoleTree& tree, size_t stack, int64_t layers) {
  for (const size_t tensor : ScannedOf(tree, stack)) {
    TensorRole& at = tree.roles.tensors[tensor];
    Shape known;
    for (const DescribedDim& dim : tree.Stored(at.role)) {
      known.push_back(KnownSize(tree, dim));
    }
    at.stack_dim = StackDimOf(ShapeOf(tree, tensor), known, layers);
  }
}

void GatherScanned(RoleTree& tree) {
  Roles& roles = tree.roles;
  for (size_t i = 0; i < roles.tensors.size(); ++i) {
    const TensorRole& at = roles.tensors[i];
    if (at.stack_dim < 0) continue;
    const size_t stack = tree.StackOf(at.role);
    const auto begin = static_cast<int32_t>(roles.BeginOf(stack));
    const auto first = static_cast<int32_t>(begin + tree.leading[stack]);
    if (tree.leading[stack] >= roles.stack_layers[stack]) continue;
    if (at.expert < 0 && !roles.RowsOf(at.role, first).empty()) {
      tree.ProblemOf(
          RoleFault::kTwo, static_cast<int64_t>(i), at.role,
          "holds `" + tree.description.roles[AsIndex(at.role)].name +
              "` of all layers, and another parameter is that of a layer");
      continue;
    }
    for (int64_t layer = tree.leading[stack]; layer < roles.stack_layers[stack];
         ++layer) {
      tree.AddRow(i, begin + layer);
    }
  }
}

}  // namespace shardc::step
