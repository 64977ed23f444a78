// Finds what the axes of a mesh are for. The statements of the rules come
// first. Next are the specs of the pairs of projections: into a block from the
// residual stream (q, k, v; gate, up), and out of it (o; down). A pair that an
// axis shards on the inner dimension on both sides multiplies shards with
// shards, and a pair that it shards on the stream on both sides is gathered
// first. The published name of the axis is last:
//
//   rules  q [null, x], o [x, null], up [null, x], down [x, null]
//     ->   two pairs on the inner dimension: `x` is kept
//   rules  q [x, null], o [null, x], up [x, null], down [null, x]
//     ->   two pairs on the stream: `x` is gathered
//   rules  q [null, model], o [null, model]
//     ->   the pair is contradictory: the name decides, `model` is kept
//
// Specs that show the opposite of the name decide nothing: both are reported.
// Published rules shard the inner dimension for tensor parallelism and the
// stream for FSDP, which is a convention: weights that are sharded in both
// dimensions for FSDP look like tensor parallelism. So no figure rests on it.
#include "facts/axes.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <list>
#include <map>
#include <utility>

#include "model/mesh_layout.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

using R = AxisRule;

constexpr AxisName kNames[] = {
    {"dp", R::kDataParallel},
    {"data", R::kDataParallel},
    {"batch", R::kDataParallel},
    {"ddp", R::kDataParallel},
    {"replica", R::kDataParallel},
    {"replicas", R::kDataParallel},
    {"replicate", R::kDataParallel},
    {"replica_dcn", R::kDataParallel},
    {"diloco", R::kDataParallel},
    {"dp_replicate", R::kDataParallel},
    {"data_parallel", R::kDataParallel},
    {"fsdp", R::kFullyShardedDataParallel},
    {"fsdp_transpose", R::kFullyShardedDataParallel},
    {"fsdp_moe", R::kFullyShardedDataParallel},
    {"efsdp", R::kFullyShardedDataParallel},
    {"ep_shard", R::kFullyShardedDataParallel},
    {"fully_sharded_data_parallel", R::kFullyShardedDataParallel},
    {"shard", R::kFullyShardedDataParallel},
    {"dp_shard", R::kFullyShardedDataParallel},
    {"dp_shard_cp", R::kFullyShardedDataParallel},
    {"dp_shard_mod_ep", R::kFullyShardedDataParallel},
    {"dp_shard_in_ep", R::kFullyShardedDataParallel},
    {"zero", R::kFullyShardedDataParallel},
    {"tp", R::kTensorParallel},
    {"model", R::kTensorParallel},
    {"mp", R::kTensorParallel},
    {"mdl", R::kTensorParallel},
    {"model_parallel", R::kTensorParallel},
    {"tensor", R::kTensorParallel},
    {"tensor_parallel", R::kTensorParallel},
    {"tensor_sequence", R::kTensorParallel},
    {"tensor_transpose", R::kTensorParallel},
    {"autoregressive", R::kTensorParallel},
    {"ep", R::kExpertParallel},
    {"exp", R::kExpertParallel},
    {"expert", R::kExpertParallel},
    {"experts", R::kExpertParallel},
    {"expert_parallel", R::kExpertParallel},
    {"attn_dp_expert", R::kExpertParallel},
    {"sp", R::kSequenceParallel},
    {"seq", R::kSequenceParallel},
    {"sequence", R::kSequenceParallel},
    {"sequence_parallel", R::kSequenceParallel},
    {"context", R::kSequenceParallel},
    {"context_parallel", R::kSequenceParallel},
    {"context_usp_ulysses", R::kSequenceParallel},
    {"cp", R::kSequenceParallel},
    {"pp", std::nullopt},
    {"pipe", std::nullopt},
    {"pipeline", std::nullopt},
    {"pipeline_parallel", std::nullopt},
    {"stage", std::nullopt},
    {"stages", std::nullopt},
};

// The axis rules whose axes shard what each device computes with.
constexpr R kTensorRules[] = {R::kTensorParallel, R::kHead, R::kKvHead,
                              R::kMlpIntermediate, R::kVocab};
constexpr R kBatchRules[] = {R::kDataParallel, R::kFullyShardedDataParallel,
                             R::kBatch};
