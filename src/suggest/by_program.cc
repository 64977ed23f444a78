// Chooses what tensor parallelism shards by the uses of factors. A factor can
// be sharded if it leads a dimension of a parameter, so that contiguous ranges
// have complete heads or experts. Each such factor has a cover, the share of
// the model's multiplications that it would divide (or of its bytes, where
// lookups multiply nothing), and a communication: the elements of the results
// that devices would have to reduce. The factors with the best ratio are taken,
// one after the other. A factor is left out if it occurs in a value together
// with a factor that was taken, because an axis shards one dimension of a
// value:
//
//   MLP     inner: 2 dots covered, one result reduced    -> taken
//           stream: all dots covered, all results reduced
//           -> not taken: the weights have both
//
// Without names this gives the usual sharding of attention by heads, of an MLP
// by its inner width, and of tables by their vocabulary. The data axes then
// shard another dimension, preferably that of the stream.
#include "suggest/by_program.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "source/index.h"
#include "suggest/choose.h"

namespace shardc::suggest {
namespace {

using program::Factor;
using program::FactorList;
using program::FactorRole;
using program::Facts;
using program::ParamFacts;

// Vectors stay replicated unless tensor parallelism shards them, and so do
// parameters with fewer elements than this.
constexpr int64_t kSmallMatrix = 65536;
constexpr int64_t kSmallMatrixFraction = 50;

class Params {
 public:
  explicit Params(const Facts& facts) {
    for (const ParamFacts& param : facts.params) by_name_[param.name] = &param;
  }
  // Returns the facts of the group's tensors. Tensors without facts are left
  // out.
  std::vector<const ParamFacts*> Of(const Tree& tree,
                                    const ParameterGroup& group) const {
    std::vector<const ParamFacts*> out;
    for (const uint32_t member : tree.Members(group)) {
      const auto at = by_name_.find(tree.NameOf(member));
      if (at != by_name_.end() && at->second->shape == group.shape) {
        out.push_back(at->second);
      }
    }
    return out;
  }

 private:
  std::unordered_map<std::string_view, const ParamFacts*> by_name_;
};

// Adds the factors of a dimension, and those of its parts.
void Collect(const Facts& facts, const FactorList& dim,
             std::set<uint32_t>& out) {
  for (const uint32_t factor : dim) {
    if (!out.insert(factor).second) continue;
    for (const FactorList& part : facts.factors[factor].parts) {
      Collect(facts, part, out);
    }
  }
}

// Returns the role that the factors of a parameter show.
Role RoleOf(const Facts& facts, const ParamFacts& param) {
  std::set<FactorRole> has;
  bool fused = false;
  size_t rank = 0;
  for (const FactorList& dim : param.dims) {
    std::set<uint32_t> all;
    Collect(facts, dim, all);
    bool layers = dim.empty();
    for (const uint32_t factor : all) {
      has.insert(facts.factors[factor].role);
      layers = layers || facts.factors[factor].role == FactorRole::kLayers;
    }
    if (!layers) ++rank;
    // The halves that a rotary embedding exchanges are no separate matrices.
    fused = fused ||
            (!dim.empty() && !facts.factors[dim[0]].parts.empty() &&
             !std::ranges::all_of(
                 facts.factors[dim[0]].parts, [&](const FactorList& part) {
                   return part.size() == 1 &&
                          facts.factors[part[0]].role == FactorRole::kHeadDim;
                 }));
  }
  const bool contracted =
      !param.contracted.empty() &&
      std::ranges::none_of(param.contracted, [&](uint32_t factor) {
        return facts.factors[factor].role == FactorRole::kStream;
      });
  const auto is = [&](FactorRole role) { return has.contains(role); };
  using enum FactorRole;
  if (rank < 2) return is(kStream) ? Role::kNorm : Role::kVector;
  if (is(kVocab)) return param.looked_up ? Role::kEmbedding : Role::kHead;
  if (is(kPosition) || is(kSequence)) return Role::kPosition;
  if (is(kWindow)) return Role::kConvolution;
  if (is(kExperts) && !is(kInner)) return Role::kRouter;
  if (is(kInner)) {
    return contracted ? Role::kDown : fused ? Role::kFusedGateUp : Role::kUp;
  }
  if (is(kHeads) || is(kKvHeads) || is(kHeadDim)) {
    return contracted ? Role::kOutput : fused ? Role::kFusedQkv : Role::kQuery;
  }
  if (is(kLatent)) return Role::kLatentDown;
  return is(kStream) ? Role::kProjection : Role::kOther;
}

// Chooses the factors that the tensor-parallel axis shards.
class FactorChooser {
 public:
  FactorChooser(const Facts& facts, int64_t parts, bool experts_sharded)
      : facts_(facts), parts_(parts), experts_sharded_(experts_sharded) {}

