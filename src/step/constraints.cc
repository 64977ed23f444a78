// Computes sharding constraints of activations. The role of an activation is
// its place in the model, such as `resid` (residual stream), `k` (keys) or
// `moe_exp` (tokens in the queues of experts). A table lists for each role
// which dimensions are sharded. Each row of the list is a pair of logical axes:
// the dimension with the first one is sharded over the mesh axes of the second
// one. For example, the dimension QUERY_LENGTH of new keys is sharded over the
// mesh axes of KV_LENGTH. All other dimensions are unsharded. In the following
// examples, a pair of equal logical axes is written once:
//
//   resid [b, t, d]      BATCH, QUERY_LENGTH, EMBED   ->  b:fsdp+dp t:sp d:tp
//   k [b, t, k, h]       BATCH, (QUERY_LENGTH, KV_LENGTH), KV_HEAD, ...
//                                                     ->  b:fsdp+dp t:sp k:tp
//   moe_exp [b, e, c, d] BATCH without EXPERT's axes  ->  b:fsdp+dp e:ep
#include "step/constraints.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "model/mesh_layout.h"
#include "source/list.h"
#include "source/size.h"
#include "step/op_def.h"

namespace shardc::step {
namespace {

struct TokenPair {
  std::string_view label, axes;
};
// The pass in which a value may stay partial (KeepsPartial).
enum class Partial : uint8_t { kNever, kForward, kBackward };
struct Role {
  std::string_view name;
  std::array<TokenPair, 4> pairs;
  bool forward_only = false;
  // True if the axes of EXPERT are removed from those of BATCH.
  bool without_expert = false;
  bool if_expert_in_batch = false;
  Partial partial = Partial::kNever;
};

constexpr TokenPair kBatch = {"BATCH", "BATCH"};
constexpr TokenPair kQuery = {"QUERY_LENGTH", "QUERY_LENGTH"};
constexpr TokenPair kKeys = {"KV_LENGTH", "KV_LENGTH"};
constexpr TokenPair kEmbed = {"EMBED", "EMBED"};
constexpr TokenPair kHead = {"HEAD", "HEAD"};
constexpr TokenPair kHeadDim = {"HEAD_DIM", "HEAD_DIM"};
constexpr TokenPair kKvHead = {"KV_HEAD", "KV_HEAD"};
constexpr TokenPair kKvDim = {"HEAD_DIM", "KV_HEAD_DIM"};
constexpr TokenPair kNewKeys = {"QUERY_LENGTH", "KV_LENGTH"};
constexpr TokenPair kMlp = {"MLP_INTERMEDIATE", "MLP_INTERMEDIATE"};
constexpr TokenPair kVocab = {"VOCAB", "VOCAB"};
constexpr TokenPair kGate = {"EXPERT", "EXPERT_GATE"};
constexpr TokenPair kExpert = {"EXPERT", "EXPERT"};

constexpr Role kRoles[] = {
    {"tokens", {{kBatch, kQuery}}},
    {"cache_positions", {{kBatch, kKeys}}},
    {"resid", {{kBatch, kQuery, kEmbed}}},
    {"normed", {{kBatch, kQuery, kEmbed}}},
    {"latent", {{kBatch, kQuery}}},
    {"q", {{kBatch, kQuery, kHead, kHeadDim}}},
    {"attn_out", {{kBatch, kQuery, kHead, kHeadDim}}},
    {"k", {{kBatch, kNewKeys, kKvHead, kKvDim}}},
    {"kgather", {{kBatch, kKeys, kKvHead, kKvDim}}, true},
    {"krep", {{kBatch, kKeys, kHead, kKvDim}}, true},
    {"mlp", {{kBatch, kQuery, kMlp}}},
    {"logits", {{kBatch, kQuery, kVocab}}},
    {"router", {{kBatch, kQuery, kGate}}},
    {"sel", {{kBatch, kQuery, kGate}}},
    // The rows in the queues of experts: `tok` with the sharding of their
    // tokens, `exp` with that of the experts. Results (`out`) are partial
    // before the rows of a token are added, and so are the cotangents of
    // inputs.
    {"moe_tok", {{kBatch}}, false, false, true, Partial::kBackward},
    {"moe_exp", {{kBatch, kExpert}}, false, true, false, Partial::kBackward},
    {"moe_tok_out", {{kBatch}}, false, false, true, Partial::kForward},
    {"moe_exp_out", {{kBatch, kExpert}}, false, true, false, Partial::kForward},
    {"moe_mlp", {{kBatch, kExpert, kMlp}}, false, true},
    {"kcache", {{kBatch, kKeys, kKvHead, kHead}}, true},
    // The operands and the result of an attention operation that runs as a
    // kernel.
    {"op_q", {{kBatch, kQuery, kHead}}},
    {"op_given", {{kBatch, kKeys, kKvHead, kHead}}},
    {"op_k", {{kBatch, kKeys, kKvHead, kHead}}},
    {"op_krep", {{kBatch, kKeys, kHead}}, true},
    {"op_out", {{kBatch, kQuery, kHead}}},
    {"op_positions", {{kBatch}}},
};

// An activation of the rules (ActivationSpecs()): the roles of the step's
// values that it is, and the logical axis of each dimension. The step shards no
// dimension whose axis is empty.
struct StatedActivation {
  std::string_view name;
  std::array<std::string_view, 3> roles;
  std::array<std::string_view, 4> axes;
};
constexpr StatedActivation kStated[] = {
    {"hidden", {"resid", "normed"}, {"BATCH", "QUERY_LENGTH", "EMBED"}},
    {"mlp", {"mlp"}, {"BATCH", "QUERY_LENGTH", "MLP_INTERMEDIATE"}},
    {"logits", {"logits"}, {"BATCH", "QUERY_LENGTH", "VOCAB"}},
    {"experts", {"moe_exp", "moe_exp_out", "moe_mlp"}, {"BATCH", "EXPERT"}},
};

void AddStated(const ActivationSpec& one, ShardingConstraints& out) {
  const auto* const known = std::find_if(
      std::begin(kStated), std::end(kStated),
      [&](const StatedActivation& stated) { return stated.name == one.name; });
  const bool exists = known != std::end(kStated);
  const Spec& spec = one.resolved.spec;
  for (size_t r = 0; exists && r < known->roles.size(); ++r) {
    const std::string_view role = known->roles[r];
    for (size_t d = 0; !role.empty() && d < known->axes.size(); ++d) {
      if (known->axes[d].empty()) continue;
      out.overrides.push_back({std::string(role), std::string(known->axes[d]),
                               d < spec.size() ? spec[d] : AxisGroup{}});
    }
  }
  for (size_t d = 0; d < spec.size(); ++d) {
    const bool done =
        exists && d < known->axes.size() && !known->axes[d].empty();
    if (done || spec[d].empty()) continue;
    out.notes.push_back("the step does not shard dimension " +
                        std::to_string(d) + " of the activation `" + one.name +
                        "` as the rules state it");
  }
}

const Role* FindRole(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kRoles), std::end(kRoles),
                   [&](const Role& role) { return role.name == name; });
  return found == std::end(kRoles) ? nullptr : found;
}