constexpr R kSequenceRules[] = {R::kSequenceParallel, R::kSequence,
                                R::kQuerySequence, R::kKeySequence};
constexpr R kExpertRules[] = {R::kExpertParallel, R::kExpert};

bool HasAxis(const AxisGroup& group, std::string_view axis) {
  return std::ranges::any_of(
      group, [&](const std::string& one) { return WholeAxis(one) == axis; });
}

bool HasAxis(const Spec& spec, std::string_view axis) {
  return std::ranges::any_of(
      spec, [&](const AxisGroup& group) { return HasAxis(group, axis); });
}

bool HasAxisAt(const Spec& spec, int dim, std::string_view axis) {
  return dim >= 0 && dim < std::ssize(spec) &&
         HasAxis(spec[AsIndex(dim)], axis);
}

// Returns whether the rules give one of these axis rules the axis.
bool States(const AxisRules& rules, std::span<const R> of,
            std::string_view axis) {
  return std::ranges::any_of(of, [&](R rule) {
    const auto& value = rules.Given(rule);
    return value && HasAxis(value->axes, axis);
  });
}

// Where an axis shards the projections on one side of a block.
struct Side {
  bool present = false;  // whether the block has such a projection
  bool inner = false;
  bool stream = false;
  int32_t rule = -1;
};

// The projections into a block from the residual stream, and those out of it.
// Keys and values are apart: fewer heads may leave them replicated.
struct Pair {
  Side into, kv, out_of;

  bool Exists() const { return into.present && out_of.present; }
  bool IsInner() const {
    return into.inner && out_of.inner && !into.stream && !out_of.stream &&
           !kv.stream;
  }
  bool IsStream() const {
    return into.stream && out_of.stream && !into.inner && !out_of.inner &&
           !kv.inner;
  }
  bool IsReplicated() const {
    return !into.inner && !into.stream && !out_of.inner && !out_of.stream &&
           !kv.inner && !kv.stream;
  }
  // Return whether the function above holds for all but one of the sides.
  bool IsInnerButOne() const {
    const int wrong = (into.inner && !into.stream ? 0 : 1) +
                      (out_of.inner && !out_of.stream ? 0 : 1) +
                      (kv.stream ? 1 : 0);
    return wrong == 1;
  }
  bool IsStreamButOne() const {
    const int wrong = (into.stream && !into.inner ? 0 : 1) +
                      (out_of.stream && !out_of.inner ? 0 : 1) +
                      (kv.inner ? 1 : 0);
    return wrong == 1;
  }
};

// What a projection does to the residual stream.
enum class Way : uint8_t { kNone, kInto, kKeyValue, kOutOf };

Way WayOf(Role role) {
  switch (role) {
    case Role::kQuery:
    case Role::kFusedQkv:
    case Role::kLatentUp:
    case Role::kGate:
    case Role::kUp:
    case Role::kFusedGateUp:
      return Way::kInto;
    case Role::kKey:
    case Role::kValue:
    case Role::kFusedKeyValue:
      return Way::kKeyValue;
    case Role::kOutput:
    case Role::kDown:
      return Way::kOutOf;
    default:
      return Way::kNone;
  }
}

// What the specs of all groups show about one axis.
struct Shown {
  int inner = 0, stream = 0;  // number of pairs
  std::vector<const Pair*> contradictory;
  bool norm = false;         // shards a norm of the stream
  bool output_bias = false;  // shards a bias of a projection to the stream
  bool column_bias = false;
  bool head_stream = false, head_vocabulary = false;
  bool carried = false;  // whether a spec or a placement has it
  bool experts = false;
  bool layers_only = false;
  // Whether the axis shards one stored dimension of all large matrices, as
  // FSDP2 and ZeRO do, whatever the matrices do, and of the norms as well.
  bool stored_dimension = false, stored_norms = false;
  // Whether that dimension is the first or the last one, and not the largest.
  bool stored_first_or_last = false;
  AxisUse use = AxisUse::kNotKnown;
  const Pair* example = nullptr;
};

