// Exports the layers of vLLM and of SGLang, whose classes have the same sizes:
// the attributes of each weight. A column-parallel layer splits the output
// dimension of its weight, and a row-parallel layer splits the input dimension.
// PyTorch stores a matrix as [out, in]. Flax stores it as [in, out] under the
// name `kernel`. The kind of layer therefore follows from the sharded dimension
// and the name. For example:
//
//   [out, in] and ["tp", null]  ->  column, shard_dim 0
//
// Shards are those of the engine's layers (devices/engine_layout.h), which pad
// the vocabulary and give each rank whole KV heads, replicated where there are
// more ranks than heads. Other layouts are refused, because the engine never
// has them.
//
// As text, exports the flags with which the engine divides the model so.
#include "devices/engine_layout.h"
#include "devices/serving.h"
#include "emit/exports/exporter.h"
#include "emit/exports/system_keys.h"
#include "facts/parameters.h"
#include "model/mesh_layout.h"
#include "model/name.h"
#include "plan/kv_layout.h"
#include "plan/plan_parameters.h"
#include "roles/classify.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

// Returns the kind of layer: "row" if the input of a matrix is sharded, else
// "column". The input is the last dimension of the matrix, or the first
// dimension if Flax stores the matrix as a `kernel`. A vector, such as a bias,
// belongs to the output.
std::string_view Kind(const ReadParam& param, char separator,
                      const Split& split) {
  const size_t rank = param.type.shape ? param.type.shape->size() : 2;
  if (rank < 2) return "column";
  const bool kernel = rank == 2 && AfterLast(param.name, separator) == "kernel";
  const int64_t input = kernel ? 0 : static_cast<int64_t>(rank) - 1;
  return split.dim == input ? "row" : "column";
}

// Returns whether each rank's part is contiguous, as the loaders of engines
// require. If not, adds a finding about the first parameter whose parts are not
// contiguous.
bool Contiguous(const ReadPlan& plan, std::string_view engine,
                const std::string& axis, Mode mode, Findings& findings) {
  for (const ReadParam& param : plan.params) {
    const auto split = SplitBy(plan.mesh, axis, param.SpecOf(mode));
    if (!split || split->stride == 1) continue;
    findings.Add(
        code::kInexpressible, param.place,
        Quote(engine) +
            " loads one contiguous shard per rank, and other axes split `" +
            SpecText(param.SpecOf(mode)) + "` of `" + param.name +
            "` before `" + axis + "`",
        "put `" + axis + "` first in the group");
    return false;
  }
  return true;
}

// A parameter's shard as an engine makes it.
struct EngineShard {
  std::optional<Split> split;
  std::optional<Shape> shape;
  std::optional<int64_t> padded;  // the rows of a padded vocabulary
  int64_t replicas = 1;           // the ranks that have the same KV heads
};

class EngineShards {
 public:
  EngineShards(const EngineProfile& engine, const ReadPlan& plan, Mode mode,
               std::string axis)
      : engine_(engine),
        layout_(*engine.layout),
        plan_(plan),
        mode_(mode),
        axis_(std::move(axis)),
        tensor_(plan.mesh.SizeOf(axis_)),
        parameters_(ParametersOf(plan, SeparatorOf(plan))) {
    std::vector<std::pair<int64_t, int64_t>> sizes;
    for (const KvKind& kind : plan_.kv) {
      if (kind.kind == KvKindName::kFull || kind.kind == KvKindName::kWindow) {
        AddOnce(sizes, std::pair(kind.heads, kind.head_dim));
      }
    }
    if (sizes.size() == 1 && sizes.front().second > 0) heads_ = sizes.front();
  }

  // Returns whether the engine accepts the sizes of all parameters. If not,
  // adds a finding about the first that it refuses.
  bool Accepts(Findings& findings) const {
    for (const ReadParam& param : plan_.params) {
      const std::string refused = Refused(param, RoleOf(param));
      if (refused.empty()) continue;
      findings.Add(code::kInexpressible, param.place,
                   Quote(engine_.name) + " refuses this layout: " + refused +
                       ": " + Quote(param.name),
                   "take another number of devices for " + Quote(axis_));
      return false;
    }
    return true;
  }

