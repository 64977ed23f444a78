// Finds the size of the heads of each attention block. If the queries are
// normalised head by head, the scale of their norm has the size of a head, and
// the output of the query projection is a multiple of it. For example, Gemma 4
// has layers of two kinds, whose projections of keys may have one shape:
//
//   layers.0.attn: q_norm [128], q_proj [4096, 4096], k_proj [1024, 4096]
//     ->  32 heads and 8 KV heads of 128
//   layers.3.attn: q_norm [256], q_proj [8192, 4096], k_proj [1024, 4096]
//     ->  32 heads and 4 KV heads of 256
//
// A norm that is as long as all queries together shows no size, and is ignored.
#include "lint/analysis/heads.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "comm/reshard.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "model/name.h"
#include "roles/role.h"
#include "source/size.h"

namespace shardc {
namespace {

// Returns the first `separators` parts of a name with the separator after each.
std::string_view PathOf(std::string_view name, char separator,
                        int64_t separators) {
  size_t end = 0;
  for (; separators > 0; --separators) {
    const size_t at = name.find(separator, end);
    if (at == std::string_view::npos) return {};
    end = at + 1;
  }
  return name.substr(0, end);
}

// Returns the number of separators in the path of the attention block of a norm
// of queries, or -1 if the parameter is not such a norm.
int64_t NormDepth(const ParameterGroup& group, char separator) {
  int64_t depth = 0;
  for (const std::string_view part : SplitName(group.name, separator)) {
    if (RoleBelow(part) == Role::kQueryNorm) return depth;
    ++depth;
  }
  return -1;
}

// Returns the number of separators in the path of the attention block of a
// projection.
int64_t ProjectionDepth(const ParameterGroup& group, char separator) {
  const std::string& path = group.role.sibling_path;
  const std::string_view block =
      std::string_view(path).substr(0, std::min(path.find('?'), path.size()));
  return std::count(block.begin(), block.end(), separator);
}

}  // namespace

LayerHeads::LayerHeads(const Facts& facts, int64_t head_dim)
    : facts_(facts), head_dim_(head_dim) {
  const char separator = facts.separator();
  std::map<std::string, int64_t, std::less<>> normed;
  for (const ParameterGroup& group : facts.groups()) {
    const int64_t depth = NormDepth(group, separator);
    if (depth < 0 || group.role.leaf == Leaf::kBias) continue;
    const auto dim = VectorDimOf(facts, facts.stacks(), group);
    if (!dim) continue;
    const int64_t size = (*facts.TypeOf(group).shape)[AsIndex(*dim)];
    if (size <= 1 || size == head_dim) continue;
    for (const uint32_t param : facts.Members(group)) {
      normed.emplace(PathOf(facts.plan().names[param], separator, depth), size);
    }
  }
  if (normed.empty()) return;
  for (const ParameterGroup& group : facts.groups()) {
    if (group.role.module_role != Role::kQuery || !IsWeight(group)) continue;
    const auto dims = MatrixDimsOf(facts, facts.stacks(), group);
    const int side = OutDim(group.role, 2);
    if (!dims || side < 0) continue;
    const int64_t width =
        (*facts.TypeOf(group).shape)[AsIndex((*dims)[AsIndex(side)])];
    const int64_t depth = ProjectionDepth(group, separator);
    for (const uint32_t param : facts.Members(group)) {
      const auto norm =
          normed.find(PathOf(facts.plan().names[param], separator, depth));
      if (norm == normed.end()) continue;
      if (width > norm->second && width % norm->second == 0) {
        of_block_.insert(*norm);
      }
    }
  }
}

std::map<int64_t, std::vector<uint32_t>> LayerHeads::BySize(
    const ParameterGroup& group) const {
  std::map<int64_t, std::vector<uint32_t>> out;
  const int64_t depth = ProjectionDepth(group, facts_.separator());
  for (const uint32_t param : facts_.Members(group)) {
    const auto at = of_block_.empty()
                        ? of_block_.end()
                        : of_block_.find(PathOf(facts_.plan().names[param],
                                                facts_.separator(), depth));
    out[at == of_block_.end() ? head_dim_ : at->second].push_back(param);
  }
  return out;
}

// Compares how projections shard heads with the axis rules. A projection to
// heads is x[tokens, width] * W[width, heads * head_dim]. If the plan shards
// the last dimension of W over `tp`, the heads of the result are sharded over
// `tp`. If the plan shards the first dimension, the result has all heads and is
// partial over `tp`:
//
//   axis rules: query heads over tp
//   q_proj/kernel [4096, 4096]: [fsdp, tp]  ->  heads over tp: agrees
//   q_proj/kernel [4096, 4096]: [tp, null]  ->  heads unsharded, and the
//       result is partial over tp: differs
//
// The dimension of heads is found by its size. In a square matrix, it is found
// by the orientation of the role. Dimensions that count scanned layers are
// skipped. For a model with 32 heads of 128 and 32 layers:
//
//   [32, 4096, 32, 128]: dimension 0 counts layers, dimension 2 is the heads
//
// Data axes are not compared, because weights are gathered over data axes
// before the product.

namespace {

// The indices of dimensions of a projection's tensor; -1 if the tensor lacks
// one.
struct ProjectionDims {
  int heads = -1;
  int head_dim = -1;  // -1 if one dimension is heads times head size
  int width = -1;
};

bool IsProjection(Role role) {
  return role == Role::kQuery || role == Role::kKey || role == Role::kValue ||
         role == Role::kOutput;
}

// Returns why the spec of a parameter with this role does not determine the
// sharding of heads. Returns an empty text if the spec may determine it.
std::string_view WhyNotByRole(Role role) {
  switch (role) {
    case Role::kFusedQkv:
      return "it holds query, key and value in one tensor";
    case Role::kFusedKeyValue:
      return "it holds key and value in one tensor";
    case Role::kLatentDown:
    case Role::kLatentUp:
      return "it is a projection of latent attention";
    default:
      return {};
  }
}

std::string ShapeText(const Shape& shape) {
  std::string out = "[";
  for (const int64_t size : shape) {
    if (out.size() > 1) out += ", ";
    out += std::to_string(size);
  }
  return out + "]";
}

std::string_view HeadsName(Role role) {
  return IsKeyOrValue(role) ? "KV heads" : "heads";
}

// Finds the dimensions of a matrix such as [hidden, heads * head size]. Returns
// nullopt if neither sizes nor names determine which dimension contains the
// heads.
std::optional<ProjectionDims> OfMatrix(const ParameterRole& role,
                                       const std::vector<int>& dims,
                                       const Shape& shape, int64_t size) {
  const bool out = role.module_role != Role::kOutput;
  const bool first = shape[AsIndex(dims[0])] == size;
  const bool last = shape[AsIndex(dims[1])] == size;
  // If only one dimension has the size of all heads, it holds the heads. If
  // both have this size, `role.in_first` decides: it states whether the matrix
  // is [in, out] or [out, in].
  std::optional<bool> heads_last;
  if (first != last) heads_last = last;
  if (first && last && role.in_first) heads_last = *role.in_first == out;
  if (!heads_last) return std::nullopt;
  return ProjectionDims{.heads = dims[*heads_last ? 1 : 0],
                        .width = dims[*heads_last ? 0 : 1]};
}

// Finds the dimensions of a tensor in which heads and head size are two
// consecutive dimensions, heads first. Returns nullopt unless exactly one pair
// of dimensions has these sizes.
std::optional<ProjectionDims> OfTensor(const std::vector<int>& dims,
                                       const Shape& shape, int64_t count,
                                       int64_t head_dim) {
  std::optional<ProjectionDims> out;
  for (size_t at = 0; at + 1 < dims.size(); ++at) {
    if (shape[AsIndex(dims[at])] != count ||
        shape[AsIndex(dims[at + 1])] != head_dim) {
      continue;
    }
    if (out) return std::nullopt;
    out = {.heads = dims[at],
           .head_dim = dims[at + 1],
           .width = dims[at == 0 ? 2 : 0]};
  }
  return out;
}

class Comparison {
 public:
  Comparison(const Facts& facts, const Heads& sizes, int64_t value_dim,
             std::span<const HeadAxes> axes)
      : facts_(facts),
        sizes_(sizes),
        value_dim_(value_dim),
        axes_(axes),
        stacks_(facts.stacks()) {
    for (const ParameterGroup& group : facts.groups()) {
      if (IsAttention(group.role.role) && !group.role.block_path.empty()) {
        blocks_.insert(group.role.block_path);
      }
    }
  }