class AxisFinder {
 public:
  explicit AxisFinder(const AxisInputs& inputs) : in_(inputs) {
    for (const ShardedGroup& group : in_.groups) {
      if (group.shape == nullptr) continue;
      largest_ = std::max(largest_, Elements(group));
    }
  }

  std::vector<AxisFacts> Find() {
    std::vector<Shown> shown;
    for (const MeshAxis& axis : in_.mesh->axes) {
      pairs_.emplace_back();
      shown.push_back(axis.size > 1 ? ShownOf(axis.name, pairs_.back())
                                    : Shown());
    }
    for (Shown& one : shown) DecideByPairs(one);
    for (size_t i = 0; i < shown.size(); ++i) DecideByOther(i, shown);
    std::vector<AxisFacts> out;
    for (size_t i = 0; i < shown.size(); ++i) {
      out.push_back(FactsOf(in_.mesh->axes[i], shown[i]));
    }
    return out;
  }

 private:
  using Pairs = std::map<std::string_view, Pair>;

  static int64_t Elements(const ShardedGroup& group) {
    int64_t out = 1;
    for (const int64_t size : *group.shape) {
      out = CheckedMul(out, size).value_or(INT64_MAX);
    }
    return out;
  }

  Shown ShownOf(const std::string& axis, Pairs& pairs) const {
    Shown out;
    bool elsewhere = false;
    for (const ShardedGroup& group : in_.groups) {
      if (group.placed_along == axis) {
        out.carried = out.experts = elsewhere = true;
      }
      const bool has = HasAxis(*group.spec, axis);
      out.carried |= has;
      for (int dim = 0; has && dim < std::ssize(*group.spec); ++dim) {
        if (!HasAxisAt(*group.spec, dim, axis)) continue;
        out.experts |= IsAmong(dim, group.experts);
        elsewhere |= !IsAmong(dim, group.layers);
      }
      const bool into = HasAxisAt(*group.spec, group.in, axis);
      const bool out_of = HasAxisAt(*group.spec, group.out, axis);
      if (group.norm) out.norm |= has;
      if (group.output_bias) out.output_bias |= has;
      if (group.column_bias) out.column_bias |= has;
      if (group.role == Role::kHead) {
        out.head_stream |= into;
        out.head_vocabulary |= out_of;
      }
      const Way way = group.projects ? WayOf(group.role) : Way::kNone;
      if (way == Way::kNone || group.in < 0 || group.out < 0) continue;
      Pair& pair = pairs[group.block];
      Side& side = way == Way::kInto       ? pair.into
                   : way == Way::kKeyValue ? pair.kv
                                           : pair.out_of;
      side.present = true;
      // A latent is no residual stream.
      const bool latent = group.role == Role::kLatentUp;
      side.inner |= way == Way::kOutOf ? into : out_of;
      side.stream |= (way == Way::kOutOf ? out_of : into) && !latent;
      if (has || side.rule < 0) side.rule = group.rule;
    }
    out.layers_only = out.carried && !elsewhere;
    for (auto& [block, pair] : pairs) {
      if (!pair.Exists() || pair.IsReplicated()) continue;
      if (pair.IsInner()) {
        ++out.inner;
      } else if (pair.IsStream()) {
        ++out.stream;
      } else {
        out.contradictory.push_back(&pair);
      }
      if (out.example == nullptr) out.example = &pair;
    }
    FindStoredDimension(axis, out);
    return out;
  }

  // Returns whether a group is a matrix large enough that rules which shard by
  // stored dimensions would not leave it out.
  bool IsLarge(const ShardedGroup& group) const {
    return group.shape != nullptr && group.shape->size() >= 2 &&
           (group.projects || group.role == Role::kEmbedding ||
            group.role == Role::kHead) &&
           Elements(group) >= largest_ / 64;
  }

