// Compares names to find parameter groups that belong together. Siblings are
// the projections of one module, such as q_proj and k_proj. Their paths are
// equal if the part that states the role is replaced by `?`. If two groups
// of a module have the same role, the group with more parameters is used. For
// example:
//
//   layers/*/attn/q_proj/kernel, layers/*/attn/k_proj/kernel  ->  siblings
#include "lint/analysis/groups.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "roles/role.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc {

std::optional<Adapter> AdapterOf(std::string_view name, char separator) {
  Adapter out;
  for (const std::string_view part : RoleParts(name, separator)) {
    const Role role = RoleBelow(part);
    out.down = role == Role::kAdapterDown;
    if (IsAdapter(role)) return out;
    if (!out.base.empty()) out.base += separator;
    out.base += part;
  }
  return std::nullopt;
}

AdapterHalves::AdapterHalves(const Facts& facts) {
  for (const ParameterGroup& group : facts.groups()) {
    if (!IsAdapter(group.role.role)) continue;
    const auto half = AdapterOf(group.name, facts.separator());
    if (!half) continue;
    halves_.try_emplace({half->base, half->down, facts.Rank(group)}, &group);
  }
}

const ParameterGroup* AdapterHalves::OtherOf(
    const Facts& facts, const ParameterGroup& group) const {
  if (!IsAdapter(group.role.role)) return nullptr;
  const auto own = AdapterOf(group.name, facts.separator());
  if (!own) return nullptr;
  const auto at = halves_.find({own->base, !own->down, facts.Rank(group)});
  return at == halves_.end() ? nullptr : at->second;
}

const ParameterGroup* OtherHalf(const Facts& facts,
                                const ParameterGroup& group) {
  return facts.adapter_halves().OtherOf(facts, group);
}

bool IsReplicatedHalf(const Facts& facts, const ParameterGroup& group) {
  if (!facts.Replicated(group)) return false;
  const ParameterGroup* const other = OtherHalf(facts, group);
  return other != nullptr && !facts.Replicated(*other);
}

bool IsWeight(const ParameterGroup& group) { return IsWeight(group.role); }

bool SplitOver(const Facts& facts, const ParameterGroup& group,
               const AxisGroup& axes) {
  for (const AxisGroup& dimension : facts.Train(group).spec) {
    if (std::find_first_of(dimension.begin(), dimension.end(), axes.begin(),
                           axes.end()) != dimension.end()) {
      return true;
    }
  }
  return false;
}

bool IsPlaced(const Facts& facts, const ParameterGroup& group) {
  return facts.plan().params[facts.Members(group).front()].IsPlaced();
}

std::vector<Siblings> SiblingsOf(const Facts& facts) {
  std::unordered_map<std::string_view, size_t> ids;
  std::vector<Siblings> all;
  for (const ParameterGroup& group : facts.groups()) {
    if (!IsWeight(group) || group.role.module_role == Role::kOther ||
        IsAdapter(group.role.role) || !facts.Judged(group)) {
      continue;
    }
    const auto [at, fresh] =
        ids.try_emplace(group.role.sibling_path, all.size());
    if (fresh) all.emplace_back();
    const ParameterGroup*& slot = all[at->second].roles[group.role.module_role];
    if (slot == nullptr || group.count() > slot->count()) slot = &group;
  }
  std::erase_if(all, [](const Siblings& s) { return s.roles.size() < 2; });
  return all;
}

std::vector<int> UnscannedDims(const Facts& facts, const LayerStacks& stacks,
                               const ParameterGroup& group) {
  const auto& shape = facts.TypeOf(group).shape;
  if (!shape) return {};
  return facts::UnscannedDims(
      *shape, stacks, stacks.dims[AsIndex(&group - facts.groups().data())]);
}

