// Exports the stages of a pipeline as settings of other systems. For Llama 3 8B
// in stages of 9, 9, 8 and 6 layers:
//
//   torch-pipeline     the schedule as CSV; as JSON the modules of each stage
//   megatron-pipeline  --pipeline-model-parallel-layout "Et*9|t*9|t*8|t*6L"
//   vllm-pipeline      VLLM_PP_LAYER_PARTITION=9,9,8,6
//
// A fourth format is for MaxText. It requires the same number of layers in each
// stage and keeps the embedding and the head outside of stages.
#include <algorithm>

#include "emit/exports/stage_modules.h"
#include "schedule/csv.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

bool Refuse(const Request& request, std::string message, std::string help,
            Findings& findings) {
  findings.Add(code::kInexpressible, request.plan.mesh_place,
               std::move(message), std::move(help));
  return false;
}

// Returns whether each stage has a single rank, which runs all its
// micro-batches.
bool HasOneRankEach(const schedule::Table& table) {
  for (int32_t stage = 0; stage < table.stages; ++stage) {
    for (int32_t micro = 1; micro < table.microbatches; ++micro) {
      if (table.RankOf(stage, micro) != table.RankOf(stage, 0)) return false;
    }
  }
  return true;
}

void WriteTorch(const Request& request, Sink& out, Findings& findings) {
  const schedule::Table& table = request.pipeline->table;
  if (!HasOneRankEach(table)) {
    Refuse(request,
           "`torch-pipeline`: PyTorch has each stage on one rank, and " +
               ShortQuote(table.name) + " has stages on two",
           "take another schedule, such as `dualpipev`", findings);
    return;
  }
  const auto stages = StagesOf(request, "torch-pipeline", findings);
  if (!stages) return;
  if (!request.options.json) {
    out.Append(schedule::CsvText(table));
    return;
  }
  for (const ReadParam& param : request.plan.params) {
    if (!param.stages.dim) continue;
    Refuse(request,
           "`torch-pipeline`: " + ShortQuote(param.name) +
               " holds layers of several stages, and a module is in one",
           "leave out `--format json` for the schedule, or compile the plan "
           "from a tree that has a module for each layer",
           findings);
    return;
  }
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  for (size_t s = 0; s < stages->size(); ++s) {
    json.Key(std::to_string(s));
    json.BeginArray();
    for (const std::string& module : (*stages)[s].modules) json.String(module);
    json.EndArray();
  }
  json.EndObject();
  out.Put('\n');
}

// Returns the decoder layers of a stage in Megatron's layout: "t*9", "t", or an
// empty text for a stage without layers.
std::string Layers(int64_t count) {
  if (count == 0) return "";
  return count == 1 ? "t" : "t*" + std::to_string(count);
}

// Returns Megatron's layout text, in which bars separate the stages.
// Consecutive equal stages between the first and the last stage are written as
// `(t|)*126`.
std::string LayoutText(const std::vector<ExportedStage>& stages) {
  std::string out = "E";
  for (size_t s = 0; s < stages.size();) {
    const std::string text = Layers(stages[s].layers);
    const bool last = s + 1 == stages.size();
    size_t end = s + 1;
    while (s > 0 && end + 1 < stages.size() &&
           stages[end].layers == stages[s].layers) {
      ++end;
    }
    if (last) return out + text + "L";
    if (end - s > 1) {
      out += "(" + text + "|)*" + std::to_string(end - s);
    } else {
      out += text + "|";
    }
    s = end;
  }
  return out;
}

void WriteMegatronStages(const Request& request, Sink& out,
                         Findings& findings) {
  const schedule::Table& table = request.pipeline->table;
  if (!HasSchedule(request, "megatron-pipeline", {"1f1b", "interleaved"},
                   findings)) {
    return;
  }
  if (table.stages > table.ranks() && table.microbatches % table.ranks() != 0) {
    Refuse(request,
           "`megatron-pipeline`: with several stages on a rank, " +
               Counted(table.ranks(), "rank") + " must divide the " +
               CountText(table.microbatches) + " micro-batches",
           "give a multiple with `--microbatches`", findings);
    return;
  }
  const auto stages = StagesOf(request, "megatron-pipeline", findings);
  if (!stages) return;
  out.Append("--pipeline-model-parallel-size " + std::to_string(table.ranks()) +
             " --pipeline-model-parallel-layout \"" + LayoutText(*stages) +
             "\"\n");
}