size_t TokenIndex(std::string_view token) {
  return AsIndex(
      std::find(kConstraintAxes.begin(), kConstraintAxes.end(), token) -
      kConstraintAxes.begin());
}

const AxisGroup& AxesFor(const ShardingConstraints& constraints,
                         std::string_view role, std::string_view token) {
  for (const ShardingConstraintOverride& own : constraints.overrides) {
    if (own.role == role && own.token == token) return own.axes;
  }
  return constraints.by_axis[TokenIndex(token)];
}

// Returns the logical axis whose mesh axes shard a dimension with the logical
// axis `semantic` in a value of this role. For the keys (`k`) and QUERY_LENGTH,
// it is KV_LENGTH. Returns an empty text if the dimension is unsharded.
std::string_view TokenOf(const Role& role, std::string_view semantic) {
  if (semantic.empty()) return {};
  for (const TokenPair& pair : role.pairs) {
    if (pair.label == semantic) return pair.axes;
  }
  return {};
}

void Note(std::vector<std::string>& notes, std::string text) {
  AddOnce(notes, std::move(text));
}

// Returns the axes of `list` that can shard a dimension of this size:
// - An axis that an earlier dimension uses is left out.
// - The list ends before the first axis that does not divide the rest of the
//   size. For size 8 and [dp 2, sp 3, tp 2], the result is [dp].
//
// Appends a message to `notes` for each axis of the first case, and one for the
// axis before which the list ends. In a dimension of size 1, such as the single
// query in decoding, the second message is left out unless the dimension is the
// batch.
AxisList Fitting(const Axes& axes, const AxisList& list, int64_t size,
                 std::string_view token, AxisSet used, const std::string& where,
                 std::vector<std::string>& notes) {
  AxisList out;
  int64_t parts = 1;
  for (AxisId axis : list) {
    if (Holds(used, axis)) {
      Note(notes, where + ": " + axes.names[axis] +
                      " shards an earlier dimension too and is left out here");
      continue;
    }
    parts *= axes.sizes[axis];
    if (size % parts != 0) {
      // Only KV heads that are replicated shard the first factors of an axis
      // alone, by `kv_replicate`.
      const bool factor = ParseSubAxis(axes.names[axis]).has_value();
      if (!factor && (size > 1 || token == "BATCH")) {
        Note(notes, where + ": " + axes.names[axis] + " does not divide " +
                        std::to_string(size) + " and is left out");
      }
      break;
    }
    out.push_back(axis);
  }
  return out;
}

}  // namespace

