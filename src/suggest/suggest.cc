// Suggests a rules file for a model without rules. The stages run in this
// order:
//
//   names -> parameter groups -> inferred dimensions -> specs -> rule groups
//         -> patterns -> a rules file, and the matching rule of each tensor
//
// If the user's program is given, its facts replace the second and third arrow.
//
// Finally, MisfitOf() checks whether the mesh suits the model. It does not if
// the parallelism of an axis is unknown, if fsdp, ep or tp shards no parameter,
// or if a device holds far more than its fully sharded bytes.
#include "suggest/suggest.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "program/facts.h"
#include "roles/classify.h"
#include "source/join.h"
#include "source/size.h"
#include "source/wording.h"
#include "suggest/choice.h"
#include "suggest/choose.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"
#include "suggest/write.h"

namespace shardc::suggest {
namespace {

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

// Returns the role of each group, as the program shows it. Roles serve titles
// only: the specs follow from factors.
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

// Returns the number of parts of a dimension if the tensor-parallel axis can
// divide each of them, such as 2 for a gate and an up projection in one matrix.
// The parts must have equal sizes, and `tensor` the leading factor of each.
// Returns 1 for other dimensions.
int64_t DividedParts(const Facts& facts, const FactorList& dim,
                     const std::set<uint32_t>& tensor, int64_t axis) {
  if (dim.size() != 1) return 1;
  const auto& parts = facts.factors[dim[0]].parts;
  const bool divided =
      !parts.empty() && std::ranges::all_of(parts, [&](const FactorList& part) {
        return !part.empty() && tensor.contains(part[0]) &&
               facts.CanShard(part, axis) &&
               facts.SizeOf(part) == facts.SizeOf(parts[0]);
      });
  return divided ? std::ssize(parts) : 1;
}

// Chooses the factors that the tensor-parallel axis shards, and a spec for each
// group. A dimension that holds several parts is not sharded over that axis,
// unless the preferences allow to divide each part.
Choices ChooseByProgram(const Tree& tree, const Facts& facts,
                        const ModelDims& dims, const MeshAxes& mesh,
                        const Preferences& preferences) {
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
      int64_t parts = 1;
      if (preferences.divides_parts && !members.empty()) {
        parts = DividedParts(facts, members[0]->dims[d], tensor, mesh.tp);
      }
      const bool in_parts =
          parts > 1 && every(d, [&](const FactorList& dim, const Factor&) {
            return DividedParts(facts, dim, tensor, mesh.tp) == parts;
          });
      if (in_parts && !choice.inner_sharded) {
        choice.parts.resize(d + 1, 1);
        choice.parts[d] = parts;
      }
      if ((over_tensor || in_parts) && !choice.inner_sharded) {
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

// A mesh does not suit a model if a device holds more than this multiple of its
// fully sharded bytes.
constexpr double kPoorRatio = 1.5;

// If a device holds at most this many bytes, kPoorRatio is not checked.
constexpr int64_t kLittle = int64_t{16} << 20;

// A model with more parameter groups gets no patterns. It has so many groups if
// its names have no layer numbers by which tensors can be grouped.
constexpr size_t kMostGroups = 4096;

int64_t BytesPerDevice(const Tree& tree, const Choices& choices) {
  int64_t out = 0;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const ParameterGroup& group = tree.groups[k];
    const int64_t parts = choices.groups[k].Parts();
    out = CheckedAdd(out, group.total_bytes() / parts).value_or(INT64_MAX);
  }
  return out;
}

// Returns `bytes`, which a device holds, divided by the bytes that it would
// hold if all axes but dp sharded every parameter.
double RatioOf(const Tree& tree, const MeshAxes& mesh, int64_t bytes) {
  if (tree.bytes <= 0) return 1;
  return static_cast<double>(bytes) * static_cast<double>(mesh.devices()) /
         static_cast<double>(mesh.dp) / static_cast<double>(tree.bytes);
}

// Returns the names and sizes of the axes that shard no parameter. Only fsdp,
// tp and ep are checked, because dp makes replicas and sp shards tokens.
std::vector<std::pair<std::string, int64_t>> UnusedAxes(
    const MeshAxes& mesh, const Choices& choices) {
  std::set<std::string> used;
  for (const Choice& choice : choices.groups) {
    for (const auto& dim : choice.spec) {
      for (const AxisAssignment& one : dim) {
        const AxisPurpose purpose = PurposeOf(one.axis);
        used.insert(purpose == AxisPurpose::kData     ? one.axis
                    : purpose == AxisPurpose::kExpert ? "EP"
                                                      : "TP");
      }
    }
    if (!choice.place_axis.empty()) used.insert(choice.place_axis);
  }
  std::vector<std::pair<std::string, int64_t>> out;
  for (const auto& [axis, name, size] :
       {std::tuple("FSDP", "fsdp", mesh.fsdp), std::tuple("TP", "tp", mesh.tp),
        std::tuple("EP", "ep", mesh.ep)}) {
    if (size > 1 && !used.contains(axis)) out.emplace_back(name, size);
  }
  return out;
}

// Returns the facts that the rules lack: the roles of parameters, and the
// number of heads of projections that are known to be those of attention.
std::vector<NotKnown> NotKnownOf(const Tree& tree, const ModelDims& dims) {
  std::vector<NotKnown> out;
  const bool has_config = dims.facts.has_config;
  const UnknownRoles roles = UnknownRolesOf(tree, dims);
  if (roles.any()) out.push_back(NotKnownRoles(roles, has_config));
  NotKnown heads{.what = "the number of heads",
                 .params = {},
                 .bytes = 0,
                 .settled_by = has_config ? "" : "--model CONFIG.json"};
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    if (!dims.groups[k].heads_unknown) continue;
    heads.params.push_back(tree.groups[k].name);
    *heads.bytes += tree.groups[k].total_bytes();
  }
  if (!heads.params.empty()) out.push_back(std::move(heads));
  return out;
}

// Returns which parameters are the reason why a device holds far more than its
// fully sharded bytes: those that add most of the excess.
std::string ExcessText(const Tree& tree, const MeshAxes& mesh,
                       const Choices& choices, int64_t bytes) {
  constexpr size_t kNamed = 2;
  std::vector<std::pair<int64_t, size_t>> excess;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const int64_t parts = choices.groups[k].Parts();
    const int64_t all = mesh.DevicesOfReplica();
    const int64_t total = tree.groups[k].total_bytes();
    if (parts < all) excess.emplace_back(total / all - total / parts, k);
  }
  std::sort(excess.begin(), excess.end());
  std::string out = "a device would hold " + BytesText(bytes) + ", and " +
                    BytesText(tree.bytes / mesh.DevicesOfReplica()) +
                    " if all were fully sharded: ";
  for (size_t i = 0; i < std::min(kNamed, excess.size()); ++i) {
    const ParameterGroup& group = tree.groups[excess[i].second];
    out += (i == 0 ? "" : ", ") + ShortQuote(group.name) + " " +
           ShapeText(group.shape);
  }
  const auto more = static_cast<int64_t>(excess.size()) -
                    static_cast<int64_t>(std::min(kNamed, excess.size()));
  if (more > 0) {
    out += " and " + Counted(more, "smaller group", "smaller groups");
  }
  return out + (excess.size() > 1 ? " are" : " is") +
         " not sharded over every axis";
}

}  // namespace

