// Finds which devices of a plan have which part of the cache, from the spec of
// attention's key, [batch, tokens, heads, numbers of a head], and the pipeline
// stages. A device's part along a dimension is its index along the axes that
// shard the dimension. Devices with equal parts are replicas. So a spec such as
// `tp:(1)2` of tp:8, for 2 KV heads, needs no formula of its own: devices 0 to
// 3 have part 0 and head 0.
#include "kv/side.h"

#include <algorithm>
#include <utility>

#include "model/mesh_layout.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::kv {
namespace {

constexpr int64_t kMostDevices = int64_t{1} << 20;
constexpr int64_t kMostHolders = 4096;
constexpr int64_t kEndOfLayers = int64_t{2} * kMostStageLayers;

const Spec* SpecOf(const ReadPlan& plan, Mode mode, std::string_view tensor) {
  for (const ReadActivation& one : plan.attention) {
    if (one.mode == mode && one.tensor == tensor) return &one.spec;
  }
  return nullptr;
}

// Returns the axes of a dimension that the mesh has. Leaves out axes of one
// device, and axes that earlier dimensions have (`seen`), as the figures of
// `cost` do.
AxisGroup AxesOf(const Mesh& mesh, const Spec& spec, size_t dim,
                 AxisGroup& seen) {
  AxisGroup out;
  for (const std::string& axis : AxesAt(spec, dim)) {
    const bool known = IsAmong(axis, seen);
    if (known || mesh.SizeOf(axis) == 1) continue;
    seen.push_back(axis);
    out.push_back(axis);
  }
  return out;
}

int64_t IndexOf(const Mesh& mesh, const std::vector<int64_t>& coordinates,
                const AxisGroup& axes) {
  int64_t out = 0;
  for (const std::string& axis : axes) {
    const auto digit = mesh.FindDigit(axis);
    if (!digit) continue;
    out = out * digit->size + digit->Of(coordinates[digit->axis]);
  }
  return out;
}

// Returns why the heads cannot be divided into `parts`; empty if they can be.
std::string HeadsProblem(const Kind& kind, int64_t parts,
                         const AxisGroup& axes) {
  const int64_t heads = kind.is.heads;
  if (heads % parts == 0) return {};
  const std::string over =
      " over " + GroupText(axes) + " of " + CountText(parts) + " devices";
  const std::string what =
      Counted(heads, "head") + " of the kind `" + kind.Name() + "`" + over;
  if (kind.is.kind == KvKindName::kFull ||
      kind.is.kind == KvKindName::kWindow) {
    return parts % heads == 0
               ? what +
                     " would split a head: plan with `kv_replicate: true` "
                     "(or `--kv-replicate`), so that devices share it"
               : what + " would split a head: neither number divides the other";
  }
  return what + " are not divisible";
}

// Returns the layers of each pipeline rank, with the draft layers on the ranks
// of the last layer.
std::vector<std::vector<LayerRange>> LayersOfRanks(
    const ReadPlan& plan, const std::vector<Kind>& kinds) {
  if (!plan.stages) return {{{0, kEndOfLayers}}};
  const PlanStages& stages = *plan.stages;
  int64_t model_end = 0, end = 0;
  for (const PlanStage& stage : stages.of) {
    model_end = std::max(model_end, stage.layers.end);
  }
  for (const Kind& kind : kinds) {
    if (kind.draft) end = std::max(end, kind.is.layers.back().end);
  }
  std::vector<std::vector<LayerRange>> out(AsIndex(stages.ranks));
  for (const PlanStage& stage : stages.of) {
    LayerRange layers = stage.layers;
    if (layers.end == model_end) layers.end = std::max(model_end, end);
    if (layers.count() <= 0) continue;
    for (const int32_t rank : stage.ranks) {
      if (rank >= 0 && rank < stages.ranks)
        out[AsIndex(rank)].push_back(layers);
    }
  }
  for (auto& ranges : out) {
    std::sort(ranges.begin(), ranges.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    // Two stages of a rank may follow each other.
    std::vector<LayerRange> joined;
    for (const LayerRange& range : ranges) {
      if (!joined.empty() && joined.back().end >= range.first) {
        joined.back().end = std::max(joined.back().end, range.end);
      } else {
        joined.push_back(range);
      }
    }
    ranges = std::move(joined);
  }
  return out;
}

// The axes that shard the cache in one mode.
struct CacheAxes {
  AxisGroup batch, tokens;
  std::vector<AxisGroup> heads;  // indexed by kind
};

CacheAxes AxesOfCache(const ReadPlan& plan, const Spec& key, const Spec& query,
                      Mode mode, const std::vector<Kind>& kinds) {
  const Mesh& mesh = plan.mesh;
  CacheAxes out;
  AxisGroup seen;
  out.batch = AxesOf(mesh, key, 0, seen);
  out.tokens = AxesOf(mesh, key, 1, seen);
  for (const Kind& kind : kinds) {
    AxisGroup others = seen;
    AxisGroup& axes = out.heads.emplace_back();
    if (kind.IsReplicated()) continue;
    if (!kind.IsPaged()) {
      // States are computed by the query heads' devices.
      axes = AxesOf(mesh, query, 2, others);
      continue;
    }
    axes = AxesOf(mesh, key, 2, others);
    for (const auto& [own, group] : kind.is.axes) {
      if (own == mode) axes = group;
    }
  }
  return out;
}

}  // namespace

int64_t Kind::Kept(int64_t tokens) const {
  if (is.kind == KvKindName::kState) return 1;
  return is.window > 0 ? std::min(tokens, is.window) : tokens;
}

int64_t Kind::Tensors() const {
  return is.kind == KvKindName::kFull || is.kind == KvKindName::kWindow ||
                 is.kind == KvKindName::kConvKey
             ? 2
             : 1;
}

std::string Kind::Name() const {
  return std::string(KvName(is.kind)) + (draft ? ", draft" : "");
}

int64_t BytesOfHead(const Kind& kind, const SideSettings& settings) {
  const auto bytes = [](Dtype dtype) { return int64_t{DtypeBits(dtype)} / 8; };
  const KvKind& is = kind.is;
  switch (is.kind) {
    case KvKindName::kState:
      return is.head_dim * is.value_dim * bytes(settings.state_dtype);
    case KvKindName::kConvKey:
    case KvKindName::kConvValue:
      return kind.Tensors() * is.head_dim * bytes(settings.conv_dtype);
    default:
      break;
  }
  int64_t numbers = kind.Tensors() * is.head_dim;
  if (is.value_dim > 0) numbers = is.head_dim + is.value_dim;
  // An int8 cache has a float32 scale for each token and head of a tensor. The
  // scale of a latent row covers the key of an indexer as well.
  const bool scaled =
      settings.dtype == Dtype::kI8 && is.kind != KvKindName::kIndexer;
  return numbers * bytes(settings.dtype) + (scaled ? 4 * kind.Tensors() : 0);
}

LayerRange Side::HeadsOf(const Kind& kind, size_t index,
                         const Holder& holder) const {
  const int64_t each = kind.is.heads / head_parts[index];
  const int64_t first = holder.head_part[index] * each;
  return {first, first + each};
}

Side::At Side::Locate(int64_t token, int64_t tokens) const {
  if (token_parts == 1) return {0, token};
  const int64_t given = settings.interleave.value_or(0);
  const int64_t block =
      given > 0
          ? given
          : std::max<int64_t>((tokens + token_parts - 1) / token_parts, 1);
  const int64_t number = token / block;
  return {number % token_parts, number / token_parts * block + token % block};
}

std::vector<Kind> KindsOf(const ReadPlan& plan,
                          const std::vector<KvKind>& fallback, int64_t draft) {
  std::vector<Kind> out;
  int64_t end = 0;
  size_t last = 0;
  for (const KvKind& kind : plan.kv.empty() ? fallback : plan.kv) {
    const bool later = kind.layers.back().end > end;
    if (later) last = out.size();
    end = std::max(end, kind.layers.back().end);
    out.push_back({.is = kind});
  }
  if (draft == 0 || out.empty()) return out;
  // Kinds with the last layer follow each other, such as latent and indexer.
  const size_t count = out.size();
  for (size_t i = last; i < count; ++i) {
    if (out[i].is.layers.back().end != end) continue;
    Kind more = out[i];
    more.draft = true;
    more.is.layers = {{end, end + draft}};
    out.push_back(std::move(more));
  }
  return out;
}

std::optional<Side> SideOf(const ReadPlan& plan, const std::vector<Kind>& kinds,
                           const SideSettings& settings, std::string_view name,
                           std::vector<std::string>& refused,
                           Findings& findings) {
  const Mesh& mesh = plan.mesh;
  const Spec* key = SpecOf(plan, settings.mode, "key");
  const Spec* query = SpecOf(plan, settings.mode, "query");
  const std::string side = "the " + std::string(name);
  if (key == nullptr || query == nullptr) {
    findings.Add(code::kUsage, plan.mesh_place,
                 side + "'s plan has no attention specs for the mode `" +
                     std::string(ModeName(settings.mode)) + "`",
                 "write the plan with `shardc plan --modes`, or choose other "
                 "modes with `--mode`");
    return std::nullopt;
  }
  if (mesh.devices > kMostDevices) {
    findings.Add(
        code::kLimit, plan.mesh_place,
        side + "'s mesh has more than " + CountText(kMostDevices) + " devices");
    return std::nullopt;
  }
  const CacheAxes axes = AxesOfCache(plan, *key, *query, settings.mode, kinds);
  Side out;
  out.settings = settings;
  out.dp_ranks = mesh.Parts(axes.batch).value_or(1);
  out.token_parts = mesh.Parts(axes.tokens).value_or(1);
  out.layers_of_rank = LayersOfRanks(plan, kinds);
  if (settings.dp_rank >= out.dp_ranks) {
    findings.Add(code::kUsage, plan.mesh_place,
                 side + " has " + Counted(out.dp_ranks, "data parallel rank") +
                     ", and no rank " + CountText(settings.dp_rank),
                 "choose one of them with `--dp-rank`");
    return std::nullopt;
  }
  AxisGroup seen;
  for (size_t dim = 0; dim < 3; ++dim) AxesOf(mesh, *key, dim, seen);
  const AxisGroup split = AxesOf(mesh, *key, 3, seen);
  if (!split.empty()) {
    refused.push_back(side + " shards the numbers of each head over " +
                      GroupText(split) +
                      ": no device has a complete key of a token");
  }
  if (out.token_parts > 1 && !settings.interleave) {
    refused.push_back(side + " shards the tokens over " +
                      GroupText(axes.tokens) + " of " +
                      CountText(out.token_parts) +
                      ", and the plan does not state which tokens a device "
                      "has: give `--interleave`");
  }
  for (size_t i = 0; i < kinds.size(); ++i) {
    const int64_t parts = mesh.Parts(axes.heads[i]).value_or(1);
    const std::string problem = HeadsProblem(kinds[i], parts, axes.heads[i]);
    if (!problem.empty()) refused.push_back(side + "'s " + problem);
    out.head_parts.push_back(parts);
  }
  const auto stages =
      plan.stages ? mesh.Find(plan.stages->axis) : std::optional<size_t>();
  for (int64_t device = 0; device < mesh.devices; ++device) {
    const std::vector<int64_t> at = CoordinatesOf(mesh, device);
    if (IndexOf(mesh, at, axes.batch) != settings.dp_rank) continue;
    Holder& holder = out.holders.emplace_back();
    holder.device = device;
    holder.stage_rank = stages ? at[*stages] : 0;
    holder.token_part = IndexOf(mesh, at, axes.tokens);
    for (const AxisGroup& group : axes.heads) {
      holder.head_part.push_back(IndexOf(mesh, at, group));
    }
    if (std::ssize(out.holders) > kMostHolders) {
      findings.Add(code::kLimit, plan.mesh_place,
                   side + " has more than " + CountText(kMostHolders) +
                       " devices in a data parallel rank");
      return std::nullopt;
    }
  }
  return out;
}

std::vector<LayerRange> Common(const std::vector<LayerRange>& a,
                               const std::vector<LayerRange>& b) {
  std::vector<LayerRange> out;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const LayerRange both{std::max(a[i].first, b[j].first),
                          std::min(a[i].end, b[j].end)};
    if (both.count() > 0) out.push_back(both);
    if (a[i].end < b[j].end) {
      ++i;
    } else {
      ++j;
    }
  }
  return out;
}

int64_t CountOf(const std::vector<LayerRange>& ranges) {
  int64_t out = 0;
  for (const LayerRange& range : ranges) out += range.count();
  return out;
}

}  // namespace shardc::kv
