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
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "model/axis_rules.h"
#include "source/size.h"
#include "suggest/suggest.h"

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

// What the parameters of a program show together.
struct ProgramShape {
  // Whether the program has heads: the states of Mamba-1 pass through products
  // of activations as the elements of heads do, but without heads.
  bool heads = false;
  // The inner widths of feed-forward blocks. All matrices of such a width lead
  // to it or from it; those of a mixer have states or a convolution as well.
  std::set<uint32_t> feed_forward;
};

ProgramShape ShapeOf(const Facts& facts) {
  using enum FactorRole;
  ProgramShape out;
  std::set<uint32_t> mixers;
  for (const ParamFacts& param : facts.params) {
    std::set<uint32_t> all;
    for (const FactorList& dim : param.dims) Collect(facts, dim, all);
    bool others = false;
    for (const uint32_t factor : all) {
      const FactorRole role = facts.factors[factor].role;
      out.heads = out.heads || CountsHeads(role);
      others =
          others || CountsHeads(role) || role == kHeadDim || role == kWindow;
    }
    for (const uint32_t factor : all) {
      if (facts.factors[factor].role != kInner) continue;
      (others ? mixers : out.feed_forward).insert(factor);
    }
  }
  for (const uint32_t factor : mixers) out.feed_forward.erase(factor);
  return out;
}

// Returns whether the program shows what each dimension of more than one
// element counts.
bool IsCounted(const Facts& facts, const ParamFacts& param) {
  for (size_t d = 0; d < param.dims.size(); ++d) {
    std::set<uint32_t> all;
    Collect(facts, param.dims[d], all);
    const bool unknown = std::ranges::any_of(all, [&](uint32_t factor) {
      return facts.factors[factor].role == FactorRole::kUnknown &&
             facts.factors[factor].parts.empty();
    });
    if (unknown || (param.shape[d] > 1 && all.empty())) return false;
  }
  return true;
}