ShardingConstraints ShardingConstraintsOf(const Resolver& resolver, Mode mode) {
  ShardingConstraints out;
  Findings none;  // Stays empty, because built-in logical axes always resolve.
  const auto resolved = [&](std::string_view token) {
    SpecList list;
    SpecEntry entry;
    entry.names.push_back({std::string(token), {}});
    list.entries.push_back(std::move(entry));
    const std::optional<Resolved> result = resolver.Resolve(list, mode, none);
    return result.has_value() && !result->spec.empty() ? result->spec[0]
                                                       : AxisGroup{};
  };
  for (size_t i = 0; i < kConstraintAxes.size(); ++i) {
    out.by_axis[i] = resolved(kConstraintAxes[i]);
  }
  // In training and prefill the keys are gathered, so their KV_LENGTH is
  // unsharded. In decoding each device attends with the single query to the
  // keys that it holds, and the partial softmaxes are combined.
  if (!IsGeneration(mode)) {
    out.overrides.push_back({"krep", "KV_LENGTH", {}});
    out.overrides.push_back({"kgather", "KV_LENGTH", {}});
  }
  const auto activations = ActivationSpecs(resolver, mode, none);
  for (const ActivationSpec& one :
       activations.value_or(std::vector<ActivationSpec>{})) {
    if (one.stated) AddStated(one, out);
  }
  for (std::string_view token : {"BATCH", "QUERY_LENGTH", "FSDP"}) {
    for (const std::string& axis : resolved(token)) {
      AddOnce(out.data, axis);
    }
  }
  return out;
}

std::optional<Sharding> ConstrainedSharding(
    const ShardingConstraints& constraints, const Axes& axes,
    const Graph& graph, const Sizes& sizes, std::string_view role,
    const std::vector<LabelId>& labels, std::vector<std::string>& notes) {
  const Role* const found = FindRole(role);
  if (found == nullptr || labels.size() > kMaxRank) return std::nullopt;
  const AxisSet expert = axes.SetOf(AxesFor(constraints, role, "EXPERT"));
  const AxisSet batch = axes.SetOf(AxesFor(constraints, role, "BATCH"));
  if (found->if_expert_in_batch && (expert & ~batch) != 0) return std::nullopt;
  Sharding out;
  out.rank = static_cast<uint8_t>(labels.size());
  AxisSet used = 0;
  for (size_t d = 0; d < labels.size(); ++d) {
    const DimLabel& label = graph.labels[AsIndex(labels[d])];
    const std::string_view token = TokenOf(*found, label.semantic);
    if (token.empty()) continue;
    AxisList list = axes.Of(AxesFor(constraints, role, token));
    if (found->without_expert && token == "BATCH") {
      AxisList left;
      for (AxisId axis : list) {
        if (!Holds(expert, axis)) left.push_back(axis);
      }
      list = left;
    }
    out.dims[d] = Fitting(axes, list, sizes[AsIndex(labels[d])], token, used,
                          std::string(role) + " " + label.name, notes);
    used = static_cast<AxisSet>(used | out.dims[d].set());
  }
  return out;
}

