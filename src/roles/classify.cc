// Finds the role of a parameter from its name. The last part of a name is
// usually its leaf (`weight`, `bias`). One of the parts just before the leaf
// names the role of the parameter's module. These parts are searched from the
// leaf upwards: first for words whose role is sure, and then for words whose
// role is likely. A part that names a norm ends the search. For example, these
// names give these roles (Conv1D is GPT-2's linear layer, which stores its
// weight as [in, out]):
//
//   layers/*/self_attn/o_proj/kernel  ->  output projection of attention
//   h.*.attn.c_proj.weight            ->  output of attention, in a Conv1D
//   h.*.mlp.c_proj.weight             ->  down projection
//   experts.gate_up_proj_bias         ->  bias of gate_up_proj, a likely role
//
// Some words give a weight its role wherever they are in its name. For example,
// `self_attn.q_proj.lora_A.weight` is an adapter, and `q_norm.weight` is a norm
// of queries.
#include "roles/classify.h"

#include <algorithm>
#include <array>
#include <vector>

#include "model/name.h"
#include "roles/role.h"
#include "source/list.h"

namespace shardc {
namespace {

using Parts = std::vector<std::string_view>;

// The sizes of a router: at most kMostRouted outputs, and at least four times
// as many inputs as outputs.
constexpr int64_t kMostRouted = 1024;

std::string Join(const Parts& parts, size_t count, char separator) {
  std::string out;
  for (size_t i = 0; i < count && i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

template <class Predicate>
bool Any(const Parts& parts, size_t count, const Predicate& predicate) {
  return std::any_of(parts.begin(), parts.begin() + static_cast<long>(count),
                     predicate);
}

// Finds the role of the module that holds the parameter. One of the last two
// parts before the leaf names the role: `q_proj` in `attn.q_proj.weight`.
// Returns the index of this part. Returns nullopt if no part names a role, or
// if the module is a norm.
std::optional<size_t> FindModule(const Parts& parts, size_t last,
                                 Confidence confidence, ParameterRole& out) {
  for (size_t left = last; left > 0; --left) {
    const size_t i = left - 1;
    if (parts[i] == "*") continue;
    if (NamesNorm(parts[i])) {
      out.module_role = Role::kNorm;
      return std::nullopt;
    }
    out.module_role =
        RoleOfWord(parts[i], {out.attention, i + 1 == last}, confidence);
    if (out.module_role != Role::kOther) return i;
    if (i + 2 < last) break;
  }
  return std::nullopt;
}

// Returns the path of the attention or feed-forward block: `layers.0.mlp` for
// `layers.0.mlp.up_proj.weight` (see ParameterRole::block_path). `role_at` is
// the index of the part that names the role, here `up_proj`.
std::string BlockPath(const Parts& parts, size_t role_at, bool attention,
                      char separator) {
  for (size_t i = 0; attention && i < role_at && i < parts.size(); ++i) {
    if (NamesAttention(parts[i])) return Join(parts, i + 1, separator);
  }
  return Join(parts, role_at, separator);
}

void FindExperts(const Parts& parts, Confidence least, ParameterRole& out) {
  for (size_t i = 0; i < parts.size(); ++i) {
    if (NamesSharedExpert(parts[i])) out.shared_expert = true;
    if (!NamesExperts(parts[i], least)) continue;
    out.expert = true;
    out.counted_expert = i + 1 < parts.size() && parts[i + 1].ends_with('*');
  }
}

// Returns the role that some part of the name sets for every parameter below
// it, such as kAdapterDown for `lora_A`; kOther if no part sets a role. If
// several parts set a role, a role of positions takes precedence over a role of
// adapters, and both take precedence over all other roles. So `q_norm.lora_A`
// has the role of the adapter, not that of the norm.
Role RoleBelowAny(const Parts& parts) {
  Role best = Role::kOther;
  for (const std::string_view part : parts) {
    const Role role = RoleBelow(part);
    if (role == Role::kOther) continue;
    const auto before = [](Role one) {
      return one == Role::kPosition ? 0 : IsAdapter(one) ? 1 : 2;
    };
    if (best == Role::kOther || before(role) < before(best)) best = role;
  }
  return best;
}

Role OwnRole(const Parts& parts, const ParameterRole& of, int rank) {
  const bool quantised = of.leaf == Leaf::kScale || of.leaf == Leaf::kZeroPoint;
  if (quantised && of.module_role != Role::kNorm) return Role::kScale;
  if (of.leaf == Leaf::kBias && rank < 3) return Role::kBias;
  if (const Role below = RoleBelowAny(parts); below != Role::kOther) {
    return below;
  }
  const bool mixer = Any(parts, parts.size(), NamesMixerWeight) &&
                     (!of.attention || Any(parts, parts.size(), NamesMixer));
  if (mixer && of.module_role != Role::kFusedQkv) return Role::kStateSpace;
  if (of.module_role == Role::kOther && rank >= 0 && rank < 2) {
    return Role::kVector;
  }
  return of.module_role;
}

}  // namespace

ParameterRole Classify(std::string_view name, char separator, Confidence least,
                       int rank) {
  const size_t end = EndBeforeExpert(name, separator);
  Parts parts = RoleParts(name.substr(0, end), separator);
  ParameterRole out;
  FindExperts(parts, least, out);
  if (end < name.size()) out.counted_expert = true;
  out.leaf = LeafOfWord(parts.back());
  Confidence most = Confidence::kSure;
  if (out.leaf == Leaf::kOther && least < Confidence::kSure) {
    if (const auto joined = SplitLeaf(parts.back())) {
      parts.back() = joined->module;
      parts.push_back(joined->leaf);
      out.leaf = LeafOfWord(joined->leaf);
      out.packed_blocks = joined->blocks;
      most = Confidence::kLikely;
    }
  }
  const bool has_leaf = out.leaf != Leaf::kOther && parts.size() > 1;
  const size_t last = parts.size() - (has_leaf ? 1 : 0);
  out.attention = Any(parts, last, NamesAttention);
  auto at = FindModule(parts, last, Confidence::kSure, out);
  out.confidence = most;
  if (out.module_role == Role::kOther && least < Confidence::kSure) {
    at = FindModule(parts, last, Confidence::kLikely, out);
    out.confidence = Confidence::kLikely;
  }
  // The key of an indexer (DeepSeek-V3.2) is treated as a latent. It is not a
  // KV head, because all heads of the indexer read it, and its norm is over the
  // entire key.
  const bool indexer =
      Any(parts, last, [](std::string_view part) { return part == "indexer"; });
  if (indexer && out.module_role == Role::kKey) {
    out.module_role = Role::kLatentDown;
  }
  if (out.module_role == Role::kOther) out.confidence = Confidence::kNone;
  out.conv1d = at && (parts[*at] == "c_attn" || parts[*at] == "c_fc" ||
                      parts[*at] == "c_proj");
  // Kernels are [in, out]. The weights of PyTorch are [out, in], except for
  // those of GPT-2's Conv1D layers.
  if (out.leaf == Leaf::kKernel) out.in_first = true;
  if (out.leaf == Leaf::kWeight) out.in_first = out.conv1d;
  out.module_path = Join(parts, last, separator);
  out.block_path = BlockPath(parts, at.value_or(last > 0 ? last - 1 : 0),
                             out.attention, separator);
  out.role = OwnRole(parts, out, rank);
  if (at) parts[*at] = "?";
  out.sibling_path = Join(parts, parts.size(), separator);
  return out;
}

Role RefineBySizes(Role role, const MatrixSizes& sizes) {
  const int64_t least = std::min(sizes.first, sizes.last);
  const int64_t most = std::max(sizes.first, sizes.last);
  if (role == Role::kRouter && (least > kMostRouted || 4 * least > most)) {
    role = sizes.width != 0 ? Role::kUp : Role::kOther;
  }
  const bool table = role == Role::kEmbedding || role == Role::kHead;
  if (table && least == most) role = Role::kOther;
  if (role != Role::kOther || sizes.width == 0 || least == most) return role;
  if (sizes.vocabulary) return Role::kEmbedding;
  return sizes.in_layers ? Role::kProjection : Role::kOther;
}

int OutDim(const ParameterRole& role, int rank) {
  if (role.leaf == Leaf::kBias) return rank - 1;
  if (rank < 2 || !role.in_first) return -1;
  return *role.in_first ? rank - 1 : rank - 2;
}

int InDim(const ParameterRole& role, int rank) {
  if (rank < 2 || !role.in_first) return -1;
  return *role.in_first ? rank - 2 : rank - 1;
}

bool IsWeight(const ParameterRole& role) {
  return role.leaf == Leaf::kWeight || role.leaf == Leaf::kKernel;
}

bool MayPack(Dtype dtype) {
  constexpr std::array<Dtype, 7> kPacking = {
      Dtype::kU8,  Dtype::kI16, Dtype::kU16, Dtype::kI32,
      Dtype::kU32, Dtype::kI64, Dtype::kU64};
  return IsAmong(dtype, kPacking);
}

bool IsQuantised(Dtype dtype) {
  return MayPack(dtype) || (dtype != Dtype::kBool && DtypeBits(dtype) <= 8);
}

int64_t BlockOf(int64_t size, int64_t scales) {
  if (scales <= 0 || scales >= size) return 1;
  for (int64_t block = 2; block <= size; block *= 2) {
    if ((size + block - 1) / block == scales) return block;
    if (block > size / 2) break;
  }
  // No power of two fits. The block may be another size, such as 100 elements,
  // or all elements may share one scale.
  return size % scales == 0 ? size / scales : 1;
}

namespace {

// A dimension of a matrix has at least this size. A smaller one counts the taps
// of a convolution.
constexpr int64_t kLeastMatrixSide = 16;
// A smaller even dimension before the sides of a matrix counts experts if it
// has at least this size: [8, 2048, 2048]. Odd ones count taps, too.
constexpr int64_t kFewestExperts = 4;

}  // namespace

bool IsOutOfMixer(std::string_view name, char separator) {
  const auto parts = SplitName(name, separator);
  return IsAmong("out_proj", parts) &&
         std::any_of(parts.begin(), parts.end(), NamesMixer);
}

bool IsUnknownMatrix(std::string_view name, char separator,
                     const ParameterRole& role, const Shape& shape,
                     std::span<const int> dims) {
  int sides = 0;
  for (const int dim : dims) {
    const int64_t size = shape[static_cast<size_t>(dim)];
    if (size <= 1) continue;
    if (size >= kLeastMatrixSide) {
      ++sides;
    } else if (sides > 0 || size < kFewestExperts || size % 2 != 0) {
      return false;
    }
  }
  return sides >= 2 && role.role == Role::kOther &&
         role.module_role == Role::kOther &&
         role.leaf != Leaf::kEmbeddingTable && !IsOutOfMixer(name, separator);
}

}  // namespace shardc