  std::vector<ComparedProjection> Take() {
    for (size_t g = 0; g < facts_.groups().size(); ++g) {
      const ParameterGroup& group = facts_.groups()[g];
      const Role role = group.role.role;
      const std::string_view refused = WhyNotByRole(role);
      if (!refused.empty()) {
        AddUnknown(group, std::string(refused));
      } else if (IsProjection(role)) {
        CompareGroup(group, stacks_.dims[g]);
      } else if (role == Role::kOther && facts_.Rank(group) > 1 &&
                 (group.role.attention || IsNextToProjection(group))) {
        AddUnknown(group, "its name gives it no known role in attention");
      }
    }
    return std::move(out_);
  }

 private:
  // Returns whether the group is in the same block as another projection, as
  // `verses/lookback/out` is in the block of `verses/lookback/query`.
  bool IsNextToProjection(const ParameterGroup& group) const {
    const std::string_view name = group.name;
    for (size_t at = name.find(facts_.separator());
         at != std::string_view::npos;
         at = name.find(facts_.separator(), at + 1)) {
      if (blocks_.contains(name.substr(0, at))) return true;
    }
    return false;
  }

  void AddUnknown(const ParameterGroup& group, std::string reason) {
    out_.push_back({.group = &group,
                    .status = ProjectionStatus::kUnknown,
                    .modes = {},
                    .reason = std::move(reason),
                    .help = {}});
  }