bool KeepsPartial(const ShardingConstraints& constraints, const Axes& axes,
                  std::string_view role, bool forward) {
  const Role* const found = FindRole(role);
  const Partial when = forward ? Partial::kForward : Partial::kBackward;
  if (found == nullptr || found->partial != when) return false;
  const AxisSet expert = axes.SetOf(AxesFor(constraints, role, "EXPERT"));
  const AxisSet batch = axes.SetOf(AxesFor(constraints, role, "BATCH"));
  return expert == 0 || (expert & ~batch) != 0;
}

bool IsForwardOnly(std::string_view role) {
  const Role* const found = FindRole(role);
  return found != nullptr && found->forward_only;
}

// Determines the LabelKind of each dimension label of an op. The kind depends
// on whether operands and result have the label, and on the op's definition
// (OpDef). The definition states which labels must be unsharded, and the kind
// of the labels that the result lacks:
//
//   einsum y [b, t, d], w [f, d] -> [b, t, f]   b, t, f: kMap    d: kSum
//   max of logits [b, t, v] -> [b, t]           b, t: kMap       v: kMax
//   top k of [b, t, e]                          b, t: kMap       e: kNeed

namespace {

int8_t FindOrAddLabel(OpLabels& out, LabelId label) {
  for (size_t i = 0; i < out.count; ++i) {
    if (out.labels[i].label == label) return static_cast<int8_t>(i);
  }
  if (out.count == OpLabels::kMost) return -1;
  out.labels[out.count] = {label, LabelKind::kMap};
  return static_cast<int8_t>(out.count++);
}

LabelKind KindOf(const OpDef& def, bool unsharded, bool in_operands,
                 bool in_result) {
  if (unsharded) return LabelKind::kNeed;
  if (!in_operands) return LabelKind::kFresh;
  if (in_result) return LabelKind::kMap;
  return def.dropped;
}

}  // namespace

bool LabelsOf(const Graph& graph, const Op& op, OpLabels& out) {
  const auto labels_of = [&](ValueId value) -> const std::vector<LabelId>& {
    return graph.values[AsIndex(value)].labels;
  };
  const auto* const rename = std::get_if<RenameAttributes>(&op.attributes);
  out.count = 0;
  out.of.assign(op.in.size(), {});
  std::array<bool, OpLabels::kMost> in_operands{}, in_result{};
  for (size_t i = 0; i < op.in.size(); ++i) {
    const std::vector<LabelId>& labels = labels_of(op.in[i]);
    if (labels.size() > kMaxRank) return false;
    for (size_t d = 0; d < labels.size(); ++d) {
      const bool old = rename != nullptr && labels[d] == rename->from;
      const int8_t at = FindOrAddLabel(out, old ? rename->to : labels[d]);
      if (at < 0) return false;
      out.of[i][d] = at;
      in_operands[AsIndex(at)] = true;
    }
  }
  const std::vector<LabelId>& result = labels_of(op.out);
  if (result.size() > kMaxRank) return false;
  for (size_t d = 0; d < result.size(); ++d) {
    const int8_t at = FindOrAddLabel(out, result[d]);
    if (at < 0) return false;
    out.result[d] = at;
    in_result[AsIndex(at)] = true;
  }
  const OpDef& def = DefOf(op.kind);
  std::array<LabelId, 2> unsharded = {kNoLabel, kNoLabel};
  if (def.unsharded != nullptr) unsharded = def.unsharded(graph, op);
  for (size_t i = 0; i < out.count; ++i) {
    const LabelId label = out.labels[i].label;
    const bool needed = label == unsharded[0] || label == unsharded[1];
    out.labels[i].kind = KindOf(def, needed, in_operands[i], in_result[i]);
  }
  return true;
}

// Derives the shardings of ops that split, merge or repeat dimensions. A
// dimension (n h) is the product of the factors n and h, such as the number of
// heads and the size of a head.
//
// A split distributes the axes of (n h), in order. They shard n as long as the
// product of their sizes divides the size of n. The axes after these shard h,
// but only if each device then has a single index of n. All other axes are
// gathered before the split. A merge is the inverse: axes of h are kept only if
// each device has a single index of n.
//
// Query heads that are repeated from KV heads may be sharded over more axes
// than the KV heads. If query heads are summed to KV heads, the result is
// partial over the axes that do not divide the KV heads. For example:
//
//   split (n h) over tp 4, n 8                ->  n:tp
//   split (n h) over [a 2, b 2], n 2          ->  n:a h:b
//   sum n 8 over [a 2, b 2] to KV heads k 2   ->  k:a, partial over b

