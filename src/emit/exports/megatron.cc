// Exports two attributes that Megatron-Core sets on each weight. partition_dim
// is the dimension that tensor parallelism shards. The stride is the number of
// separate pieces of this dimension that a tensor parallel rank holds. It is
// above 1 if the spec names another axis before the tensor parallel axis in
// that dimension, or if the dimension has several parts. For example:
//
//   fsdp:2, tp:4 and [["fsdp", "tp"]]  ->  partition_dim 0, stride 2
//   tp:4 and ["tp"] in parts [2]       ->  partition_dim 0, stride 2
//
// As text, exports the flags of Megatron-LM for the plan.
#include "emit/exports/exporter.h"
#include "emit/exports/system_keys.h"
#include "source/json_writer.h"
#include "source/size.h"

namespace shardc::exports {
namespace {

void WriteMegatron(const Request& given, Sink& out, Findings& findings) {
  if (!given.options.json) {
    WriteKeysOf("megatron", given, out, findings);
    return;
  }
  ReadPlan of_stage = given.plan.stages ? WithinStage(given.plan) : given.plan;
  constexpr Exporter kJson{.name = "megatron",
                           .what = {},
                           .formats = "json",
                           .flags = "--mode",
                           .write = nullptr,
                           .parts_form = PartsForm::kWritesEqual};
  if (!StateKvReplicas(kJson, of_stage, findings) ||
      !StateParts(kJson, of_stage, given.options.mode, findings)) {
    return;
  }
  const Request request{.plan = of_stage, .options = given.options};
  const auto axis = TensorAxis(request, findings);
  if (!axis || !NoPlacements(request.plan, "megatron", findings) ||
      !EvenShards(request.plan,
                  {"megatron", "Megatron-Core divides a dimension equally",
                   request.options.mode, *axis},
                  findings)) {
    return;
  }
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("tensor_model_parallel_size", request.plan.mesh.SizeOf(*axis));
  json.Key("params");
  json.BeginObject(JsonLayout::kLines);
  for (const ReadParam& param : request.plan.params) {
    const auto split =
        SplitBy(request.plan.mesh, *axis, param.SpecOf(request.options.mode));
    json.Member(
        param.name,
        Record("tensor_model_parallel", split.has_value(), "partition_dim",
               split ? split->dim : -1, "partition_stride",
               split ? split->stride *
                           PartsAt(param.parts, AsIndex(split->dim)).count
                     : 1));
  }
  json.EndObject();
  json.EndObject();
  out.Put('\n');
}

}  // namespace

constexpr Exporter kMegatron{
    .name = "megatron",
    .what =
        "the flags of Megatron-LM; as JSON Megatron-Core's partition "
        "dimension and stride per tensor",
    .formats = "text|json",
    .flags = "--mode --axis",
    .write = WriteMegatron,
    .lists_ranks = true,
    .kv_form = KvForm::kSubAxes,
    .parts_form = PartsForm::kWrites};

}  // namespace shardc::exports
