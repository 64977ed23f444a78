// Decides by sizes whether matrices are stored as [in, out] or as [out, in].
// Each layer stack has a width: that of the configuration, or else the most
// frequent size of its dimensions. The width is the input size of query, key,
// value, gate and up projections. It is the output size of attention outputs
// and down projections. So a rectangular matrix of known role votes for one
// orientation. All matrices with the same leaf get the orientation with the
// most votes; stacked matrices vote separately. For example, the width is 512
// in a model with this matrix, whose vote decides the orientation of every
// `kernel`:
//
//   q_proj/kernel [1024, 512]  ->  [out, in]
//
// A bias gives the orientation of its own rectangular weight, because the
// length of the bias is the output size:
//
//   c_attn/weight [768, 2304], bias [2304]  ->  [in, out]
//
// If there are no votes, or equally many for both orientations, the orientation
// follows from the name. The orientation of an embedding is decided by its own
// sizes, because its output size is always the width.
#include "roles/orientation.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace shardc {
namespace {

// Tensors whose names differ only in numbers have at most this many votes
// together. Without this limit, many experts would outvote the layers.
constexpr int64_t kMostVotes = 64;
// How often the vector of a norm is counted when the hidden size of a stack of
// layers is chosen. Each side of a matrix is counted twice, and any other
// vector once.
constexpr int64_t kNormVotes = 4;

// Maps the size of a dimension to its number of votes.
using Votes = std::map<int64_t, int64_t>;

struct Sides {
  int64_t first = 0;
  int64_t last = 0;
};

bool IsMatrix(const ShapedParameter& entry) {
  return entry.shape != nullptr && entry.shape->size() >= 2 && !entry.packed &&
         entry.role->module_role != Role::kNorm &&
         (IsWeight(*entry.role) || entry.role->leaf == Leaf::kEmbeddingTable ||
          (entry.role->leaf == Leaf::kOther &&
           (TakesWidth(entry.role->module_role) ||
            GivesWidth(entry.role->module_role) ||
            entry.role->module_role == Role::kEmbedding)));
}

Sides SidesOf(const ShapedParameter& entry) {
  const Shape& shape = *entry.shape;
  return {shape[shape.size() - 2], shape[shape.size() - 1]};
}

// Returns the part of a name before its first number, which is written as `*`:
// `layers.` for `layers.*.q_proj`. Returns an empty text if there is no number.
std::string_view CountedStack(std::string_view name) {
  const size_t at = name.find('*');
  return at == std::string_view::npos ? std::string_view() : name.substr(0, at);
}

int64_t MostVoted(const Votes& votes) {
  const auto most = std::max_element(
      votes.begin(), votes.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == votes.end() ? 0 : most->first;
}

size_t CommonPrefix(std::string_view a, std::string_view b) {
  const auto ends = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(ends.first - a.begin());
}

// Returns true if the sides are [in, out], and false if they are [out, in]. For
// example, a query projection is [in, out] if its first side is the width.
// Returns nullopt if the role and the sizes show no order, and for routers,
// because another projection may have the same name.
std::optional<bool> ByWidth(const ShapedParameter& entry, int64_t width) {
  const Sides sides = SidesOf(entry);
  const Role role = entry.role->module_role;
  if (width == 0 || sides.first == sides.last || role == Role::kRouter) {
    return std::nullopt;
  }
  if (TakesWidth(role)) return sides.first == width;
  if (GivesWidth(role) || role == Role::kEmbedding) return sides.last == width;
  return std::nullopt;
}

// Finds the orientation of a packed weight from the scales of its module. Each
// scale belongs to one output and to a group of inputs. So one side of the
// scales has the size of the weight's outputs, or a multiple of it if outputs
// are packed. Returns true if the weight is [in, out], and false if it is [out,
// in]. Returns nullopt if the weight is not a matrix, or if its module has no
// scales that fit.
std::optional<bool> ByScales(
    const ShapedParameter& entry,
    const std::unordered_map<std::string_view, const Shape*>& scales) {
  const auto at = scales.find(entry.role->module_path);
  if (at == scales.end() || entry.shape->size() != 2) return std::nullopt;
  const Sides sides = SidesOf(entry);
  const Shape& scale = *at->second;
  if (scale[0] == sides.first && scale[1] < sides.last) return false;
  if (scale[1] % std::max<int64_t>(1, sides.last) == 0 &&
      scale[0] < sides.first) {
    return true;
  }
  return std::nullopt;
}

std::optional<bool> ByBias(
    const ShapedParameter& entry,
    const std::unordered_map<std::string_view, int64_t>& biases) {
  const auto at = biases.find(entry.role->module_path);
  const Sides sides = SidesOf(entry);
  if (at == biases.end() || sides.first == sides.last) return std::nullopt;
  if (at->second == sides.last) return true;
  if (at->second == sides.first) return false;
  return std::nullopt;
}

// Matrices of one class get the same orientation. A class consists of the leaf,
// whether the matrix is a Conv1D's, and whether it has leading dimensions.
using LayoutClass = std::tuple<Leaf, bool, bool>;

LayoutClass LayoutClassOf(const ShapedParameter& entry) {
  return {entry.role->leaf, entry.role->conv1d, entry.shape->size() > 2};
}

}  // namespace

Widths::Widths(std::span<const ShapedParameter> entries,
               std::optional<int64_t> hidden) {
  std::map<std::string_view, Votes> votes;
  for (const ShapedParameter& entry : entries) {
    if (entry.shape == nullptr || entry.shape->empty()) continue;
    const std::string_view stack =
        entry.stack.empty() ? CountedStack(entry.name) : entry.stack;
    const int64_t count = std::min(entry.count, kMostVotes);
    if (IsMatrix(entry)) {
      const Sides sides = SidesOf(entry);
      votes[stack][sides.first] += 2 * count;
      votes[stack][sides.last] += 2 * count;
    } else if (entry.shape->size() == 1) {
      // A norm between blocks has the model's width, but a norm inside
      // attention may have the size of a head. Therefore only norms outside
      // attention are counted kNormVotes times.
      const bool norm =
          entry.role->module_role == Role::kNorm && !entry.role->attention;
      votes[stack][entry.shape->front()] += (norm ? kNormVotes : 1) * count;
    }
  }
  for (const auto& [stack, sizes] : votes) {
    const bool given = hidden && sizes.count(*hidden) > 0;
    const int64_t width = given ? *hidden : MostVoted(sizes);
    by_stack_[stack] = width;
    by_width_[width].push_back(stack);
  }
}

int64_t Widths::Of(std::string_view name, int64_t first, int64_t last,
                   std::string_view stack) const {
  const auto has = [&](int64_t width) {
    return first == width || last == width;
  };
  const std::string_view own = stack.empty() ? CountedStack(name) : stack;
  if (!own.empty()) {
    const auto at = by_stack_.find(own);
    return at != by_stack_.end() && has(at->second) ? at->second : 0;
  }
  // The stack with the longest common prefix; of several, the first one. Of the
  // sorted stacks of one width it is next to where the name would be.
  int64_t best = 0;
  size_t longest = 0;
  std::optional<std::string_view> chosen;
  for (const int64_t width : {first, last}) {
    const auto stacks = by_width_.find(width);
    if (stacks == by_width_.end()) continue;
    const auto& names = stacks->second;
    const auto after = std::lower_bound(names.begin(), names.end(), name);
    size_t common = 0;
    if (after != names.end()) common = CommonPrefix(*after, name);
    if (after != names.begin()) {
      common = std::max(common, CommonPrefix(*std::prev(after), name));
    }
    const std::string_view one =
        *std::lower_bound(names.begin(), names.end(), name.substr(0, common));
    if (!chosen || common > longest || (common == longest && one < *chosen)) {
      longest = common;
      chosen = one;
      best = width;
    }
  }
  return best;
}

std::optional<bool> OrientationBySizes(const ShapedParameter& entry,
                                       const Widths& widths) {
  if (!IsMatrix(entry)) return std::nullopt;
  const Sides sides = SidesOf(entry);
  return ByWidth(entry,
                 widths.Of(entry.name, sides.first, sides.last, entry.stack));
}

std::vector<std::optional<bool>> OrientationsOf(
    std::span<const ShapedParameter> entries, const Widths& widths) {
  std::unordered_map<std::string_view, int64_t> biases;
  for (const ShapedParameter& entry : entries) {
    if (entry.role->leaf == Leaf::kBias && entry.shape != nullptr &&
        !entry.shape->empty()) {
      biases.try_emplace(entry.role->module_path, entry.shape->back());
    }
  }
  std::unordered_map<std::string_view, const Shape*> scales;
  for (const ShapedParameter& entry : entries) {
    if (entry.role->leaf == Leaf::kScale && entry.shape != nullptr &&
        entry.shape->size() == 2) {
      scales.try_emplace(entry.role->module_path, entry.shape);
    }
  }
  // The votes of each class; above 0 if more matrices vote for [in, out].
  std::map<LayoutClass, int64_t> votes;
  std::vector<std::optional<bool>> out(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    const ShapedParameter& entry = entries[i];
    if (entry.packed && entry.shape != nullptr &&
        entry.role->leaf == Leaf::kWeight) {
      out[i] = ByScales(entry, scales);
    }
    if (!IsMatrix(entry)) continue;
    const auto width = OrientationBySizes(entry, widths);
    if (entry.role->module_role == Role::kEmbedding) {
      out[i] = width.value_or(true);
      continue;
    }
    out[i] = ByBias(entry, biases);
    const auto vote = out[i] ? out[i] : width;
    if (!vote) continue;
    votes[LayoutClassOf(entry)] +=
        (*vote ? 1 : -1) * std::min(entry.count, kMostVotes);
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!IsMatrix(entries[i]) || out[i]) continue;
    LayoutClass layout = LayoutClassOf(entries[i]);
    // If the last part of a name is not a known word such as `weight`, but for
    // example the name of an expert's matrix, the matrix has no usual
    // orientation. If the stacked matrices with this name have no votes, the
    // votes of the unstacked matrices are used, and vice versa.
    if (!votes.contains(layout) && std::get<Leaf>(layout) == Leaf::kOther) {
      std::get<2>(layout) = !std::get<2>(layout);
    }
    const auto at = votes.find(layout);
    if (at != votes.end() && at->second != 0) out[i] = at->second > 0;
  }
  return out;
}

}  // namespace shardc