namespace {

const std::vector<LabelId>& LabelsOf(const Graph& graph, ValueId value) {
  return graph.values[AsIndex(value)].labels;
}

size_t DimOf(const std::vector<LabelId>& labels, LabelId label) {
  return AsIndex(std::find(labels.begin(), labels.end(), label) -
                 labels.begin());
}

struct Context {
  const Graph& graph;
  const Axes& axes;
  const Sizes& sizes;
  int64_t Size(LabelId label) const { return sizes[AsIndex(label)]; }
  const std::vector<LabelId>& Factors(LabelId label) const {
    return graph.labels[AsIndex(label)].factors;
  }
};

// Returns for each factor of the label `whole` the axes of `list` that shard
// it. `placed` is set to all axes that shard some factor.
std::vector<AxisList> Distribute(const Context& at, LabelId whole,
                                 const AxisList& list, AxisList& placed) {
  const std::vector<LabelId>& factors = at.Factors(whole);
  std::vector<AxisList> out(factors.size());
  size_t f = 0;
  int64_t left = factors.empty() ? 1 : at.Size(factors[0]);
  for (AxisId axis : list) {
    while (left == 1 && f + 1 < factors.size()) left = at.Size(factors[++f]);
    const int64_t n = at.axes.sizes[axis];
    if (f >= factors.size() || left % n != 0) break;
    left /= n;
    out[f].push_back(axis);
    placed.push_back(axis);
  }
  return out;
}

// Returns the axes that shard the merged dimension `whole`. Axes of its factors
// that cannot be kept are removed from the operand's sharding.
AxisList JoinedAxes(const Context& at, LabelId whole,
                    const std::vector<LabelId>& labels, Sharding& operand) {
  AxisList out;
  // Axes may shard a factor only while `open` is true.
  bool open = true;  // every device has one index of each factor so far
  for (LabelId factor : at.Factors(whole)) {
    AxisList& list = operand.dims[DimOf(labels, factor)];
    if (!open) {
      list = {};
      continue;
    }
    for (AxisId axis : list) out.push_back(axis);
    open = at.axes.Parts(list) == at.Size(factor);
  }
  return out;
}

// Sets the sharding `to`: copies the partial axes of `from`, and the axes of
// the labels that both values have.
void CopyCommon(const std::vector<LabelId>& from_labels, const Sharding& from,
                const std::vector<LabelId>& to_labels, Sharding& to) {
  to.rank = static_cast<uint8_t>(to_labels.size());
  to.partial = from.partial;
  for (size_t d = 0; d < to_labels.size(); ++d) {
    const size_t s = DimOf(from_labels, to_labels[d]);
    to.dims[d] = s < from_labels.size() ? from.dims[s] : AxisList{};
  }
}

void SplitOf(const Context& at, const Op& op, Sharding& from, Sharding& to,
             const std::vector<LabelId>& from_labels,
             const std::vector<LabelId>& to_labels) {
  const LabelId label = As<LabelAttributes>(op).label;
  AxisList placed;
  AxisList& whole = from.dims[DimOf(from_labels, label)];
  const std::vector<AxisList> lists = Distribute(at, label, whole, placed);
  whole = placed;
  const std::vector<LabelId>& factors = at.Factors(label);
  for (size_t f = 0; f < factors.size(); ++f) {
    to.dims[DimOf(to_labels, factors[f])] = lists[f];
  }
}

void MergeOf(const Context& at, const Op& op, Sharding& from, Sharding& to,
             const std::vector<LabelId>& from_labels,
             const std::vector<LabelId>& to_labels) {
  const LabelId label = As<LabelAttributes>(op).label;
  to.dims[DimOf(to_labels, label)] = JoinedAxes(at, label, from_labels, from);
}

// Returns the axes that shard query heads which are repeated from KV heads.
// These are the axes of the preferred sharding if they begin with the axes of
// the KV heads, or if the op is part of a kernel, which runs on shards of the
// heads. They must also divide the number of query heads and must not shard
// another dimension. Otherwise returns the axes of the KV heads.
AxisList Repeated(const Context& at, const HeadGroupAttributes& heads,
                  const Sharding& from, const AxisList& kv,
                  const Sharding* wanted, size_t heads_dim) {
  if (wanted == nullptr) return kv;
  const AxisList& preferred = wanted->dims[heads_dim];
  const auto others = static_cast<AxisSet>(from.used() & ~kv.set());
  const bool nest = IsPrefix(kv, preferred) || heads.in_slices;
  const bool fits = nest && (preferred.set() & others) == 0 &&
                    at.Size(heads.query_heads) % at.axes.Parts(preferred) == 0;
  return fits ? preferred : kv;
}

// Returns the leading axes of the query heads whose product divides the number
// of KV heads.
AxisList Grouped(const Context& at, LabelId kv, const AxisList& heads) {
  AxisList out;
  int64_t parts = 1;
  for (AxisId axis : heads) {
    parts *= at.axes.sizes[axis];
    if (at.Size(kv) % parts != 0) break;
    out.push_back(axis);
  }
  return out;
}

}  // namespace

