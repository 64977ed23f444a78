// Decides by sizes whether matrices are [in, out] or [out, in]. Each layer
// stack has a width: the configuration's, or else the most frequent size of its
// dimensions. The width is the input size of query, key, value, gate and up
// projections, and the output size of attention outputs and down projections.
// So a rectangular matrix of known role votes for an orientation. All matrices
// with the same leaf get the orientation of the majority (stacked matrices vote
// separately). A bias, whose length is the output size, decides for its own
// rectangular weight:
//
//   q_proj/kernel [1024, 512] of width 512: [out, in], and so is every kernel
//   c_attn/weight [768, 2304], bias [2304]: [in, out]
//
// If there are no votes, or equally many for both orientations, the name
// decides. The orientation of an embedding depends only on its own sizes,
// because its output size is the width.
#include "roles/orientation.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace shardc {
namespace {

// At most this many tensors with one name template vote, so that experts do not
// outvote layers.
constexpr int64_t kMostVotes = 64;
// The votes of a norm's vector for the width. Each side of a matrix has two
// votes, and any other vector has one.
constexpr int64_t kNormVotes = 4;

using Votes = std::map<int64_t, int64_t>;  // keyed by size of a dimension

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

// Returns the path up to the first counter; empty if the name has none.
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

// Returns whether the sides are [in, out] according to the side that has the
// width; nullopt if the sizes do not decide. Routers do not vote, because a
// projection of another role may have the same name.
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

// Returns whether the sides of a weight that is packed along the input
// dimension are [in, out]. Each scale belongs to a group of inputs, so the
// other dimension of the scales is the output. Returns nullopt if the weight is
// not a matrix, or if its module has no scales that fit.
std::optional<bool> ByScales(
    const ShapedParameter& entry,
    const std::map<std::string_view, const Shape*>& scales) {
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

std::optional<bool> ByBias(const ShapedParameter& entry,
                           const std::map<std::string_view, int64_t>& biases) {
  const auto at = biases.find(entry.role->module_path);
  const Sides sides = SidesOf(entry);
  if (at == biases.end() || sides.first == sides.last) return std::nullopt;
  if (at->second == sides.last) return true;
  if (at->second == sides.first) return false;
  return std::nullopt;
}

// Matrices of one class have the same orientation. The class is the leaf,
// whether it is a Conv1D, and whether it is stacked.
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
      // attention may have the size of a head. Therefore only a norm outside
      // attention has kNormVotes.
      const bool norm =
          entry.role->module_role == Role::kNorm && !entry.role->attention;
      votes[stack][entry.shape->front()] += (norm ? kNormVotes : 1) * count;
    }
  }
  for (const auto& [stack, sizes] : votes) {
    const bool given = hidden && sizes.count(*hidden) > 0;
    by_stack_[stack] = given ? *hidden : MostVoted(sizes);
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
  int64_t best = 0;
  size_t nearest = 0;
  for (const auto& [other, width] : by_stack_) {
    const size_t common = CommonPrefix(other, name) + 1;
    if (has(width) && common > nearest) {
      nearest = common;
      best = width;
    }
  }
  return best;
}

std::vector<std::optional<bool>> OrientationsOf(
    std::span<const ShapedParameter> entries, const Widths& widths) {
  std::map<std::string_view, int64_t> biases;
  for (const ShapedParameter& entry : entries) {
    if (entry.role->leaf == Leaf::kBias && entry.shape != nullptr &&
        !entry.shape->empty()) {
      biases.try_emplace(entry.role->module_path, entry.shape->back());
    }
  }
  std::map<std::string_view, const Shape*> scales;
  for (const ShapedParameter& entry : entries) {
    if (entry.role->leaf == Leaf::kScale && entry.shape != nullptr &&
        entry.shape->size() == 2) {
      scales.try_emplace(entry.role->module_path, entry.shape);
    }
  }
  std::map<LayoutClass, int64_t> votes;  // above 0: [in, out]
  std::vector<std::optional<bool>> out(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    const ShapedParameter& entry = entries[i];
    if (entry.packed && entry.shape != nullptr &&
        entry.role->leaf == Leaf::kWeight) {
      out[i] = ByScales(entry, scales);
    }
    if (!IsMatrix(entry)) continue;
    const Sides sides = SidesOf(entry);
    const auto width = ByWidth(
        entry, widths.Of(entry.name, sides.first, sides.last, entry.stack));
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
    // Leaves of unknown words, such as the matrices of experts, have no usual
    // orientation. If the stacked matrices with such a leaf have no votes, the
    // votes of the unstacked ones decide, and vice versa.
    if (!votes.contains(layout) && std::get<Leaf>(layout) == Leaf::kOther) {
      std::get<2>(layout) = !std::get<2>(layout);
    }
    const auto at = votes.find(layout);
    if (at != votes.end() && at->second != 0) out[i] = at->second > 0;
  }
  return out;
}

}  // namespace shardc