  void FindStoredDimension(std::string_view axis, Shown& out) const {
    enum Kind { kFirst, kLast, kLargestOrFirst, kLargestOrLast, kKinds };
    std::array<bool, kKinds> fits;
    fits.fill(true);
    bool any = false, norms = false, all_norms = true;
    for (const ShardedGroup& group : in_.groups) {
      if (group.norm && group.spec != nullptr) {
        norms = true;
        all_norms = all_norms && HasAxis(*group.spec, axis);
      }
      if (!IsLarge(group)) continue;
      any = true;
      std::vector<int> dims;
      for (int dim = 0; dim < std::ssize(*group.shape); ++dim) {
        if (!IsAmong(dim, group.layers)) dims.push_back(dim);
      }
      const auto size = [&](int dim) { return (*group.shape)[AsIndex(dim)]; };
      std::array<int, kKinds> wanted;
      wanted.fill(dims.empty() ? -1 : dims.front());
      for (const int dim : dims) {
        wanted[kLast] = dim;
        if (size(dim) > size(wanted[kLargestOrFirst])) {
          wanted[kLargestOrFirst] = dim;
        }
        if (size(dim) >= size(wanted[kLargestOrLast])) {
          wanted[kLargestOrLast] = dim;
        }
      }
      for (int kind = 0; kind < kKinds; ++kind) {
        const auto at = static_cast<size_t>(kind);
        fits[at] = fits[at] && HasAxisAt(*group.spec, wanted[at], axis);
      }
    }
    out.stored_dimension = any && std::ranges::find(fits, true) != fits.end() &&
                           (!out.column_bias || (norms && all_norms));
    out.stored_first_or_last =
        out.stored_dimension && (fits[kFirst] || fits[kLast]);
    out.stored_norms = out.stored_dimension && norms && all_norms;
  }

  void DecideByPairs(Shown& one) const {
    const auto faults = std::ssize(one.contradictory);
    if (one.layers_only) {
      one.use = AxisUse::kLayers;
    } else if (one.stored_norms) {
      one.use = AxisUse::kGathered;
    } else if (one.inner > 0 && one.stream == 0 && !one.norm &&
               !one.output_bias && !one.head_stream &&
               (faults == 0 || (faults == 1 && one.inner > 1 &&
                                one.contradictory[0]->IsInnerButOne()))) {
      one.use = AxisUse::kKept;
    } else if (one.stream > 0 && one.inner == 0 && !one.head_vocabulary &&
               !in_.generates_only &&
               (faults == 0 ||
                (faults == 1 && one.contradictory[0]->IsStreamButOne()))) {
      one.use = AxisUse::kGathered;
    }
    if (faults > 0) one.example = one.contradictory[0];
  }

  // Decides by a second axis that is gathered. Where it shards the other side
  // of all matrices, an axis is kept although one of its pairs disagrees, and
  // although it shards the largest dimension of each matrix. It is also kept
  // although it shards the bias of an output projection, which is a fault then.
  void DecideByOther(size_t index, std::vector<Shown>& shown) {
    Shown& one = shown[index];
    const bool pairs = one.inner > 0 && one.stream == 0;
    const bool undecided =
        one.use == AxisUse::kNotKnown &&
        (!one.contradictory.empty() || (pairs && one.output_bias)) &&
        !one.norm && !one.stored_first_or_last;
    const bool by_size = one.use == AxisUse::kKept && one.stored_dimension;
    if (!undecided && !by_size) return;
    const std::string& axis = in_.mesh->axes[index].name;
    bool opposite = false;
    for (size_t other = 0; other < shown.size(); ++other) {
      opposite = opposite ||
                 (other != index && shown[other].use == AxisUse::kGathered &&
                  !shown[other].stored_norms &&
                  AreOpposite(axis, in_.mesh->axes[other].name));
    }
    if (undecided && opposite) one.use = AxisUse::kKept;
    // An axis on the largest dimension of all matrices may be one of FSDP2.
    if (by_size && !opposite) one.use = AxisUse::kNotKnown;
  }

  // Returns whether, in each projection that `axis` shards, `other` shards the
  // other side.
  bool AreOpposite(std::string_view axis, std::string_view other) const {
    int found = 0;
    for (const ShardedGroup& group : in_.groups) {
      if (!group.projects || WayOf(group.role) == Way::kNone) continue;
      const bool in = HasAxisAt(*group.spec, group.in, axis);
      const bool out = HasAxisAt(*group.spec, group.out, axis);
      if (in == out) {
        if (in) return false;
        continue;
      }
      if (!HasAxisAt(*group.spec, in ? group.out : group.in, other)) {
        return false;
      }
      ++found;
    }
    return found >= 2;
  }

