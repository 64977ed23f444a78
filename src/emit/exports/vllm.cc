// Exports the attributes that vLLM sets on each weight. A column-parallel layer
// splits the output dimension of its weight, and a row-parallel layer splits
// the input dimension. PyTorch stores a matrix as [out, in]. Flax stores it as
// [in, out] under the name `kernel`. The kind of layer therefore follows from
// the sharded dimension and the name. For example:
//
//   [out, in] and ["tp", null]  ->  column, shard_dim 0
//
// As text, exports the flags of `vllm serve` for the plan.
#include "emit/exports/exporter.h"
#include "emit/exports/system_keys.h"
#include "source/json_writer.h"
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

// Returns whether each rank's part is contiguous, as vLLM's loaders require. If
// not, adds a finding about the first parameter whose parts are not contiguous.
bool Contiguous(const ReadPlan& plan, const std::string& axis, Mode mode,
                Findings& findings) {
  for (const ReadParam& param : plan.params) {
    const auto split = SplitBy(plan.mesh, axis, param.SpecOf(mode));
    if (!split || split->stride == 1) continue;
    findings.Add(
        code::kInexpressible, param.place,
        "`vllm` loads one contiguous shard per rank, and other axes split `" +
            SpecText(param.SpecOf(mode)) + "` of `" + param.name +
            "` before `" + axis + "`",
        "put `" + axis + "` first in the group");
    return false;
  }
  return true;
}

void WriteVllm(const Request& given, Sink& out, Findings& findings) {
  if (!given.options.json) {
    WriteKeysOf("vllm", given, out, findings);
    return;
  }
  ReadPlan of_stage = given.plan.stages ? WithinStage(given.plan) : given.plan;
  constexpr Exporter kJson{
      .name = "vllm",
      .what = {},
      .formats = "json",
      .flags = {},
      .write = nullptr,
      .no_kv_replicas =
          "vLLM replicates KV heads by itself when it loads the "
          "model, and its layers do not state it"};
  if (!StateKvReplicas(kJson, of_stage, findings)) return;
  const Request request{.plan = of_stage, .options = given.options};
  const Mode mode = request.options.mode;
  const auto axis = TensorAxis(request, findings);
  if (!axis || !NoPlacements(request.plan, "vllm", findings) ||
      !EvenShards(request.plan,
                  {"vllm",
                   "vLLM pads a vocabulary to a multiple of 64 itself, and "
                   "divides other dimensions equally",
                   mode, *axis},
                  findings) ||
      !Contiguous(request.plan, *axis, mode, findings)) {
    return;
  }
  const char separator = SeparatorOf(request.plan);
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("tensor_parallel_size", request.plan.mesh.SizeOf(*axis));
  json.Key("params");
  json.BeginObject(JsonLayout::kLines);
  for (const ReadParam& param : request.plan.params) {
    const auto split = SplitBy(request.plan.mesh, *axis, param.SpecOf(mode));
    json.Key(param.name);
    json.BeginObject();
    json.Members("parallel",
                 split ? Kind(param, separator, *split) : "replicated",
                 "shard_dim", split ? std::optional(split->dim) : std::nullopt);
    const auto shard = ShardShape(
        request.plan.mesh,
        split ? [&] {
          Spec own(AsIndex(split->dim) + 1);
          own.back() = {*axis};
          return own;
        }()
              : Spec(),
        param.type.shape);
    json.Member("shard_shape", shard);
    json.EndObject();
  }
  json.EndObject();
  json.EndObject();
  out.Put('\n');
}

}  // namespace

constexpr Exporter kVllm{
    .name = "vllm",
    .what =
        "the flags of vLLM; as JSON its kind of layer and split dimension "
        "per tensor",
    .formats = "text|json",
    .flags = "--mode --axis",
    .write = WriteVllm,
    .lists_ranks = true,
    .kv_form = KvForm::kSubAxes};

}  // namespace shardc::exports