  std::set<uint32_t> Choose() {
    const size_t count = facts_.factors.size();
    std::vector<double> elements(count);
    double all_flops = 0;
    double all_elements = 0;
    for (const Factor& factor : facts_.factors) {
      all_flops = std::max(all_flops, factor.flops);
    }
    for (const ParamFacts& param : facts_.params) {
      double size = 1;
      std::set<uint32_t> all;
      for (size_t d = 0; d < param.dims.size(); ++d) {
        size *= static_cast<double>(param.shape[d]);
        Collect(facts_, param.dims[d], all);
      }
      for (const uint32_t factor : all) elements[factor] += size;
      all_elements += size;
    }
    struct Candidate {
      double ratio;
      uint32_t factor;
    };
    std::vector<Candidate> candidates;
    for (uint32_t i = 0; i < count; ++i) {
      const Factor& factor = facts_.factors[i];
      if (!MayShard(i)) continue;
      const double cover = std::max(factor.flops / std::max(1.0, all_flops),
                                    elements[i] / std::max(1.0, all_elements));
      candidates.push_back({cover / std::max(1.0, factor.communicated), i});
    }
    std::ranges::stable_sort(candidates, std::greater(), &Candidate::ratio);
    std::map<uint32_t, std::set<uint32_t>> together;
    for (const FactorList& list : facts_.together) {
      for (const uint32_t factor : list) {
        together[factor].insert(list.begin(), list.end());
      }
    }
    std::set<uint32_t> out;
    for (const Candidate& one : candidates) {
      const auto& others = together[one.factor];
      const bool free = std::ranges::none_of(
          out, [&](uint32_t chosen) { return others.contains(chosen); });
      if (free) out.insert(one.factor);
    }
    return out;
  }

 private:
  bool MayShard(uint32_t index) const {
    const Factor& factor = facts_.factors[index];
    using enum FactorRole;
    constexpr FactorRole kNever[] = {kBatch,  kSequence, kLayers,  kWindow,
                                     kLatent, kParts,    kPosition};
    if (!factor.parts.empty() || factor.size % parts_ != 0 ||
        factor.needs_replication ||
        (experts_sharded_ && factor.role == kExperts) ||
        std::ranges::find(kNever, factor.role) != std::end(kNever)) {
      return false;
    }
    return std::ranges::any_of(
        factor.occurrences, [&](const program::Occurrence& one) {
          const FactorList& dim = facts_.params[one.param].dims[one.dim];
          return !dim.empty() && dim[0] == index;
        });
  }