bool IsEven(const std::vector<ExportedStage>& stages) {
  return std::all_of(stages.begin(), stages.end(),
                     [&](const ExportedStage& stage) {
                       return stage.layers == stages.front().layers;
                     });
}

void WriteMaxtextStages(const Request& request, Sink& out, Findings& findings) {
  const schedule::Table& table = request.pipeline->table;
  if (!HasSchedule(request, "maxtext-pipeline",
                   {"gpipe", "looped-bfs", "interleaved"}, findings)) {
    return;
  }
  const auto stages = StagesOf(request, "maxtext-pipeline", findings);
  if (!stages) return;
  if (!IsEven(*stages)) {
    Refuse(request,
           "`maxtext-pipeline`: every stage has the same number of layers",
           "give a number of stages that divides the layers, and "
           "`--assign even`",
           findings);
    return;
  }
  if (table.microbatches % table.ranks() != 0) {
    Refuse(request,
           "`maxtext-pipeline`: " + Counted(table.ranks(), "rank") +
               " must divide the " + CountText(table.microbatches) +
               " micro-batches",
           "give a multiple with `--microbatches`", findings);
    return;
  }
  const Mesh& mesh = request.plan.mesh;
  const auto at = mesh.Find(request.pipeline->axis);
  const int64_t across = at && !mesh.dcn.empty() ? mesh.dcn[*at] : 1;
  const auto line = [&](std::string_view key, int64_t value) {
    out.Append(std::string(key) + ": " + std::to_string(value) + "\n");
  };
  if (across > 1) line("dcn_pipeline_parallelism", across);
  line("ici_pipeline_parallelism", table.ranks() / across);
  line("num_layers_per_pipeline_stage", stages->front().layers);
  line("num_pipeline_repeats", table.stages / table.ranks());
  line("num_pipeline_microbatches", table.microbatches);
}

void WriteVllmStages(const Request& request, Sink& out, Findings& findings) {
  const schedule::Table& table = request.pipeline->table;
  if (table.placement != schedule::Placement::kLoop ||
      table.stages != table.ranks()) {
    Refuse(request,
           "`vllm-pipeline`: vLLM has stage n on rank n, and " +
               ShortQuote(table.name) + " places " +
               Counted(table.stages, "stage") + " on " +
               Counted(table.ranks(), "rank") + " otherwise",
           "take `schedule: 1f1b` and `virtual: 1` in `stages:` for vLLM",
           findings);
    return;
  }
  const auto stages = StagesOf(request, "vllm-pipeline", findings);
  if (!stages) return;
  std::string layers;
  for (const ExportedStage& stage : *stages) {
    layers += (layers.empty() ? "" : ",") + std::to_string(stage.layers);
  }
  out.Append("VLLM_PP_LAYER_PARTITION=" + layers +
             "\n--pipeline-parallel-size " + std::to_string(table.ranks()) +
             "\n");
}

constexpr std::string_view kFlags =
    "--stages --assign --virtual --schedule --microbatches";

}  // namespace

constexpr Exporter kTorchPipeline{
    .name = "torch-pipeline",
    .what =
        "the schedule as the CSV of torch.distributed.pipelining; as JSON "
        "the modules of each stage",
    .formats = "text|json",
    .flags = kFlags,
    .write = WriteTorch,
    .kv_form = KvForm::kSubAxes,
    .parts_form = PartsForm::kWrites};
constexpr Exporter kMegatronPipeline{
    .name = "megatron-pipeline",
    .what = "Megatron-LM's flags of the pipeline and its layout",
    .formats = "text",
    .flags = kFlags,
    .write = WriteMegatronStages,
    .kv_form = KvForm::kSubAxes,
    .parts_form = PartsForm::kWrites};
constexpr Exporter kMaxtextPipeline{.name = "maxtext-pipeline",
                                    .what = "MaxText's keys of the pipeline",
                                    .formats = "text",
                                    .flags = kFlags,
                                    .write = WriteMaxtextStages,
                                    .kv_form = KvForm::kSubAxes,
                                    .parts_form = PartsForm::kWrites};
constexpr Exporter kVllmPipeline{
    .name = "vllm-pipeline",
    .what = "vLLM's division of layers over pipeline ranks",
    .formats = "text",
    .flags = "--stages --assign",
    .write = WriteVllmStages,
    .kv_form = KvForm::kSubAxes,
    .parts_form = PartsForm::kWrites};

}  // namespace shardc::exports