// Returns the role that the factors of a parameter show. A role of which a
// sentence would say more than the factors show is kProjection or kOther.
Role RoleOf(const Facts& facts, const ProgramShape& shape,
            const ParamFacts& param) {
  std::set<FactorRole> has;
  bool fused = false;
  bool feed_forward = false;
  size_t fused_parts = 0;
  size_t rank = 0;
  for (const FactorList& dim : param.dims) {
    std::set<uint32_t> all;
    Collect(facts, dim, all);
    bool layers = dim.empty();
    for (const uint32_t factor : all) {
      has.insert(facts.factors[factor].role);
      feed_forward = feed_forward || shape.feed_forward.contains(factor);
      layers = layers || facts.factors[factor].role == FactorRole::kLayers;
    }
    if (!layers) ++rank;
    // The halves that a rotary embedding exchanges are no separate matrices,
    // and neither are the parts of a dimension that the matrix reads.
    const bool reads = std::ranges::any_of(
        param.contracted,
        [&](uint32_t factor) { return all.contains(factor); });
    fused = fused ||
            (!reads && !dim.empty() && !facts.factors[dim[0]].parts.empty() &&
             !std::ranges::all_of(
                 facts.factors[dim[0]].parts, [&](const FactorList& part) {
                   return part.size() == 1 &&
                          facts.factors[part[0]].role == FactorRole::kHeadDim;
                 }));
    if (!reads && !dim.empty()) {
      fused_parts = std::max(fused_parts, facts.factors[dim[0]].parts.size());
    }
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
  if (is(kExperts) && !is(kInner) && rank == 2) return Role::kRouter;
  if (is(kInner)) {
    if (!feed_forward || !is(kStream)) {
      return is(kStream) ? Role::kProjection : Role::kOther;
    }
    constexpr size_t kGateUp = 2;
    return contracted               ? Role::kDown
           : !fused                 ? Role::kUp
           : fused_parts == kGateUp ? Role::kFusedGateUp
                                    : Role::kProjection;
  }
  if (shape.heads &&
      (std::ranges::any_of(has, program::CountsHeads) || is(kHeadDim))) {
    constexpr size_t kQueryKeyValue = 3;
    return contracted                               ? Role::kOutput
           : fused && fused_parts == kQueryKeyValue ? Role::kFusedQkv
                                                    : Role::kQuery;
  }
  if (is(kHeadDim)) return is(kStream) ? Role::kProjection : Role::kOther;
  if (is(kLatent)) return Role::kLatentDown;
  return is(kStream) ? Role::kProjection : Role::kOther;
}

// Returns the number of parts of a dimension if the tensor-parallel axis can
// divide each of them, such as 2 for a gate and an up projection in one matrix.
// The parts must have equal sizes, and `tensor` the leading factor of each
// unless it is null. Returns 1 for other dimensions.
int64_t DividedParts(const Facts& facts, const FactorList& dim,
                     const std::set<uint32_t>* tensor, int64_t axis) {
  if (dim.empty()) return 1;
  const Factor& lead = facts.factors[dim[0]];
  if (lead.role == FactorRole::kParts) {
    const FactorList rest(dim.begin() + 1, dim.end());
    const bool divided = !rest.empty() &&
                         (tensor == nullptr || tensor->contains(rest[0])) &&
                         facts.CanShard(rest, axis);
    return divided ? lead.size : 1;
  }
  if (dim.size() != 1) return 1;
  const auto& parts = lead.parts;
  const bool divided =
      !parts.empty() && std::ranges::all_of(parts, [&](const FactorList& part) {
        return !part.empty() &&
               (tensor == nullptr || tensor->contains(part[0])) &&
               facts.CanShard(part, axis) &&
               facts.SizeOf(part) == facts.SizeOf(parts[0]);
      });
  return divided ? std::ssize(parts) : 1;
}

// Returns the facts of each group.
std::vector<GroupFacts> MembersOf(const Tree& tree, const Facts& facts) {
  std::unordered_map<std::string_view, const ParamFacts*> by_name;
  for (const ParamFacts& param : facts.params) by_name[param.name] = &param;
  std::vector<GroupFacts> out;
  for (const ParameterGroup& group : tree.groups) {
    GroupFacts& members = out.emplace_back();
    for (const uint32_t member : tree.Members(group)) {
      const auto at = by_name.find(tree.NameOf(member));
      if (at != by_name.end() && at->second->shape == group.shape) {
        members.push_back(at->second);
      }
    }
  }
  return out;
}

}  // namespace

void DivideParts(const Tree& tree, const Facts& facts, int64_t tp,
                 Choices& choices) {
  const auto members = MembersOf(tree, facts);
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    Choice& choice = choices.groups[k];
    const bool all = members[k].size() == AsIndex(tree.groups[k].count());
    for (size_t d = 0; all && d < choice.spec.size(); ++d) {
      const auto& axes = choice.spec[d];
      if (axes.size() != 1 || PurposeOf(axes[0].axis) != AxisPurpose::kTensor) {
        continue;
      }
      const auto parts_of = [&](const ParamFacts* member) {
        return DividedParts(facts, member->dims[d], nullptr, tp);
      };
      const int64_t parts = parts_of(members[k][0]);
      if (parts <= 1 ||
          std::ranges::any_of(members[k], [&](const ParamFacts* member) {
            return parts_of(member) != parts;
          })) {
        continue;
      }
      choice.parts.resize(d + 1, 1);
      choice.parts[d] = parts;
    }
  }
}

namespace {

// Adds the numbers that the tensor-parallel axis has to divide so that each
// device has complete heads, and its share of each part. Returns false if they
// are not known.
bool AddUnits(const Facts& facts, const FactorList& dim, bool is_part,
              std::set<int64_t>& out) {
  if (dim.empty()) return false;
  using enum FactorRole;
  const Factor& lead = facts.factors[dim[0]];
  if (!lead.parts.empty()) {
    return dim.size() == 1 &&
           std::ranges::all_of(lead.parts, [&](const FactorList& part) {
             return AddUnits(facts, part, true, out);
           });
  }
  int64_t heads = 1;
  for (const uint32_t index : dim) {
    const Factor& factor = facts.factors[index];
    if (!program::CountsHeads(factor.role) && factor.role != kGroup) {
      break;
    }
    heads *= factor.size;
  }
  const bool counted = program::CountsHeads(lead.role) || lead.role == kGroup ||
                       lead.role == kHeadDim;
  if (counted) {
    out.insert(heads);
  } else if (is_part || dim.size() > 1) {
    out.insert(lead.size);
  }
  return true;
}

}  // namespace

