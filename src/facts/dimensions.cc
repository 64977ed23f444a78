// The dimensions of a matrix follow from its role and its orientation. For
// example:
//
//   q_proj [4096, 2048] of [out, in]  ->  heads, stream
//   experts/up [8, 2048, 1024]        ->  experts, stream, inner
//   q_proj.bias [4096]                ->  heads, split with q_proj
#include "facts/dimensions.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "roles/role.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc::facts {
namespace {

using enum Counts;

// Returns what the two sides of a matrix of a module count: what it sums over,
// and what it computes.
std::pair<Counts, Counts> SidesOf(Role role) {
  switch (role) {
    case Role::kHead:
      return {kStream, kVocabulary};
    case Role::kQuery:
      return {kStream, kHeads};
    case Role::kKey:
    case Role::kValue:
    case Role::kFusedKeyValue:
      return {kStream, kKvHeads};
    case Role::kFusedQkv:
      return {kStream, kQkvHeads};
    case Role::kOutput:
      return {kHeads, kStream};
    case Role::kLatentDown:
      return {kStream, kLatent};
    case Role::kLatentUp:
      return {kLatent, kHeads};
    case Role::kRouter:
      return {kStream, kExperts};
    case Role::kGate:
    case Role::kUp:
    case Role::kFusedGateUp:
      return {kStream, kInner};
    case Role::kDown:
      return {kInner, kStream};
    default:
      return {kUnknown, kUnknown};
  }
}

// Returns what a vector counts, such as a bias or the scale of a norm.
Counts OfVector(const ParameterRole& role) {
  switch (role.role) {
    case Role::kNorm:
      return kStream;
    case Role::kQueryNorm:
    case Role::kKeyNorm:
      return kHeadSize;
    case Role::kLatentNorm:
      return kLatent;
    case Role::kBias:
      return SidesOf(role.module_role).second;
    default:
      return kUnknown;
  }
}

// Returns whether a projection of attention of this rank, without dimensions
// that count layers, stores its heads in a dimension of their own: [width,
// heads, size of a head], or [heads, size of a head, width] for the output.
bool HasHeadsApart(const ParameterRole& role, int rank) {
  return rank == 3 && !role.expert && role.in_first == true && IsWeight(role) &&
         role.role == role.module_role &&
         (role.role == Role::kQuery || role.role == Role::kKey ||
          role.role == Role::kValue || role.role == Role::kOutput);
}

}  // namespace

MatrixDims MatrixDimsOf(const ParameterTable& table, uint32_t group,
                        const Shape& shape) {
  const ParameterRole& role = table.groups[group].RoleBy(Evidence::kShapes);
  MatrixDims out;
  std::vector<int> dims = {0, 1};
  if (shape.size() != 2) {
    dims = UnscannedDims(shape, table.stacks, table.stacks.dims[group]);
  }
  for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
    if (!IsAmong(dim, dims)) out.layers.push_back(dim);
  }
  const auto rank = static_cast<int>(dims.size());
  if (HasHeadsApart(role, rank)) {
    out.in = dims[0];
    out.out = dims[role.module_role == Role::kOutput ? 2 : 1];
  } else if (role.module_role != Role::kOther && rank > 1) {
    const int out_dim = OutDim(role, rank), in_dim = InDim(role, rank);
    if (out_dim >= 0) out.out = dims[AsIndex(out_dim)];
    if (in_dim >= 0) out.in = dims[AsIndex(in_dim)];
  }
  for (int at = 0; role.expert && at + 2 < rank; ++at) {
    out.experts.push_back(dims[AsIndex(at)]);
  }
  return out;
}

std::string_view CountsWord(Counts counts) {
  switch (counts) {
    case kUnknown:
      return "unknown";
    case kStream:
      return "stream";
    case kHeads:
      return "heads";
    case kKvHeads:
      return "kv_heads";
    case kQkvHeads:
      return "qkv_heads";
    case kInner:
      return "inner";
    case kVocabulary:
      return "vocabulary";
    case kLatent:
      return "latent";
    case kExperts:
      return "experts";
    case kLayers:
      return "layers";
    case kRank:
      return "rank";
    case kPositions:
      return "positions";
    case kHeadSize:
      return "head_size";
  }
  return {};
}

std::vector<Counts> CountsOf(const ParameterTable& table, uint32_t group,
                             const Shape& shape) {
  const ParameterRole& role = table.groups[group].RoleBy(Evidence::kShapes);
  const MatrixDims dims = MatrixDimsOf(table, group, shape);
  std::vector<Counts> out(shape.size(), kUnknown);
  const auto set = [&](int dim, Counts counts) {
    if (dim >= 0) out[AsIndex(dim)] = counts;
  };
  for (const int dim : dims.layers) set(dim, kLayers);
  for (const int dim : dims.experts) set(dim, kExperts);
  const auto rank = static_cast<int>(shape.size());
  const int own = rank - static_cast<int>(dims.layers.size());
  if (role.role == Role::kEmbedding || role.role == Role::kPosition) {
    if (own == 2 && dims.layers.empty()) {
      out = {role.role == Role::kEmbedding ? kVocabulary : kPositions, kStream};
    }
    return out;
  }
  if (own - static_cast<int>(dims.experts.size()) == 1) {
    for (int dim = 0; dim < rank; ++dim) {
      if (out[AsIndex(dim)] == kUnknown) set(dim, OfVector(role));
    }
    return out;
  }
  auto [in, computed] = SidesOf(role.module_role);
  if (role.role == Role::kAdapterDown) computed = kRank;
  if (role.role == Role::kAdapterUp) in = kRank;
  if (role.role == role.module_role || IsAdapter(role.role)) {
    set(dims.in, in);
    set(dims.out, computed);
    if (HasHeadsApart(role, own)) {
      const auto size = std::ranges::find(out, kUnknown);
      if (size != out.end()) *size = kHeadSize;
    }
  }
  return out;
}

std::vector<uint32_t> SplitWith(const ParameterTable& table) {
  std::unordered_map<std::string_view, uint32_t> weights;
  std::vector<uint32_t> out, others;
  const auto is_weight = [](const ParameterRole& role) {
    return IsWeight(role) && !IsAdapter(role.role) &&
           role.role == role.module_role;
  };
  for (uint32_t g = 0; g < table.groups.size(); ++g) {
    if (!is_weight(table.groups[g].role())) others.push_back(g);
    out.push_back(g);
  }
  if (others.empty()) return out;
  for (uint32_t g = 0; g < table.groups.size(); ++g) {
    const ParameterRole& role = table.groups[g].role();
    if (is_weight(role)) weights.try_emplace(role.module_path, g);
  }
  for (const uint32_t g : others) {
    const ParameterRole& role = table.groups[g].role();
    std::string_view path = role.module_path;
    // An adapter is in modules of its own below that of the weight:
    // `q_proj.lora_A.default`.
    for (int above = 0; above < (IsAdapter(role.role) ? 3 : 1); ++above) {
      if (const auto at = weights.find(path); at != weights.end()) {
        out[g] = at->second;
        break;
      }
      const size_t end = path.find_last_of("./");
      path = end == path.npos ? std::string_view() : path.substr(0, end);
    }
  }
  return out;
}

}  // namespace shardc::facts
