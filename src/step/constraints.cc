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

#include "model/sub_axis.h"
#include "source/index.h"

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
    {"kcache", {{kBatch, kKeys, kKvHead}}, true},
    // The operands and the result of an attention operation that runs as a
    // kernel.
    {"op_q", {{kBatch, kQuery, kHead}}},
    {"op_given", {{kBatch, kKeys, kKvHead, kHead}}},
    {"op_k", {{kBatch, kKeys, kKvHead, kHead}}},
    {"op_krep", {{kBatch, kKeys, kHead}}, true},
    {"op_out", {{kBatch, kQuery, kHead}}},
    {"op_positions", {{kBatch}}},
};

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
  if (std::find(notes.begin(), notes.end(), text) == notes.end()) {
    notes.push_back(std::move(text));
  }
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
  for (std::string_view token : {"BATCH", "QUERY_LENGTH", "FSDP"}) {
    for (const std::string& axis : resolved(token)) {
      if (std::find(out.data.begin(), out.data.end(), axis) == out.data.end()) {
        out.data.push_back(axis);
      }
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

}  // namespace shardc::step