void UseDescribedHeads(const Tree& tree, ModelDims& dims) {
  if (tree.manifest->described == nullptr) return;
  const Facts& facts = *tree.manifest->described;
  const auto members = MembersOf(tree, facts);
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    InferredDims& inferred = dims.groups[k];
    if (inferred.inner < 0 ||
        members[k].size() != AsIndex(tree.groups[k].count())) {
      continue;
    }
    std::set<int64_t> units;
    const bool known =
        std::ranges::all_of(members[k], [&](const ParamFacts* member) {
          return AddUnits(facts, member->dims[AsIndex(inferred.inner)], false,
                          units);
        });
    if (!known || units.empty()) continue;
    inferred.units.assign(units.rbegin(), units.rend());
    inferred.heads_unknown = false;
    inferred.described =
        inferred.described || inferred.role == Role::kProjection;
  }
}

ByProgram::ByProgram(const Tree& tree, const Facts& facts, const MeshAxes& mesh)
    : tree_(tree),
      facts_(facts),
      mesh_(mesh),
      members_(MembersOf(tree, facts)),
      together_(facts.factors.size()) {
  for (const FactorList& list : facts.together) {
    for (const uint32_t factor : list) {
      together_[factor].insert(list.begin(), list.end());
    }
  }
  std::vector<double> elements(facts.factors.size());
  double all_flops = 1;
  double all_elements = 1;
  for (const Factor& factor : facts.factors) {
    all_flops = std::max(all_flops, factor.flops);
  }
  for (const ParamFacts& param : facts.params) {
    double size = 1;
    std::set<uint32_t> all;
    for (size_t d = 0; d < param.dims.size(); ++d) {
      size *= static_cast<double>(param.shape[d]);
      Collect(facts, param.dims[d], all);
    }
    for (const uint32_t factor : all) elements[factor] += size;
    all_elements += size;
  }
  std::vector<double> ratios(facts.factors.size());
  for (uint32_t i = 0; i < ratios.size() && mesh.tp > 1; ++i) {
    if (!MayShard(i)) continue;
    const Factor& factor = facts.factors[i];
    const double cover =
        std::max(factor.flops / all_flops, elements[i] / all_elements);
    ratios[i] = cover / std::max(1.0, factor.communicated);
    candidates_.push_back(i);
  }
  std::ranges::stable_sort(candidates_, std::greater(),
                           [&](uint32_t i) { return ratios[i]; });
}

bool ByProgram::MayShard(uint32_t index) const {
  const Factor& factor = facts_.factors[index];
  using enum FactorRole;
  constexpr FactorRole kNever[] = {kBatch,  kSequence, kLayers,  kWindow,
                                   kLatent, kParts,    kPosition};
  if (!factor.parts.empty() || factor.size % mesh_.tp != 0 ||
      factor.needs_replication || (mesh_.ep > 1 && factor.role == kExperts) ||
      std::ranges::find(kNever, factor.role) != std::end(kNever)) {
    return false;
  }
  return std::ranges::any_of(
      factor.occurrences, [&](const program::Occurrence& one) {
        const FactorList& dim = facts_.params[one.param].dims[one.dim];
        return !dim.empty() && dim[0] == index;
      });
}

bool ByProgram::MayShardHeads() const {
  return std::ranges::any_of(candidates_, [&](uint32_t candidate) {
    return program::CountsHeads(facts_.factors[candidate].role);
  });
}

bool ByProgram::IsFree(const std::set<uint32_t>& factors,
                       uint32_t other) const {
  return std::ranges::none_of(
      factors, [&](uint32_t one) { return together_[other].contains(one); });
}

bool ByProgram::HaveSameLines(uint32_t a, uint32_t b) const {
  const Factor& one = facts_.factors[a];
  const Factor& other = facts_.factors[b];
  return one.size == other.size && one.role == other.role &&
         one.evidence == other.evidence;
}

