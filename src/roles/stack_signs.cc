// Collects signs that a dimension counts layers. If it does, the remaining
// dimensions of each parameter must be a shape that is usual in one layer. For
// example, if dimension 0 counts 12 layers, one layer has these shapes:
//
//   calm/scale [12, 1024]      ->  [1024], a vector, as is usual for a scale
//   query [12, 1024, 16, 64]   ->  [1024, 16, 64], from the width to 16 heads
//   bias [12]                  ->  a single number, which is unusual for a bias
//
// A matrix of an adapter, such as `query/lora_a`, is a sign of the same kind as
// a matrix of its module.
#include "roles/stack_signs.h"

#include <algorithm>
#include <array>

#include "roles/words.h"
#include "source/index.h"
#include "source/wording.h"

namespace shardc {
namespace {

// A dimension that is smaller than this is assumed to count the taps of a
// convolution, and not to be a side of a matrix.
constexpr int64_t kLeastSide = 16;

constexpr std::array<std::string_view, 3> kWeakWords = {"block", "layer", "h"};

bool IsStackWord(std::string_view part) {
  return part.ends_with("layers") || part.ends_with("blocks") ||
         Contains(part, "stack") || Contains(part, "scan") ||
         part.starts_with("Scan");
}

// Updates `out`, the signs that the dimension `one` counts layers, for a
// parameter that would be a matrix without this dimension.
void AddMatrix(const StackMember& member, const StackDim& one,
               StackSigns& out) {
  const int at = FromFront(member.shape, one.dim);
  int64_t sides = 0, largest = 0;
  for (int d = 0; d < static_cast<int>(member.shape.size()); ++d) {
    if (d == at) continue;
    const int64_t size = member.shape[AsIndex(d)];
    largest = std::max(largest, size);
    if (size >= kLeastSide) ++sides;
  }
  const bool adapter = IsAdapter(member.role.role);
  if (sides >= 2 || adapter) ++out.matrices;
  if (largest <= one.size) out.narrow = false;
  if (member.shape.size() == 3) out.spatial = false;
  const Role role = adapter ? member.role.module_role : member.role.role;
  out.output = out.output || role == Role::kOutput;
  out.query = out.query || role == Role::kQuery || role == Role::kFusedQkv ||
              role == Role::kLatentUp;
  // The role kDown is no sign of a feed-forward block, because the name `wo`,
  // which has this role, may also be the output of attention.
  out.feed_forward = out.feed_forward || (IsMlp(role) && role != Role::kDown);
}

}  // namespace

int FromFront(const Shape& shape, int dim) {
  return dim < 0 ? static_cast<int>(shape.size()) + dim : dim;
}

int64_t SizeAt(const Shape& shape, int dim) {
  const int at = FromFront(shape, dim);
  return at < 0 || at >= static_cast<int>(shape.size()) ? 0
                                                        : shape[AsIndex(at)];
}

StackSigns SignsOf(std::span<const StackMember> all, const Indices& members,
                   const StackDim& one) {
  StackSigns out;
  for (const uint32_t i : members) {
    const StackMember& member = all[i];
    const ParameterRole& role = member.role;
    const size_t rest = member.shape.size() - 1;
    const bool norm = IsNorm(role.module_role) || IsNorm(role.role);
    if (rest == 0) {
      out.numbers = true;
      if (norm || role.leaf == Leaf::kBias) out.contradiction = true;
    }
    if (rest < 2 && IsAdapter(role.role)) out.contradiction = true;
    if (norm && rest > 0) out.norm = true;
    if (!norm && rest == 1) ++out.vectors;
    if (!role.expert) out.experts = false;
    if (rest < 2) continue;
    out.stored_matrices = true;
    AddMatrix(member, one, out);
  }
  return out;
}

StackPath PathOf(std::span<const StackMember> all, const Indices& members,
                 size_t depth) {
  StackPath out;
  const auto& parts = all[members.front()].parts;
  const auto all_have = [&](size_t i) {
    return std::all_of(members.begin(), members.end(), [&](uint32_t member) {
      const auto& own = all[member].parts;
      return i + 1 < own.size() && own[i] == parts[i];
    });
  };
  while (all_have(depth)) ++depth;
  for (size_t i = 0; i < depth; ++i) {
    if (Contains(parts[i], "*")) {
      out = {.counted = true};
      continue;
    }
    out.experts = out.experts || NamesExperts(parts[i], Confidence::kLikely);
    out.word = out.word || IsStackWord(parts[i]);
    out.weak_word = out.weak_word || IsAmong(parts[i], kWeakWords);
  }
  return out;
}

}  // namespace shardc
