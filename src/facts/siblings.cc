// A word such as `to_out` or `linear1` names a projection in a few frameworks,
// and something else in others. The shapes of the other parameters of its block
// show which one it is here. What a projection computes, the next one reads:
//
//   to_q [4096, 4096], to_k and to_v [1024, 4096], to_out [4096, 4096]
//     ->  query, key, value and output projection of attention
//   linear1 [11008, 4096], linear2 [4096, 11008]
//     ->  up and down projection of a feed-forward block
//   linear1 [21504, 3072], linear2 [3072, 15360]
//     ->  neither: what the first computes, the second does not read
//
// The orientation of matrices is not known yet, so sizes are compared without
// it. A block has the parameters of one ParameterRole::block_path.
#include "facts/siblings.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "roles/role.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc::facts {
namespace {

// The two sides of a matrix, the shorter one first.
struct Sides {
  int64_t less = 0, more = 0;

  bool Has(int64_t size) const { return less == size || more == size; }
  // Returns the other side of a matrix that has this side.
  int64_t Beside(int64_t size) const { return less == size ? more : less; }
  bool operator==(const Sides&) const = default;
};

// A matrix of a block.
struct Member {
  uint32_t group = 0;
  Role role = Role::kOther;
  bool expert = false;
  // The number of experts in one tensor; 1 for other matrices.
  int64_t experts = 1;
  // The sides of the matrix that the shape may have: [1024, 16, 64] has 1024
  // and 1024, or 16384 and 64. Packed numbers hold several elements of one
  // side.
  std::vector<Sides> readings = {};
};

Sides Ordered(int64_t a, int64_t b) { return {std::min(a, b), std::max(a, b)}; }

bool IsMatrixLeaf(Leaf leaf) {
  return leaf == Leaf::kWeight || leaf == Leaf::kKernel ||
         leaf == Leaf::kOther || leaf == Leaf::kEmbeddingTable;
}

void AddReading(int64_t a, int64_t b, const Sibling& of, Member& out) {
  if (a <= 1 || b <= 1) return;
  out.readings.push_back(Ordered(a, b));
  if (!of.dtype || !MayPack(*of.dtype)) return;
  for (const int64_t held : {2, 4, 8, 16}) {
    for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
      const auto unpacked = CheckedMul(x, held);
      if (unpacked) out.readings.push_back(Ordered(*unpacked, y));
    }
  }
}

std::optional<Member> MemberOf(const Sibling& of, uint32_t group) {
  const ParameterRole& role = *of.role;
  Member out{.group = group, .role = role.module_role, .expert = role.expert};
  if (role.role != role.module_role || !IsMatrixLeaf(role.leaf)) {
    return std::nullopt;
  }
  const Shape& sizes = of.sizes;
  if (sizes.size() == 2) {
    AddReading(sizes[0], sizes[1], of, out);
  } else if (sizes.size() == 3 && role.expert && !role.counted_expert) {
    out.experts = sizes[0];
    AddReading(sizes[1], sizes[2], of, out);
  } else if (sizes.size() == 3 && IsAttention(role.module_role)) {
    for (const auto& [a, b, c] : {std::tuple(0, 1, 2), std::tuple(2, 0, 1)}) {
      const auto product = CheckedMul(sizes[AsIndex(b)], sizes[AsIndex(c)]);
      if (product) AddReading(sizes[AsIndex(a)], *product, of, out);
    }
  }
  if (out.readings.empty()) return std::nullopt;
  return out;
}

class Block {
 public:
  void Add(Member member) { members_.push_back(std::move(member)); }

  // Adds the groups of the block whose roles the shapes show.
  void Confirm(std::set<uint32_t>& out) const {
    ForPairs(
        Role::kQuery, Role::kOutput,
        [&](const auto& q, const auto& o) { return q == o; }, out);
    ForPairs(Role::kFusedQkv, Role::kOutput, HoldsParts, out);
    for (const Role up : {Role::kUp, Role::kGate}) {
      // The word may name a matrix that also holds the gate: `linear_fc1` of
      // Megatron-Core.
      ForPairs(
          up, Role::kDown,
          [](const auto& u, const auto& d) {
            return u == d || HoldsGate(u, d);
          },
          out);
    }
    ForPairs(Role::kFusedGateUp, Role::kDown, HoldsGate, out);
    // The output of latent attention writes the width that the latent is made
    // of.
    ForPairs(
        Role::kLatentDown, Role::kOutput,
        [](const Sides& latent, const Sides& output) {
          return output.Has(latent.more);
        },
        out);
    ConfirmKeys(out);
    ConfirmRouters(out);
  }

 private:
  // Returns whether a matrix [2 * inner, width] has both parts of an inner size
  // that a down projection [width, inner] reads.
  static bool HoldsGate(const Sides& both, const Sides& down) {
    const auto doubled = [&](int64_t inner, int64_t width) {
      const auto twice = CheckedMul(inner, int64_t{2});
      return twice && both == Ordered(*twice, width);
    };
    return doubled(down.less, down.more) || doubled(down.more, down.less);
  }

  // Returns whether a matrix has the parts of queries, keys and values next to
  // an output projection that reads `inner` values.
  static bool HoldsParts(const Sides& fused, const Sides& output) {
    const auto holds = [&](int64_t inner, int64_t width) {
      if (!fused.Has(width)) return false;
      const int64_t rest = fused.Beside(width) - inner;
      return rest > 0 && rest % 2 == 0 && rest / 2 <= inner &&
             inner % (rest / 2) == 0;
    };
    return holds(output.less, output.more) || holds(output.more, output.less);
  }