  const Facts& facts_;
  int64_t parts_;
  bool experts_sharded_;
};

}  // namespace

ModelDims ProgramDims(const Tree& tree, const Facts& facts) {
  const Params params(facts);
  ModelDims out;
  out.facts.by_program = true;
  out.stacks.dims.resize(tree.groups.size());
  std::set<int64_t> widths, vocabularies;
  for (const ParameterGroup& group : tree.groups) {
    InferredDims inferred;
    inferred.by_program = true;
    for (const int64_t size : group.shape) {
      inferred.dims.push_back({.size = size});
    }
    const auto members = params.Of(tree, group);
    if (!members.empty()) {
      inferred.role = RoleOf(facts, *members[0]);
      for (size_t d = 0; d < group.shape.size(); ++d) {
        const FactorList& dim = members[0]->dims[d];
        if (dim.size() != 1) continue;
        const Factor& factor = facts.factors[dim[0]];
        if (factor.role == FactorRole::kStream) widths.insert(factor.size);
        if (factor.role == FactorRole::kVocab) vocabularies.insert(factor.size);
        if (factor.role == FactorRole::kExperts) {
          inferred.experts = static_cast<int>(d);
          out.facts.experts = factor.size;
        }
      }
    }
    out.groups.push_back(std::move(inferred));
  }
  out.facts.widths.assign(widths.begin(), widths.end());
  out.facts.vocabularies.assign(vocabularies.begin(), vocabularies.end());
  return out;
}

Choices ChooseByProgram(const Tree& tree, const Facts& facts,
                        const ModelDims& dims, const MeshAxes& mesh) {
  const Params params(facts);
  std::set<uint32_t> tensor;
  if (mesh.tp > 1) {
    tensor = FactorChooser(facts, mesh.tp, mesh.ep > 1).Choose();
  }
  int64_t elements = 0;
  for (const ParameterGroup& group : tree.groups) {
    elements += std::min(group.elements, kSmallMatrix) * group.count();
  }
  const int64_t small = std::min(kSmallMatrix, elements / kSmallMatrixFraction);
  Choices out;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const ParameterGroup& group = tree.groups[k];
    const auto members = params.Of(tree, group);
    Choice choice;
    choice.spec.resize(group.shape.size());
    // Whether a test holds for a dimension of all tensors of the group.
    const auto every = [&](size_t d, const auto& test) {
      return !members.empty() &&
             std::ranges::all_of(members, [&](const ParamFacts* member) {
               const FactorList& dim = member->dims[d];
               return !dim.empty() && test(dim, facts.factors[dim[0]]);
             });
    };
    std::vector<int> free;  // dimensions for data axes, the preferred one first
    for (size_t d = 0; d < group.shape.size(); ++d) {
      const bool experts =
          every(d, [&](const FactorList& dim, const Factor& factor) {
            return dim.size() == 1 && factor.role == FactorRole::kExperts;
          });
      if (experts && mesh.ep > 1 && group.shape[d] % mesh.ep == 0 &&
          group.rank() > 2) {
        choice.spec[d].push_back({"EXPERT", mesh.ep});
        continue;
      }
      const bool over_tensor =
          every(d, [&](const FactorList& dim, const Factor&) {
            return tensor.contains(dim[0]);
          });
      if (over_tensor && !choice.inner_sharded) {
        choice.spec[d].push_back({"TP", mesh.tp});
        choice.inner_sharded = true;
        continue;
      }
      const bool layers =
          every(d, [&](const FactorList&, const Factor& factor) {
            return factor.role == FactorRole::kLayers;
          });
      if (layers) continue;
      const bool stream =
          every(d, [&](const FactorList&, const Factor& factor) {
            return factor.role == FactorRole::kStream;
          });
      free.insert(stream ? free.begin() : free.end(), static_cast<int>(d));
    }
    const size_t first = free.empty() ? 0 : AsIndex(free[0]);
    std::ranges::stable_sort(free, [&](int a, int b) {
      // The dimension of the stream stays the first one.
      if (AsIndex(a) == first || AsIndex(b) == first)
        return AsIndex(a) == first && a != b;
      return group.shape[AsIndex(a)] > group.shape[AsIndex(b)];
    });
    const bool sharded_matrix = group.rank() > 1 && group.elements >= small;
    if (sharded_matrix) {
      for (const auto& [axis, size] :
           {std::pair("FSDP", mesh.fsdp), std::pair("SP", mesh.sp)}) {
        for (const int d : free) {
          auto& assigned = choice.spec[AsIndex(d)];
          if (group.shape[AsIndex(d)] % (PartsOf(assigned) * size) != 0) {
            continue;
          }
          assigned.push_back({axis, size});
          break;
        }
      }
    }
    if (choice.replicated()) choice.spec.clear();
    out.groups.push_back(std::move(choice));
  }
  SetAxisRules(dims, mesh, out);
  return out;
}

}  // namespace shardc::suggest