  // Returns the shard of a parameter. Returns nullopt, after a finding, if the
  // engine never has it.
  std::optional<EngineShard> Of(const ReadParam& param,
                                Findings& findings) const {
    const ParameterRole& role = RoleOf(param);
    const Spec& spec = param.SpecOf(mode_);
    EngineShard out;
    out.split = SplitBy(plan_.mesh, axis_, spec);
    Spec own;
    if (out.split) {
      own.resize(AsIndex(out.split->dim) + 1);
      own.back() = {axis_};
    }
    out.shape = ShardShape(plan_.mesh, own, param.type.shape);
    if (!param.type.shape) return out;
    const Shape& whole = *param.type.shape;
    if (const auto dim = VocabDim(param, role)) {
      const int64_t padded = layout_.PaddedVocab(whole[*dim]);
      out.split = Split{static_cast<int64_t>(*dim)};
      out.shape = whole;
      (*out.shape)[*dim] = padded / tensor_;
      if (padded != whole[*dim]) out.padded = padded;
      return out;
    }
    for (size_t d = 0; d < spec.size(); ++d) {
      for (const std::string& name : spec[d]) {
        const auto part = ParseSubAxis(name);
        if (!part || part->axis != axis_) continue;
        out.split = Split{static_cast<int64_t>(d)};
        out.shape = whole;
        (*out.shape)[d] = whole[d] / part->size;
        out.replicas = tensor_ / part->size;
      }
    }
    return HasWholeHeads(param, role, out, findings) ? std::optional(out)
                                                     : std::nullopt;
  }

 private:
  // `param` must be one of the plan's parameters.
  const ParameterRole& RoleOf(const ReadParam& param) const {
    const auto index = static_cast<size_t>(&param - plan_.params.data());
    return parameters_.Of(index).RoleBy(facts::Evidence::kShapes);
  }

  // Returns the dimension of the vocabulary of an embedding or a head; nullopt
  // for other parameters, and if its orientation is not known.
  static std::optional<size_t> VocabDim(const ReadParam& param,
                                        const ParameterRole& role) {
    if (!IsWeight(role) || !param.type.shape || param.type.shape->size() != 2) {
      return std::nullopt;
    }
    if (role.module_role == Role::kEmbedding) return 0;
    const int dim = role.module_role == Role::kHead ? OutDim(role, 2) : -1;
    return dim < 0 ? std::nullopt : std::optional(static_cast<size_t>(dim));
  }

  // Returns why the engine refuses the sizes of a parameter; empty if it does
  // not.
  std::string Refused(const ReadParam& param, const ParameterRole& role) const {
    ShardedSizes own;
    if (const auto dim = VocabDim(param, role)) {
      own.vocab = (*param.type.shape)[*dim];
    } else if (heads_ && IsWeight(role)) {
      const auto [kv_heads, size] = *heads_;
      const bool output = role.module_role == Role::kOutput &&
                          param.type.shape && param.type.shape->size() == 2;
      const int in = output ? InDim(role, 2) : -1;
      if (in >= 0) {
        const int64_t inputs = (*param.type.shape)[static_cast<size_t>(in)];
        const int64_t heads = inputs / size;
        if (inputs % size == 0 && heads % kv_heads == 0) own.heads = heads;
      }
      if (role.module_role == Role::kKey ||
          role.module_role == Role::kFusedQkv) {
        own.kv_heads = kv_heads;
      }
    }
    const auto refused = LayoutRefusals(layout_, own, tensor_);
    return refused.empty() ? "" : refused.front();
  }

  // Returns whether a shard of keys or values has whole heads.
  bool HasWholeHeads(const ReadParam& param, const ParameterRole& role,
                     const EngineShard& shard, Findings& findings) const {
    if (role.module_role == Role::kFusedQkv && heads_ && IsWeight(role) &&
        shard.split && tensor_ > heads_->first) {
      findings.Add(code::kInexpressible, param.place,
                   Quote(engine_.name) + " replicates the KV heads of " +
                       Quote(param.name) +
                       ", which also has the query heads, and one split "
                       "dimension does not state it",
                   "take at most " + Counted(heads_->first, "device") +
                       " for " + Quote(axis_));
      return false;
    }
    const bool keys =
        role.module_role == Role::kKey || role.module_role == Role::kValue;
    if (!keys || !heads_ || !IsWeight(role) || !shard.split) return true;
    const int64_t rows = (*shard.shape)[AsIndex(shard.split->dim)];
    if (rows % heads_->second == 0) return true;
    findings.Add(code::kInexpressible, param.place,
                 Quote(engine_.name) +
                     " gives each rank whole KV heads, and the plan gives it " +
                     CountText(rows) + " of the " + CountText(heads_->second) +
                     " rows of a head of " + Quote(param.name),
                 "replicate the heads with `--kv-replicate`");
    return false;
  }