  void CompareGroup(const ParameterGroup& group,
                    const std::vector<ScannedDim>& scanned) {
    const auto& shape = facts_.TypeOf(group).shape;
    if (!shape) return AddUnknown(group, "its shape is not known");
    std::vector<int> dims;
    for (int dim = 0; dim < static_cast<int>(shape->size()); ++dim) {
      const bool layers = std::any_of(
          scanned.begin(), scanned.end(), [&](const ScannedDim& one) {
            return one.dim == dim && stacks_.stacks[one.stack].confidence !=
                                         StackConfidence::kUndecided;
          });
      if (!layers) dims.push_back(dim);
    }
    const Role role = group.role.role;
    const int64_t count = IsKeyOrValue(role) ? sizes_.kv_heads : sizes_.heads;
    const bool values = role == Role::kValue || role == Role::kOutput;
    const int64_t head_dim = values ? value_dim_ : sizes_.head_dim;
    const auto found =
        dims.size() == 2 ? OfMatrix(group.role, dims, *shape, count * head_dim)
        : dims.size() == 3 ? OfTensor(dims, *shape, count, head_dim)
                           : std::nullopt;
    if (!found) {
      return AddUnknown(group, "its shape " + ShapeText(*shape) +
                                   " does not show where " +
                                   std::to_string(count) + " " +
                                   std::string(HeadsName(role)) + " of " +
                                   std::to_string(head_dim) + " are");
    }
    CompareModes(group, *found, count);
  }

  // Compares the group in each mode. Adds one result for each distinct pair of
  // status and reason, with all modes that have this pair.
  void CompareModes(const ParameterGroup& group, const ProjectionDims& dims,
                    int64_t count) {
    const size_t begin = out_.size();
    for (const ModeLayout& layout : facts_.LayoutOf(group).modes) {
      const auto axes = std::find_if(
          axes_.begin(), axes_.end(),
          [&](const HeadAxes& one) { return one.mode == layout.mode; });
      if (axes == axes_.end()) continue;
      ComparedProjection one =
          InMode(group, layout, dims, count,
                 IsKeyOrValue(group.role.role) ? axes->key : axes->query);
      const auto same = std::find_if(
          out_.begin() + static_cast<std::ptrdiff_t>(begin), out_.end(),
          [&](const ComparedProjection& other) {
            return other.status == one.status && other.reason == one.reason;
          });
      ComparedProjection& to =
          same != out_.end() ? *same : out_.emplace_back(std::move(one));
      to.modes.push_back(layout.mode);
    }
  }