  AxisFacts FactsOf(const MeshAxis& axis, const Shown& shown) const {
    AxisFacts out;
    out.axis = axis.name;
    out.in_specs = shown.carried;
    out.experts = shown.experts;
    if (axis.size <= 1) {
      out.use = AxisUse::kUnused;
      out.tokens = AxisTokens::kSame;
      out.use_evidence = out.tokens_evidence = AxisEvidence::kStated;
      return out;
    }
    if (shown.example != nullptr) {
      out.out_rule = shown.example->into.rule;
      out.in_rule = shown.example->out_of.rule;
    }
    const AxisName* const name = FindAxisName(axis.name);
    SetUse(axis.name, name, shown, out);
    SetTokens(axis.name, name, out);
    return out;
  }

  // Returns whether a logical axis of a spec resolves to the axis by one of
  // these axis rules.
  bool NamedLogically(std::string_view axis, std::span<const R> rules) const {
    return std::ranges::any_of(in_.groups, [&](const ShardedGroup& group) {
      return std::ranges::any_of(group.logical, [&](const auto& one) {
        return one.first == axis &&
               std::ranges::find(rules, one.second) != rules.end();
      });
    });
  }

  bool StatesOrNames(std::string_view axis, std::span<const R> of) const {
    return States(*in_.rules, of, axis) || NamedLogically(axis, of);
  }

  void SetUse(const std::string& axis, const AxisName* name, const Shown& shown,
              AxisFacts& out) const {
    const AxisUse gathered =
        shown.carried ? AxisUse::kGathered : AxisUse::kUnused;
    out.use_evidence = AxisEvidence::kStated;
    if (StatesOrNames(axis, kTensorRules)) {
      out.use = AxisUse::kKept;
      return;
    }
    if (axis == in_.stage_axis) {
      out.use = AxisUse::kLayers;
      return;
    }
    if (StatesOrNames(axis, kBatchRules) ||
        StatesOrNames(axis, kSequenceRules)) {
      out.use = gathered;
      return;
    }
    if (StatesOrNames(axis, kExpertRules)) {
      out.use = AxisUse::kExperts;
      return;
    }
    out.use_evidence = AxisEvidence::kSpecs;
    out.use = shown.use;
    std::optional<AxisUse> named;
    if (name != nullptr && !name->rule) named = AxisUse::kLayers;
    if (name != nullptr && name->rule) {
      switch (*name->rule) {
        case R::kTensorParallel:
          named = AxisUse::kKept;
          break;
        case R::kExpertParallel:
          named = AxisUse::kExperts;
          break;
        default:
          named = gathered;
      }
    }
    // Specs that follow stored dimensions deny no name: those of a small tree
    // may do so by chance.
    const bool opposite =
        !shown.stored_norms &&
        ((shown.use == AxisUse::kKept && named == AxisUse::kGathered) ||
         (shown.use == AxisUse::kGathered && named == AxisUse::kKept));
    if (opposite) {
      out.use = AxisUse::kNotKnown;
      out.denial = AxisFacts::Denial{shown.use, *named};
      return;
    }
    const bool by_chance = shown.stored_norms && named;
    if (out.use != AxisUse::kNotKnown && !by_chance) return;
    if (shown.experts) {
      out.use = AxisUse::kExperts;
      return;
    }
    if (named) {
      out.use = *named;
      out.use_evidence =
          IsDefaultName(axis) ? AxisEvidence::kConvention : AxisEvidence::kName;
      return;
    }
    if (!shown.carried) {
      out.use = AxisUse::kUnused;
      return;
    }
    out.use_evidence = AxisEvidence::kNone;
  }

