// Names do not show whether a parameter has a number for each head: a gate is
// called `g_proj`, `to_gate_logits` or `gate_proj`. Its shape and those of its
// block do. The number of heads of a block is the width of its query
// projection, divided by the size of a head, which the norm of the queries or
// the configuration states:
//
//   q_proj [8192, 4096], q_norm [128]   ->  64 heads
//   g_proj [64, 4096]                   ->  a row for each head
//   to_gate.bias [64]                   ->  a number for each head
//   q_a_proj [64, 4096], q_b_proj [8192, 64]
//     ->  64 is the rank of two factors, because another matrix reads it
//
// If a head has as many columns as there are heads, a size does not show which
// of the two it is, and the name has to.
#include "lint/analysis/headwise.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lint/analysis/groups.h"
#include "lint/analysis/towers.h"
#include "model/name.h"
#include "roles/classify.h"
#include "roles/described.h"
#include "roles/headwise.h"
#include "roles/role.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc {
namespace {

// The dimensions of a group's parameters that neither count layers nor have
// size 1, with their sizes.
struct Sides {
  std::vector<int> dims;
  std::vector<int64_t> sizes;
};

Sides SidesOf(const Facts& facts, const ParameterGroup& group) {
  Sides out;
  const auto& shape = facts.TypeOf(group).shape;
  if (!shape) return out;
  // A parameter with one dimension is a vector, even if the dimension has the
  // size of the number of layers.
  const std::vector<int> dims =
      shape->size() == 1 ? std::vector<int>{0}
                         : UnscannedDims(facts, facts.stacks(), group);
  for (const int dim : dims) {
    const int64_t size = (*shape)[AsIndex(dim)];
    if (size == 1) continue;
    out.dims.push_back(dim);
    out.sizes.push_back(size);
  }
  return out;
}

// Returns the path of the attention block of a group with its last separator;
// empty if its name shows none.
std::string BlockOf(const ParameterGroup& group, char separator) {
  if (group.role.attention && !group.role.block_path.empty() &&
      group.role.block_path.size() < group.name.size()) {
    return group.role.block_path + separator;
  }
  const size_t end = group.role.sibling_path.find('?');
  return end == std::string::npos ? std::string()
                                  : group.role.sibling_path.substr(0, end);
}

// How many heads a block has, and over which axes they are sharded.
struct SplitHeads {
  int64_t heads = 0, head_dim = 0;
  const ParameterGroup* projection = nullptr;
  AxisGroup axes;
  std::string evidence;
};

using SplitBlocks = std::map<std::string, SplitHeads, std::less<>>;

// Returns the sizes of the scales of queries' norms, keyed by block.
std::map<std::string, int64_t> NormSizes(const Facts& facts) {
  std::map<std::string, int64_t> out;
  for (const ParameterGroup& group : facts.groups()) {
    if (group.role.leaf == Leaf::kBias) continue;
    for (const std::string_view part :
         SplitName(group.name, facts.separator())) {
      if (RoleBelow(part) != Role::kQueryNorm) continue;
      const Sides sides = SidesOf(facts, group);
      if (sides.sizes.size() == 1) {
        out.emplace(group.name.substr(0, static_cast<size_t>(
                                             part.data() - group.name.data())),
                    sides.sizes[0]);
      }
      break;
    }
  }
  return out;
}

// Returns the size of a head of a query projection that is `width` wide;
// nullopt if nothing states it.
std::optional<int64_t> HeadDimOf(const Facts& facts, const std::string& block,
                                 int64_t width,
                                 const std::map<std::string, int64_t>& norms) {
  const auto norm = norms.find(block);
  if (norm != norms.end() && norm->second < width &&
      width % norm->second == 0) {
    return norm->second;
  }
  if ((facts.has() & kNeedsHeads) == 0) return std::nullopt;
  const auto stated = HeadsOf(*facts.model());
  if (!stated || width % stated->head_dim != 0) return std::nullopt;
  return stated->head_dim;
}

// Returns whether the group may be a projection to heads by its name, and not
// one to the keys and values.
bool MayGiveQueries(const ParameterGroup& group) {
  const Role role = group.role.module_role;
  return role == Role::kQuery ||
         (group.role.attention &&
          (role == Role::kOther || role == Role::kProjection ||
           role == Role::kLatentUp));
}

SplitBlocks SplitBlocksOf(const Facts& facts) {
  const std::map<std::string, int64_t> norms = NormSizes(facts);
  SplitBlocks out;
  for (const ParameterGroup& group : facts.groups()) {
    if (!IsWeight(group) || !facts.Judged(group) || !MayGiveQueries(group) ||
        IsAdapter(group.role.role) || facts.towers().Holds(group)) {
      continue;
    }
    const std::string block = BlockOf(group, facts.separator());
    const auto dims = MatrixDimsOf(facts, facts.stacks(), group);
    const int side = OutDim(group.role, 2);
    if (block.empty() || !dims || side < 0) continue;
    const int dim = (*dims)[AsIndex(side)];
    const int64_t width = (*facts.TypeOf(group).shape)[AsIndex(dim)];
    const bool known = group.role.module_role == Role::kQuery;
    const auto head_dim = HeadDimOf(facts, block, width, norms);
    if (!head_dim) continue;
    SplitHeads found;
    found.head_dim = *head_dim;
    found.heads = width / *head_dim;
    found.projection = &group;
    found.axes = facts.TensorAxes(facts.AxesAt(group, dim));
    found.evidence = std::to_string(width) + " columns in heads of " +
                     std::to_string(*head_dim);
    // A matrix whose name does not show that it gives the queries has to be as
    // wide as the heads that the configuration states.
    if (!known && ((facts.has() & kNeedsHeads) == 0 ||
                   found.heads != HeadsOf(*facts.model())->heads)) {
      continue;
    }
    const int64_t parts = facts.TensorParts(found.axes);
    if (found.heads <= 1 || parts <= 1 || found.heads % parts != 0) continue;
    if (known) {
      out.insert_or_assign(block, std::move(found));
    } else {
      out.try_emplace(block, std::move(found));
    }
  }
  return out;
}

// Returns whether a group directly below the block may have a number for each
// head. Parameters whose names show another use are left out, and so are tables
// of rotary frequencies, and positions that are no matrix: a table of relative
// positions has a number for each head and distance.
bool MayBeHeadwise(const ParameterGroup& group, std::string_view rest,
                   bool matrix, char separator) {
  using enum Role;
  constexpr std::array kOthers = {
      kQuery,    kKey,  kValue,     kFusedKeyValue, kFusedQkv,   kOutput,
      kLatentUp, kNorm, kQueryNorm, kKeyNorm,       kLatentNorm, kLatentDown};
  const Leaf leaf = group.role.leaf;
  if (leaf == Leaf::kScale && group.role.role == kScale) {
    // A leaf `scale` may be that of a module without a weight.
    if (group.name.ends_with("_scale") || group.name.ends_with("scales")) {
      return false;
    }
  }
  if (leaf == Leaf::kZeroPoint || IsAdapter(group.role.role) ||
      IsAmong(group.role.module_role, kOthers)) {
    return false;
  }
  const auto parts = SplitName(rest, separator);
  if (parts.empty() || parts.size() > 2) return false;
  return std::ranges::none_of(parts, [&](std::string_view part) {
    const Role below = RoleBelow(part);
    return part.find("freq") != std::string_view::npos ||
           part.find("rotary") != std::string_view::npos ||
           part.find("rope") != std::string_view::npos || below == kQueryNorm ||
           (below == kPosition && !matrix) || below == kKeyNorm ||
           below == kLatentNorm;
  });
}

// Returns whether another matrix of the block has `size` on the side on which
// this group does not have it, so that the size is the rank of two factors.
bool IsRank(const Facts& facts, const ParameterGroup& group, size_t side,
            int64_t size, std::string_view block) {
  return std::ranges::any_of(facts.groups(), [&](const ParameterGroup& other) {
    if (&other == &group || !other.name.starts_with(block) ||
        other.role.leaf == Leaf::kScale ||
        other.role.leaf == Leaf::kZeroPoint) {
      return false;
    }
    const Sides sides = SidesOf(facts, other);
    return sides.sizes.size() == 2 && sides.sizes[1 - side] == size;
  });
}

}  // namespace