Structural PassThrough(const Graph& graph, const Op& op, const Axes& axes,
                       const Sizes& sizes, const Sharding& operand,
                       const Sharding* wanted) {
  const Context at{graph, axes, sizes};
  const std::vector<LabelId>& from_labels = LabelsOf(graph, op.in[0]);
  const std::vector<LabelId>& to_labels = LabelsOf(graph, op.out);
  Structural out{.operand = operand, .result = {}};
  CopyCommon(from_labels, operand, to_labels, out.result);
  switch (op.kind) {
    case OpKind::kSplit:
      SplitOf(at, op, out.operand, out.result, from_labels, to_labels);
      break;
    case OpKind::kMerge:
      MergeOf(at, op, out.operand, out.result, from_labels, to_labels);
      break;
    case OpKind::kRepeat: {
      const auto& heads = As<HeadGroupAttributes>(op);
      const size_t dim = DimOf(to_labels, heads.query_heads);
      out.result.dims[dim] = Repeated(
          at, heads, operand, operand.dims[DimOf(from_labels, heads.kv_heads)],
          wanted, dim);
      break;
    }
    case OpKind::kGroupSum: {
      const auto& group = As<HeadGroupAttributes>(op);
      const AxisList& heads =
          operand.dims[DimOf(from_labels, group.query_heads)];
      const AxisList kept = Grouped(at, group.kv_heads, heads);
      out.result.dims[DimOf(to_labels, group.kv_heads)] = kept;
      out.result.partial = static_cast<AxisSet>(out.result.partial |
                                                (heads.set() & ~kept.set()));
      break;
    }
    default:
      break;
  }
  return out;
}

Sharding PullBack(const Graph& graph, const Op& op, const Axes& axes,
                  const Sizes& sizes, const Sharding& wanted) {
  const Context at{graph, axes, sizes};
  const std::vector<LabelId>& from_labels = LabelsOf(graph, op.in[0]);
  const std::vector<LabelId>& to_labels = LabelsOf(graph, op.out);
  Sharding result = wanted, out;
  CopyCommon(to_labels, wanted, from_labels, out);
  switch (op.kind) {
    case OpKind::kSplit:
      MergeOf(at, op, result, out, to_labels, from_labels);
      break;
    case OpKind::kMerge:
      SplitOf(at, op, result, out, to_labels, from_labels);
      break;
    case OpKind::kRepeat: {
      const auto& heads = As<HeadGroupAttributes>(op);
      out.dims[DimOf(from_labels, heads.kv_heads)] = Grouped(
          at, heads.kv_heads, wanted.dims[DimOf(to_labels, heads.query_heads)]);
      break;
    }
    case OpKind::kGroupSum: {
      const auto& heads = As<HeadGroupAttributes>(op);
      out.dims[DimOf(from_labels, heads.query_heads)] =
          wanted.dims[DimOf(to_labels, heads.kv_heads)];
      break;
    }
    case OpKind::kRename: {
      const auto& [before, after] = As<RenameAttributes>(op);
      out.dims[DimOf(from_labels, before)] =
          wanted.dims[DimOf(to_labels, after)];
      break;
    }
    default:
      break;
  }
  return out;
}

}  // namespace shardc::step