  void SetTokens(const std::string& axis, const AxisName* name,
                 AxisFacts& out) const {
    const AxisRules& rules = *in_.rules;
    out.tokens_evidence = AxisEvidence::kStated;
    if (StatesOrNames(axis, kBatchRules)) {
      out.tokens = AxisTokens::kBatch;
      return;
    }
    if (StatesOrNames(axis, kSequenceRules)) {
      out.tokens = AxisTokens::kSequence;
      return;
    }
    // A file that states which axes have the batch states it of all axes.
    if (rules.Given(R::kBatch) || axis == in_.stage_axis ||
        StatesOrNames(axis, kTensorRules) ||
        StatesOrNames(axis, kExpertRules)) {
      out.tokens = AxisTokens::kSame;
      return;
    }
    out.tokens_evidence = AxisEvidence::kNone;
    if (name == nullptr || out.denial) return;
    const bool convention = IsDefaultName(axis);
    out.tokens_evidence =
        convention ? AxisEvidence::kConvention : AxisEvidence::kName;
    if (!name->rule) {
      out.tokens = AxisTokens::kSame;
      return;
    }
    switch (*name->rule) {
      case R::kDataParallel:
      case R::kFullyShardedDataParallel:
        out.tokens = AxisTokens::kBatch;
        return;
      case R::kSequenceParallel:
        out.tokens = AxisTokens::kSequence;
        return;
      case R::kTensorParallel:
        out.tokens = AxisTokens::kSame;
        return;
      default:
        break;
    }
    // The default of `batch` lacks `ep`, so tokens are not sharded over it.
    if (convention) {
      out.tokens = AxisTokens::kSame;
    } else {
      out.tokens_evidence = AxisEvidence::kNone;
    }
  }

  static bool IsDefaultName(std::string_view axis) {
    const AxisRules defaults;
    return std::ranges::any_of(ParallelismRules(), [&](R rule) {
      return defaults.Value(rule).axes.front() == axis;
    });
  }

  const AxisInputs& in_;
  int64_t largest_ = 0;
  // Of each axis of the mesh, by the path of the block.
  std::list<Pairs> pairs_;
};

// Returns the axis rule to which an axis belongs in figures; nullopt if that is
// stated, follows from a default name, or is not known.
std::optional<R> RuleToComplete(const AxisFacts& facts) {
  const AxisName* const name = FindAxisName(facts.axis);
  const bool named = facts.tokens_evidence == AxisEvidence::kName &&
                     name != nullptr && name->rule;
  if (named && facts.tokens == AxisTokens::kBatch) {
    return facts.use == AxisUse::kGathered ? R::kFullyShardedDataParallel
                                           : R::kDataParallel;
  }
  if (named && facts.tokens == AxisTokens::kSequence) {
    return R::kSequenceParallel;
  }
  const bool stated = facts.tokens_evidence == AxisEvidence::kStated &&
                      facts.use_evidence != AxisEvidence::kStated &&
                      facts.use_evidence != AxisEvidence::kConvention;
  // Nothing of the model shows that an axis in no spec shards heads or experts.
  if (facts.tokens != AxisTokens::kSame || !facts.in_specs ||
      (!named && !stated)) {
    return std::nullopt;
  }
  if (facts.use == AxisUse::kKept) return R::kTensorParallel;
  if (facts.use == AxisUse::kExperts) return R::kExpertParallel;
  return std::nullopt;
}

// Returns what an axis of a kind of parallelism is, for people.
std::string_view KindText(R rule) {
  switch (rule) {
    case R::kFullyShardedDataParallel:
      return "of the batch over which weights are sharded";
    case R::kSequenceParallel:
      return "of the sequence";
    case R::kTensorParallel:
      return "of tensor parallelism";
    case R::kExpertParallel:
      return "of experts";
    default:
      return "of the batch";
  }
}

}  // namespace

namespace {

// The word and the sentence of each value, in the order of the values.
struct AxisText {
  std::string_view word, text;
};
constexpr AxisText kUses[] = {
    {"not_known", "how weights are used over it is not known"},
    {"kept", "each device computes with its shard of the weights"},
    {"gathered", "the shards of weights are gathered before use"},
    {"experts", "each device has some of the experts"},
    {"layers", "each device has some of the layers"},
    {"unused", "no spec of a parameter has it"}};
constexpr AxisText kTokens[] = {
    {"not_known", "which tokens its devices have is not known"},
    {"batch", "its devices have different rows of the batch"},
    {"sequence", "its devices have different positions of a sequence"},
    {"same", "its devices have the same tokens"}};
constexpr AxisText kEvidence[] = {
    {"stated", "stated by the inputs"},
    {"specs", "by the specs of parameters that belong together"},
    {"default_name", "by its name, a default of the axis rules"},
    {"name", "by its name, which published systems use"},
    {"none", "nothing shows it"}};

template <class Value, size_t kSize>
const AxisText& TextOf(const AxisText (&texts)[kSize], Value value) {
  return texts[static_cast<size_t>(value)];
}

template <class Value, size_t kSize>
std::optional<Value> ValueOf(const AxisText (&texts)[kSize],
                             std::string_view word) {
  const auto* const at = std::ranges::find(texts, word, &AxisText::word);
  if (at == std::end(texts)) return std::nullopt;
  return static_cast<Value>(at - std::begin(texts));
}

}  // namespace