std::vector<Headwise> HeadwiseOf(const Facts& facts) {
  std::vector<Headwise> out;
  const SplitBlocks blocks = SplitBlocksOf(facts);
  for (const ParameterGroup& group : facts.groups()) {
    if (blocks.empty() || !facts.Judged(group)) continue;
    const auto block = std::ranges::find_if(blocks, [&](const auto& one) {
      return group.name.starts_with(one.first);
    });
    if (block == blocks.end() || &group == block->second.projection) continue;
    const SplitHeads& heads = block->second;
    const std::string_view rest =
        std::string_view(group.name).substr(block->first.size());
    const Sides sides = SidesOf(facts, group);
    if (sides.sizes.empty() || sides.sizes.size() > 2) continue;
    const bool matrix = sides.sizes.size() == 2;
    if (!MayBeHeadwise(group, rest, matrix, facts.separator())) continue;
    const auto at = std::ranges::find(sides.sizes, heads.heads);
    if (at == sides.sizes.end()) continue;
    const auto side = static_cast<size_t>(at - sides.sizes.begin());
    if (matrix && sides.sizes[0] == sides.sizes[1]) continue;
    if (heads.heads == heads.head_dim && !NamesHeads(rest, facts.separator())) {
      continue;
    }
    if (matrix && IsRank(facts, group, side, heads.heads, block->first)) {
      continue;
    }
    out.push_back({&group, sides.dims[side], heads.heads, matrix,
                   heads.projection, heads.axes, heads.evidence});
  }
  return out;
}

}  // namespace shardc