void ByProgram::Fill(std::set<uint32_t>& factors) const {
  for (const uint32_t one : candidates_) {
    if (IsFree(factors, one)) factors.insert(one);
  }
}

std::set<uint32_t> ByProgram::With(std::set<uint32_t> factors,
                                   uint32_t other) const {
  for (const uint32_t added : candidates_) {
    if (!HaveSameLines(added, other)) continue;
    std::erase_if(factors,
                  [&](uint32_t one) { return together_[added].contains(one); });
    factors.insert(added);
  }
  return factors;
}

std::set<uint32_t> ByProgram::Without(std::set<uint32_t> factors,
                                      uint32_t other) const {
  std::erase_if(factors,
                [&](uint32_t one) { return HaveSameLines(one, other); });
  return factors;
}

uint32_t ByProgram::FirstLike(uint32_t candidate) const {
  return *std::ranges::find_if(
      candidates_, [&](uint32_t one) { return HaveSameLines(one, candidate); });
}

std::set<uint32_t> ByProgram::BestByRatio() const {
  std::set<uint32_t> out;
  Fill(out);
  return out;
}

bool ByProgram::IsStream(const FactorList& dim) const {
  if (dim.size() != 1) return false;
  const Factor& factor = facts_.factors[dim[0]];
  return factor.role == FactorRole::kStream ||
         (!factor.parts.empty() &&
          std::ranges::all_of(factor.parts, [&](const FactorList& part) {
            return IsStream(part);
          }));
}