  template <class Fits>
  void ForPairs(Role first, Role second, const Fits& fits,
                std::set<uint32_t>& out) const {
    for (const Member& a : members_) {
      if (a.role != first) continue;
      for (const Member& b : members_) {
        if (b.role != second || a.expert != b.expert ||
            a.experts != b.experts) {
          continue;
        }
        const bool any = std::ranges::any_of(a.readings, [&](const Sides& x) {
          return std::ranges::any_of(
              b.readings, [&](const Sides& y) { return fits(x, y); });
        });
        if (any) out.insert({a.group, b.group});
      }
    }
  }

  // Keys and values have one shape, and read what the queries of the block
  // read, or are as wide. The queries must be known.
  void ConfirmKeys(std::set<uint32_t>& out) const {
    const auto beside_query = [&](const Member& one) {
      return std::ranges::any_of(members_, [&](const Member& query) {
        return query.role == Role::kQuery && out.contains(query.group) &&
               std::ranges::any_of(query.readings, [&](const Sides& q) {
                 return std::ranges::any_of(one.readings, [&](const Sides& k) {
                   return k.Has(q.less) || k.Has(q.more);
                 });
               });
      });
    };
    std::set<uint32_t> found;
    for (const Member& one : members_) {
      if (one.role == Role::kFusedKeyValue && beside_query(one)) {
        found.insert(one.group);
      }
      if (one.role != Role::kKey && one.role != Role::kValue) continue;
      const Role other = one.role == Role::kKey ? Role::kValue : Role::kKey;
      const bool alike =
          std::ranges::any_of(members_, [&](const Member& sibling) {
            return sibling.role == other && sibling.readings == one.readings;
          });
      if (alike && beside_query(one)) found.insert(one.group);
    }
    out.merge(found);
  }

  // A router has a side of the width of its experts, and one of their number.
  void ConfirmRouters(std::set<uint32_t>& out) const {
    std::set<uint32_t> found;
    for (const Member& one : members_) {
      if (one.role != Role::kRouter) continue;
      const bool routes =
          std::ranges::any_of(members_, [&](const Member& expert) {
            const Sides& own = one.readings.front();
            return expert.experts > 1 && out.contains(expert.group) &&
                   own.Has(expert.experts) &&
                   std::ranges::any_of(
                       expert.readings, [&](const Sides& sides) {
                         return sides.Has(own.Beside(expert.experts));
                       });
          });
      if (routes) found.insert(one.group);
    }
    out.merge(found);
  }

  std::vector<Member> members_;
};

// Finds the tables of the vocabulary outside of layers: a side is the
// vocabulary of the configuration, or a size that no matrix of a layer has, and
// which is longer than the other side, the width of the layers.
void ConfirmTables(std::span<const Sibling> groups, const KnownSizes& known,
                   std::set<uint32_t>& out) {
  std::set<int64_t> in_layers;
  for (const Sibling& one : groups) {
    if (!one.layered) continue;
    in_layers.insert(one.sizes.begin(), one.sizes.end());
  }
  for (uint32_t g = 0; g < groups.size(); ++g) {
    const Sibling& one = groups[g];
    const Role role = one.role->module_role;
    if ((role != Role::kEmbedding && role != Role::kHead) || one.layered ||
        one.role->role != role || one.count != 1 || one.sizes.size() != 2) {
      continue;
    }
    const Sides sides = Ordered(one.sizes[0], one.sizes[1]);
    const bool longer = sides.more > sides.less &&
                        in_layers.contains(sides.less) &&
                        !in_layers.contains(sides.more);
    if (known.vocabulary ? sides.Has(*known.vocabulary) : longer) out.insert(g);
  }
}

}  // namespace

std::vector<bool> ConfirmedBySiblings(std::span<const Sibling> groups,
                                      const KnownSizes& known) {
  std::vector<bool> out(groups.size());
  // Whether some role is not sure.
  const bool open = std::ranges::any_of(groups, [](const Sibling& group) {
    return !group.sure && group.role->module_role != Role::kOther;
  });
  if (!open) return out;
  std::unordered_map<std::string_view, Block> blocks;
  for (uint32_t g = 0; g < groups.size(); ++g) {
    if (auto member = MemberOf(groups[g], g)) {
      blocks[groups[g].role->block_path].Add(std::move(*member));
    }
  }
  std::set<uint32_t> found;
  for (const auto& [path, block] : blocks) block.Confirm(found);
  ConfirmTables(groups, known, found);
  // The roles of the modules whose weights are known, by the path of the block.
  std::set<std::pair<std::string_view, Role>> modules;
  for (const uint32_t g : found) {
    out[g] = true;
    modules.emplace(groups[g].role->block_path, groups[g].role->module_role);
  }
  // What belongs to a module: its bias, its scales, and its adapters.
  for (uint32_t g = 0; g < groups.size(); ++g) {
    const ParameterRole& role = *groups[g].role;
    if (role.role == role.module_role) continue;
    if (modules.contains({role.block_path, role.module_role})) out[g] = true;
  }
  return out;
}

}  // namespace shardc::facts