  // Returns the axes of a dimension over which a weight is still sharded when
  // it is multiplied. Axes of size 1, and axes over which the weight is
  // gathered before that, are omitted.
  AxisGroup KeptAt(const Spec& spec, int dim) const {
    if (dim < 0 || AsIndex(dim) >= spec.size()) return {};
    AxisGroup out = facts_.KeptAxes(spec[AsIndex(dim)]);
    std::erase_if(out, [&](const std::string& axis) {
      return facts_.mesh().Parts(AxisGroup{axis}).value_or(1) <= 1;
    });
    return out;
  }

  ComparedProjection InMode(const ParameterGroup& group,
                            const ModeLayout& layout,
                            const ProjectionDims& dims, int64_t count,
                            const AxisGroup& wanted) const {
    ComparedProjection out;
    out.group = &group;
    const Mesh& mesh = facts_.mesh();
    if (!layout.problems.empty()) {
      out.status = ProjectionStatus::kUnknown;
      out.reason = "its spec is illegal: `shardc check` gives the reason";
      return out;
    }
    const int64_t wanted_parts = mesh.Parts(wanted).value_or(1);
    if (count % wanted_parts != 0) {
      out.status = ProjectionStatus::kUnknown;
      out.reason = "the axis rules split " + std::to_string(count) + " " +
                   std::string(HeadsName(group.role.role)) + " over " +
                   GroupText(wanted) + " into " + std::to_string(wanted_parts) +
                   " parts, which do not divide them";
      return out;
    }
    const bool output = group.role.role == Role::kOutput;
    const std::string heads(HeadsName(group.role.role));
    const AxisGroup split = KeptAt(layout.spec, dims.heads);
    const AxisGroup within = KeptAt(layout.spec, dims.head_dim);
    const AxisGroup width = KeptAt(layout.spec, dims.width);
    const int64_t parts = mesh.Parts(split).value_or(1);
    if (!within.empty()) {
      out.reason = "dimension " + std::to_string(dims.head_dim) +
                   " is split over " + GroupText(within) +
                   " and counts the elements of a head, which attention has "
                   "on one device";
    } else if (count % parts != 0) {
      out.reason = "dimension " + std::to_string(dims.heads) +
                   " is split over " + GroupText(split) + " into " +
                   std::to_string(parts) + " parts, which do not divide " +
                   std::to_string(count) + " " + heads +
                   ": a device holds part of a head";
    } else if (!SameSplit(mesh, split, wanted)) {
      out.reason =
          heads +
          (split.empty() ? " are unsharded in it"
                         : " are split over " + GroupText(split) + " in it") +
          ", and the axis rules " +
          (wanted.empty() ? "leave them unsharded"
                          : "split them over " + GroupText(wanted)) +
          (width.empty()
               ? ""
               : "; it splits the width (dimension " +
                     std::to_string(dims.width) + ") over " + GroupText(width) +
                     (output ? "" : ", so that its result is partial"));
    } else {
      return out;
    }
    out.status = ProjectionStatus::kDiffers;
    out.help = wanted.empty()
                   ? "leave dimension " + std::to_string(dims.heads) +
                         " unsharded, or give the heads this axis in `axes`"
                   : "split dimension " + std::to_string(dims.heads) +
                         " over " + GroupText(wanted) +
                         ", or change the heads' axis in `axes`";
    return out;
  }

  const Facts& facts_;
  const Heads& sizes_;
  int64_t value_dim_;
  std::span<const HeadAxes> axes_;
  const LayerStacks& stacks_;
  std::set<std::string_view> blocks_;  // paths of attention blocks
  std::vector<ComparedProjection> out_;
};

}  // namespace

std::vector<ComparedProjection> CompareProjections(
    const Facts& facts, const Heads& sizes, int64_t value_dim,
    std::span<const HeadAxes> axes) {
  return Comparison(facts, sizes, value_dim, axes).Take();
}

}  // namespace shardc