namespace {

// Sets what a traced program shows about a matrix: whether it reads or writes
// the residual stream, and the factor of its other dimension, which it shares
// with the other projections of its block.
void TakeTraced(const program::Facts& facts, const program::ParamFacts& param,
                ShardedGroup& out) {
  using enum program::FactorRole;
  int stream = -1, inner = -1;
  out.projects = out.norm = out.output_bias = out.column_bias = false;
  out.layers.clear();
  out.experts.clear();
  for (size_t dim = 0; dim < param.dims.size(); ++dim) {
    const program::FactorList& factors = param.dims[dim];
    if (factors.empty()) continue;
    const auto at = static_cast<int>(dim);
    uint32_t lead = factors[0];
    // Parts that are stored one after the other are led by the first one's.
    while (!facts.factors[lead].parts.empty() &&
           !facts.factors[lead].parts[0].empty()) {
      lead = facts.factors[lead].parts[0][0];
    }
    switch (facts.factors[lead].role) {
      case kStream:
        stream = at;
        break;
      case kLayers:
        out.layers.push_back(at);
        break;
      case kExperts:
        out.experts.push_back(at);
        break;
      case kHeads:
      case kKvHeads:
      case kStateGroups:
      case kInner:
        inner = at;
        out.block = std::to_string(lead);
        break;
      case kVocab:
        inner = at;
        out.role = param.looked_up ? Role::kEmbedding : Role::kHead;
        break;
      default:
        break;
    }
  }
  const bool vector =
      param.dims.size() == out.layers.size() + out.experts.size() + 1;
  if (vector) {
    out.norm = stream >= 0;
    out.column_bias = inner >= 0;
    return;
  }
  if (stream < 0 || inner < 0) return;
  const bool reads = std::ranges::any_of(
      param.dims[AsIndex(stream)],
      [&](uint32_t factor) { return IsAmong(factor, param.contracted); });
  out.in = reads ? stream : inner;
  out.out = reads ? inner : stream;
  if (out.role == Role::kHead || out.role == Role::kEmbedding) return;
  out.projects = true;
  out.role = reads ? Role::kUp : Role::kDown;
}

}  // namespace

ShardedGroup AsShardedGroup(const Facts& facts, const ParameterGroup& group) {
  const ParameterRole& role = group.role;
  const ModeLayout& train = facts.Train(group);
  ShardedGroup out;
  out.block = role.sibling_path;
  out.role = role.module_role;
  out.projects =
      IsWeight(group) && role.role == role.module_role && !IsAdapter(role.role);
  out.norm = role.role == Role::kNorm;
  out.output_bias = role.role == Role::kBias && GivesWidth(role.module_role);
  out.column_bias = role.role == Role::kBias && TakesWidth(role.module_role);
  out.spec = &train.resolved;
  out.shape = &*facts.TypeOf(group).shape;
  out.rule = group.rule;
  if (IsPlaced(facts, group)) {
    out.placed_along = facts.PlacementAxis(facts.LayoutOf(group));
  }
  const LayerStacks& stacks = facts.stacks();
  std::vector<int> dims = {0, 1};
  if (facts.Rank(group) != 2) dims = UnscannedDims(facts, stacks, group);
  for (int dim = 0; dim < facts.Rank(group); ++dim) {
    if (!IsAmong(dim, dims)) out.layers.push_back(dim);
  }
  const auto rank = static_cast<int>(dims.size());
  const int out_dim = OutDim(role, rank), in_dim = InDim(role, rank);
  if (out_dim >= 0) out.out = dims[AsIndex(out_dim)];
  if (in_dim >= 0) out.in = dims[AsIndex(in_dim)];
  for (int at = 0; role.expert && at + 2 < rank; ++at) {
    out.experts.push_back(dims[AsIndex(at)]);
  }
  if (const auto* traced = facts.TracedParam(facts.Members(group).front())) {
    TakeTraced(facts.inputs().traced->facts, *traced, out);
  }
  for (const std::vector<NameTrace>& dimension : train.why.traces) {
    for (const NameTrace& trace : dimension) {
      const auto rule = ParseAxisRule(trace.rule);
      if (!rule) continue;
      const auto kind = ParallelismOf(*rule);
      for (const std::string& axis : trace.axes) {
        out.logical.emplace_back(axis, kind.value_or(*rule));
      }
    }
  }
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
