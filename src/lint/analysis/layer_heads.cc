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
#include "lint/analysis/layer_heads.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "lint/analysis/groups.h"
#include "lint/analysis/scanned.h"
#include "model/name.h"
#include "roles/words.h"
#include "source/index.h"

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

}  // namespace shardc