std::string_view AxisUseText(AxisUse use) { return TextOf(kUses, use).text; }
std::string_view AxisTokensText(AxisTokens tokens) {
  return TextOf(kTokens, tokens).text;
}
std::string_view AxisEvidenceText(AxisEvidence evidence) {
  return TextOf(kEvidence, evidence).text;
}
std::string_view AxisUseWord(AxisUse use) { return TextOf(kUses, use).word; }
std::string_view AxisTokensWord(AxisTokens tokens) {
  return TextOf(kTokens, tokens).word;
}
std::string_view AxisEvidenceWord(AxisEvidence evidence) {
  return TextOf(kEvidence, evidence).word;
}

std::optional<AxisUse> ParseAxisUse(std::string_view word) {
  return ValueOf<AxisUse>(kUses, word);
}
std::optional<AxisTokens> ParseAxisTokens(std::string_view word) {
  return ValueOf<AxisTokens>(kTokens, word);
}
std::optional<AxisEvidence> ParseAxisEvidence(std::string_view word) {
  return ValueOf<AxisEvidence>(kEvidence, word);
}

std::span<const AxisName> PublishedAxisNames() { return kNames; }

const AxisName* FindAxisName(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const auto* const at = std::ranges::find(kNames, lower, &AxisName::name);
  return at == std::end(kNames) ? nullptr : at;
}

std::vector<AxisFacts> FindAxisFacts(const AxisInputs& inputs) {
  return AxisFinder(inputs).Find();
}

std::optional<AxisRule> ParallelismOf(AxisRule rule) {
  std::optional<AxisRule> at = rule;
  while (at && std::ranges::find(ParallelismRules(), *at) ==
                   ParallelismRules().end()) {
    at = DerivedFrom(*at);
  }
  return at;
}

AxisRules CompletedAxes(const AxisRules& rules,
                        std::span<const AxisFacts> facts) {
  AxisRules out = rules;
  const auto add = [&](R rule, const std::string& axis) {
    if (rules.Given(rule)) return;
    AxisValue value = out.Value(rule);
    value.is_null = false;
    AddOnce(value.axes, axis);
    out.Set(rule, std::move(value));
  };
  for (const AxisFacts& one : facts) {
    if (const auto rule = RuleToComplete(one)) add(*rule, one.axis);
  }
  return out;
}

std::vector<std::string> NotesOfCompleted(const AxisRules& rules,
                                          std::span<const AxisFacts> facts) {
  const AxisRules completed = CompletedAxes(rules, facts);
  std::vector<std::string> out;
  for (const AxisFacts& one : facts) {
    const auto rule = RuleToComplete(one);
    if (!rule || rules.Given(*rule)) continue;
    AxisGroup axes;
    for (const std::string& axis : completed.Value(*rule).axes) {
      const bool there =
          std::ranges::find(facts, axis, &AxisFacts::axis) != facts.end();
      if (there) axes.push_back(axis);
    }
    const bool by_specs = one.use_evidence == AxisEvidence::kSpecs &&
                          one.tokens_evidence == AxisEvidence::kStated;
    out.push_back("`" + one.axis + "` is taken as an axis " +
                  std::string(KindText(*rule)) +
                  (by_specs ? " by the specs of projections" : " by its name") +
                  ": write `axes: {" + std::string(AxisRuleName(*rule)) +
                  ": [" + Join(axes, ", ") + "]}` in the rules to state it");
  }
  return out;
}

}  // namespace shardc