std::string UnknownRoles::Text() const {
  std::array<char, 32> percent{};
  std::snprintf(percent.data(), percent.size(), "%.1f", 100 * share);
  return Counted(params, "parameter") + " (" + percent.data() +
         " %) of unknown role";
}

bool UnknownRoles::AreMany() const { return share > kMostUnknownRoles; }

UnknownRoles UnknownRolesOf(const Tree& tree, const ModelDims& dims,
                            bool by_name) {
  UnknownRoles out;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const InferredDims& inferred = dims.groups[k];
    const ParameterGroup& group = tree.groups[k];
    const bool unknown =
        inferred.IsOfUnknownRole() && !IsOutOfMixer(group.name, tree.separator);
    if (!unknown && !(by_name && inferred.siblings != Siblings::kNone)) {
      continue;
    }
    out.params += group.count();
    out.bytes = CheckedAdd(out.bytes, group.total_bytes()).value_or(INT64_MAX);
    out.names.push_back(group.name);
  }
  if (tree.bytes > 0) {
    out.share =
        static_cast<double>(out.bytes) / static_cast<double>(tree.bytes);
  }
  return out;
}

NotKnown NotKnownRoles(const UnknownRoles& roles, bool has_config) {
  return {.what = "the roles of " + Counted(roles.params, "parameter"),
          .params = roles.names,
          .bytes = roles.bytes,
          .settled_by = has_config
                            ? "a `model:` section"
                            : "a `model:` section, or --model CONFIG.json "
                              "where its sizes show them"};
}