ModelDims ByProgram::Dims() const {
  ModelDims out;
  out.facts.by_program = true;
  out.stacks.dims.resize(tree_.groups.size());
  std::set<int64_t> widths, vocabularies;
  const ProgramShape shape = ShapeOf(facts_);
  // The parts of a stream that is several embeddings, one after the other, are
  // no widths of their own.
  std::set<uint32_t> stream_parts;
  for (uint32_t one = 0; one < facts_.factors.size(); ++one) {
    if (!IsStream({one})) continue;
    for (const FactorList& part : facts_.factors[one].parts) {
      stream_parts.insert(part.begin(), part.end());
    }
  }
  for (size_t k = 0; k < tree_.groups.size(); ++k) {
    const ParameterGroup& group = tree_.groups[k];
    InferredDims inferred;
    inferred.by_program = true;
    for (const int64_t size : group.shape) {
      inferred.dims.push_back({.size = size});
    }
    const GroupFacts& members = members_[k];
    if (!members.empty()) {
      inferred.role = RoleOf(facts_, shape, *members[0]);
      inferred.counted = IsCounted(facts_, *members[0]);
      for (size_t d = 0; d < group.shape.size(); ++d) {
        const FactorList& dim = members[0]->dims[d];
        if (dim.size() != 1) continue;
        const Factor& factor = facts_.factors[dim[0]];
        if (IsStream(dim) && !stream_parts.contains(dim[0])) {
          widths.insert(factor.size);
        }
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

Choices ByProgram::Choose(const std::set<uint32_t>& tensor,
                          bool divides_parts) const {
  int64_t elements = 0;
  for (const ParameterGroup& group : tree_.groups) {
    elements += std::min(group.elements, kSmallMatrix) * group.count();
  }
  const int64_t small = std::min(kSmallMatrix, elements / kSmallMatrixFraction);
  Choices out;
  for (size_t k = 0; k < tree_.groups.size(); ++k) {
    out.groups.push_back(ChooseFor(k, tensor, divides_parts, small));
  }
  return out;
}

Choice ByProgram::ChooseFor(size_t k, const std::set<uint32_t>& tensor,
                            bool divides_parts, int64_t small) const {
  const ParameterGroup& group = tree_.groups[k];
  const GroupFacts& members = members_[k];
  Choice choice;
  choice.spec.resize(group.shape.size());
  // Whether a test holds for a dimension of all tensors of the group.
  const auto every = [&](size_t d, const auto& test) {
    return !members.empty() &&
           std::ranges::all_of(members, [&](const ParamFacts* member) {
             const FactorList& dim = member->dims[d];
             return !dim.empty() && test(dim, facts_.factors[dim[0]]);
           });
  };
  std::vector<int> free;  // dimensions for data axes, the preferred one first
  bool tensor_used = false;
  for (size_t d = 0; d < group.shape.size(); ++d) {
    const bool experts =
        every(d, [&](const FactorList& dim, const Factor& factor) {
          return dim.size() == 1 && factor.role == FactorRole::kExperts;
        });
    if (experts && mesh_.ep > 1 && group.shape[d] % mesh_.ep == 0 &&
        group.rank() > 2) {
      choice.spec[d].push_back({"EXPERT", mesh_.ep});
      continue;
    }
    const bool over_tensor =
        every(d, [&](const FactorList& dim, const Factor&) {
          return tensor.contains(dim[0]);
        });
    int64_t parts = 1;
    if (divides_parts && !members.empty()) {
      parts = DividedParts(facts_, members[0]->dims[d], &tensor, mesh_.tp);
    }
    const bool in_parts =
        parts > 1 && every(d, [&](const FactorList& dim, const Factor&) {
          return DividedParts(facts_, dim, &tensor, mesh_.tp) == parts;
        });
    if (in_parts && !tensor_used) {
      choice.parts.resize(d + 1, 1);
      choice.parts[d] = parts;
    }
    if ((over_tensor || in_parts) && !tensor_used) {
      choice.spec[d].push_back({"TP", mesh_.tp});
      tensor_used = true;
      // The stream and the experts are no inner dimension, of which a sentence
      // could speak.
      const bool of_experts =
          every(d, [&](const FactorList&, const Factor& outer) {
            return outer.role == FactorRole::kExperts;
          });
      if (of_experts) choice.reason = Reason::kWholeExperts;
      choice.inner_sharded =
          !of_experts && !every(d, [&](const FactorList& dim, const Factor&) {
            return IsStream(dim);
          });
      continue;
    }
    const bool layers = every(d, [&](const FactorList&, const Factor& factor) {
      return factor.role == FactorRole::kLayers;
    });
    if (layers) continue;
    const bool stream = every(d, [&](const FactorList&, const Factor& factor) {
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
         {std::pair("FSDP", mesh_.fsdp), std::pair("SP", mesh_.sp)}) {
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
  return choice;
}

bool ByProgram::Suits(const Choices& choices) const {
  return MisfitOf(tree_, mesh_, choices).empty();
}

bool ByProgram::MayDivideParts() const {
  const std::set<uint32_t> all(candidates_.begin(), candidates_.end());
  return std::ranges::any_of(facts_.params, [&](const ParamFacts& param) {
    return std::ranges::any_of(param.dims, [&](const FactorList& dim) {
      return DividedParts(facts_, dim, &all, mesh_.tp) > 1;
    });
  });
}

std::vector<EqualParts> ByProgram::DividedBy(const Choices& choices) const {
  std::unordered_map<const ParamFacts*, EqualParts> by_param;
  for (size_t k = 0; k < choices.groups.size(); ++k) {
    for (const ParamFacts* const param : members_[k]) {
      by_param[param] = choices.groups[k].parts;
    }
  }
  std::vector<EqualParts> out;
  for (const ParamFacts& param : facts_.params) {
    out.push_back(by_param[&param]);
  }
  return out;
}

std::vector<Spec> ByProgram::SpecsOf(const Choices& choices) const {
  std::unordered_map<const ParamFacts*, Spec> by_param;
  for (size_t k = 0; k < choices.groups.size(); ++k) {
    Spec spec;
    for (const auto& dim : choices.groups[k].spec) {
      AxisGroup& axes = spec.emplace_back();
      for (const AxisAssignment& one : dim) {
        const Token* const token = FindToken(one.axis);
        if (token == nullptr || !token->rule || one.size < 2) continue;
        const AxisGroup own = mesh_.renamed.Value(*token->rule).axes;
        axes.insert(axes.end(), own.begin(), own.end());
      }
    }
    for (const ParamFacts* const param : members_[k]) by_param[param] = spec;
  }
  std::vector<Spec> out;
  for (const ParamFacts& param : facts_.params) {
    out.push_back(by_param[&param]);
  }
  return out;
}

}  // namespace shardc::suggest