  const EngineProfile& engine_;
  const EngineLayout& layout_;
  const ReadPlan& plan_;
  const Mode mode_;
  const std::string axis_;
  const int64_t tensor_;
  const facts::ParameterTable parameters_;
  // The KV heads of every layer, and their size; nullopt if layers differ, or
  // have no such heads.
  std::optional<std::pair<int64_t, int64_t>> heads_;
};

void WriteLayers(std::string_view name, const Request& given, Sink& out,
                 Findings& findings) {
  if (!given.options.json) {
    WriteKeysOf(name, given, out, findings);
    return;
  }
  const EngineProfile& engine = *FindEngine(name);
  // One split dimension does not state the parts of a fused weight.
  Exporter of_layers = *FindExporter(name);
  of_layers.parts_form = PartsForm::kNone;
  if (!StateParts(of_layers, given.plan, given.options.mode, findings)) return;
  ReadPlan of_stage = given.plan.stages ? WithinStage(given.plan) : given.plan;
  const Request request{.plan = of_stage, .options = given.options};
  const Mode mode = request.options.mode;
  const auto axis = TensorAxis(request, findings);
  if (!axis || !NoPlacements(request.plan, name, findings) ||
      !EvenShards(request.plan,
                  {name,
                   "the engine pads a vocabulary itself, and divides other "
                   "dimensions equally",
                   mode, *axis},
                  findings) ||
      !Contiguous(request.plan, name, *axis, mode, findings)) {
    return;
  }
  const EngineShards of_engine(engine, request.plan, mode, *axis);
  if (!of_engine.Accepts(findings)) return;
  std::vector<EngineShard> shards;
  for (const ReadParam& param : request.plan.params) {
    auto shard = of_engine.Of(param, findings);
    if (!shard) return;
    shards.push_back(std::move(*shard));
  }
  const char separator = SeparatorOf(request.plan);
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("tensor_parallel_size", request.plan.mesh.SizeOf(*axis));
  json.Key("params");
  json.BeginObject(JsonLayout::kLines);
  for (size_t i = 0; i < shards.size(); ++i) {
    const ReadParam& param = request.plan.params[i];
    const EngineShard& shard = shards[i];
    json.Key(param.name);
    json.BeginObject();
    json.Members(
        "parallel",
        shard.split ? Kind(param, separator, *shard.split) : "replicated",
        "shard_dim",
        shard.split ? std::optional(shard.split->dim) : std::nullopt);
    json.Member("shard_shape", shard.shape);
    if (shard.padded) json.Member("padded_size", *shard.padded);
    if (shard.replicas > 1) json.Member("replicas", shard.replicas);
    json.EndObject();
  }
  json.EndObject();
  json.EndObject();
  out.Put('\n');
}

void WriteVllm(const Request& request, Sink& out, Findings& findings) {
  WriteLayers("vllm", request, out, findings);
}
void WriteSglang(const Request& request, Sink& out, Findings& findings) {
  WriteLayers("sglang", request, out, findings);
}

}  // namespace

constexpr Exporter kVllm{
    .name = "vllm",
    .what =
        "the flags of vLLM; as JSON its kind of layer, split dimension and "
        "shard per tensor",
    .formats = "text|json",
    .flags = "--mode --axis",
    .write = WriteVllm,
    .lists_ranks = true,
    .kv_form = KvForm::kSubAxes,
    .repeats_keys = true,
    .parts_form = PartsForm::kWrites};
constexpr Exporter kSglang{
    .name = "sglang",
    .what =
        "the flags of SGLang; as JSON its kind of layer, split dimension "
        "and shard per tensor",
    .formats = "text|json",
    .flags = "--mode --axis",
    .write = WriteSglang,
    .lists_ranks = true,
    .kv_form = KvForm::kSubAxes,
    .repeats_keys = true,
    .parts_form = PartsForm::kWrites};

}  // namespace shardc::exports