bool HasTooManyGroups(const Tree& tree) {
  return tree.groups.size() > kMostGroups;
}

double Suggestion::Ratio() const {
  return RatioOf(tree, mesh, bytes_per_device);
}

Suggestion Suggest(const Request& request) {
  Suggestion out;
  out.mesh = AxesOf(*request.mesh);
  out.tree = ParameterGroupsOf(*request.manifest);
  if (const program::Facts* const facts = request.preferences.facts) {
    out.dims = ProgramDims(out.tree, *facts);
    out.choices = ChooseByProgram(out.tree, *facts, out.dims, out.mesh,
                                  request.preferences);
  } else {
    out.dims = InferDims(out.tree, request.model, out.mesh.tp,
                         request.preferences.scan_axis);
    out.choices = Choose(out.tree, out.dims, out.mesh, request.preferences);
  }
  out.rule_groups = RuleGroupsOf(out.tree, out.dims, out.choices);
  std::vector<std::vector<uint32_t>> groups;
  for (const RuleGroup& rule_group : out.rule_groups)
    groups.push_back(rule_group.groups);
  if (HasTooManyGroups(out.tree)) {
    out.patterns.rule_groups.resize(out.rule_groups.size());
  } else {
    out.patterns = PatternsOf(out.tree, groups);
  }
  out.bytes_per_device = BytesPerDevice(out.tree, out.choices);
  out.not_known = NotKnownOf(out.tree, out.dims);
  out.misfit =
      HasTooManyGroups(out.tree)
          ? "the names have no layer numbers: " +
                CountText(static_cast<int64_t>(out.tree.groups.size())) +
                " parameters would need one pattern each"
          : MisfitOf(out.tree, out.mesh, out.choices);
  out.file = WriteFile(out, *request.mesh);
  out.rule_of.assign(request.manifest->tensors.size(), -1);
  int32_t rule = 0;
  for (const auto& rule_group : out.patterns.rule_groups) {
    for (const PatternOf& pattern : rule_group) {
      for (const uint32_t k : pattern.groups) {
        for (const uint32_t member : out.tree.Members(out.tree.groups[k])) {
          out.rule_of[member] = rule;
        }
      }
      ++rule;
    }
  }
  return out;
}

std::string MisfitOf(const Tree& tree, const MeshAxes& mesh,
                     const Choices& choices) {
  std::string out;
  const auto add = [&](const std::string& reason,
                       const std::vector<std::string>& axes) {
    std::string list;
    for (const std::string& axis : axes) {
      list += (list.empty() ? "`" : ", `") + axis + "`";
    }
    if (!axes.empty()) AppendItem(out, "; ", reason + ": " + list);
  };
  add("no rules are suggested for these axes of pipeline stages", mesh.stages);
  add("the purpose of these axes is unknown", mesh.unused);
  if (!out.empty()) return out;
  for (const auto& [name, size] : UnusedAxes(mesh, choices)) {
    AppendItem(
        out, "; ",
        name + " of size " + std::to_string(size) + " shards no parameter");
  }
  if (!out.empty()) return out;
  const int64_t bytes = BytesPerDevice(tree, choices);
  if (bytes <= kLittle || RatioOf(tree, mesh, bytes) <= kPoorRatio) return out;
  return ExcessText(tree, mesh, choices, bytes);
}

}  // namespace shardc::suggest
