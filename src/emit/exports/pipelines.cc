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
#include <cstdint>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "emit/exports/exporter.h"
#include "facts/parameters.h"
#include "plan/plan_parameters.h"
#include "roles/layer_stacks.h"
#include "schedule/schedules.h"
#include "schedule/table.h"
#include "source/finding.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

// Finds the modules of each pipeline stage. A layer is one module with all its
// parameters. Outside of layers, the module of a parameter is its name without
// the last part. For example:
//
//   model.layers.5.mlp.up_proj.weight  ->  model.layers.5
//   model.embed_tokens.weight          ->  model.embed_tokens
//
// If the plan was made for the requested stages, it states the stages of each
// parameter. Otherwise the stage of a parameter follows from the layer number
// in its name, or from its role if the parameter is outside of layers.

struct ExportedStage {
  int64_t first_layer = 0, layers = 0;
  // Names of modules, in the order of their first parameter. A layer is one
  // module.
  std::vector<std::string> modules;
};

class StageReader {
 public:
  StageReader(const Request& request, std::string_view format,
              Findings& findings)
      : request_(request), format_(format), findings_(findings) {}

  std::optional<std::vector<ExportedStage>> Read() {
    if (IsPlanned()) {
      AddPlanned();
      return std::move(stages_);
    }
    const auto layers = CountLayers();
    if (!layers || !Divide(*layers)) return std::nullopt;
    parameters_ = ParametersOf(request_.plan, separator_);
    has_head_ = HasHead();
    for (size_t i = 0; i < request_.plan.params.size(); ++i) {
      if (!Add(i)) return std::nullopt;
    }
    return std::move(stages_);
  }

 private:
  bool Refuse(std::string message, std::string help) {
    findings_.Add(code::kInexpressible, request_.plan.mesh_place,
                  "`" + std::string(format_) + "`: " + message,
                  std::move(help));
    return false;
  }

  // Returns whether the requested stages are on the same axis and have the same
  // numbers of layers as the stages of the plan.
  bool IsPlanned() const {
    const auto& planned = request_.plan.stages;
    const PipelineChoice& choice = *request_.pipeline;
    return planned && planned->axis == choice.axis &&
           std::ssize(planned->of) == choice.table.stages &&
           std::equal(planned->of.begin(), planned->of.end(),
                      choice.layers.begin(), choice.layers.end(),
                      [](const PlanStage& stage, int64_t layers) {
                        return stage.layers.count() == layers;
                      });
  }

  void AddPlanned() {
    separator_ = SeparatorOf(request_.plan);
    int64_t first = 0;
    for (const PlanStage& stage : request_.plan.stages->of) {
      stages_.push_back({first, stage.layers.count(), {}});
      first += stage.layers.count();
    }
    for (const ReadParam& param : request_.plan.params) {
      for (const StageShare& share : param.stages.of) {
        AddModule(ModuleOf(param.name), stages_[AsIndex(share.stage)]);
      }
    }
  }

  std::string ModuleOf(const std::string& name) const {
    if (const auto layer = LayerOf(name, separator_)) {
      return std::string(layer->module);
    }
    return name.substr(0, name.rfind(separator_));
  }

  static void AddModule(std::string module, ExportedStage& stage) {
    auto& modules = stage.modules;
    AddOnce(modules, std::move(module));
  }

  bool SplitsOverStages(const Spec& spec) const {
    return std::any_of(spec.begin(), spec.end(), [&](const AxisGroup& axes) {
      return IsAmong(request_.pipeline->axis, axes);
    });
  }

  std::optional<int64_t> CountLayers() {
    separator_ = SeparatorOf(request_.plan);
    std::set<int64_t> layers;
    std::string_view chain;
    for (const ReadParam& param : request_.plan.params) {
      bool splits = SplitsOverStages(param.spec);
      for (const auto& [mode, spec] : param.modes) {
        splits = splits || SplitsOverStages(spec);
      }
      if (splits) {
        Refuse("the spec of " + ShortQuote(param.name) + " splits over `" +
                   request_.pipeline->axis + "`, the axis of the stages",
               "take the axis out of the rules");
        return std::nullopt;
      }
      const auto layer = LayerOf(param.name, separator_);
      if (!layer) continue;
      if (chain.empty()) chain = layer->chain;
      if (layer->chain != chain) {
        Refuse("layers are counted below " + ShortQuote(chain) + " and below " +
                   ShortQuote(layer->chain),
               "stages divide one chain of layers");
        return std::nullopt;
      }
      layers.insert(layer->layer);
    }
    int64_t next = 0;
    for (const int64_t layer : layers) {
      if (layer != next) {
        Refuse("no parameter is of layer " + std::to_string(next) + " of " +
                   CountText(*layers.rbegin() + 1),
               "the names of layers count from 0 without gaps");
        return std::nullopt;
      }
      ++next;
    }
    if (next > 0) return next;
    Refuse("no parameter's name has the number of its layer",
           "a tree that stacks its layers is divided by a spec");
    return std::nullopt;
  }

  bool Divide(int64_t layers) {
    const PipelineChoice& choice = *request_.pipeline;
    std::vector<int64_t> counts = choice.layers;
    if (counts.empty()) {
      const schedule::StageBounds bounds =
          schedule::EvenStages(layers, choice.table.stages);
      for (size_t s = 0; s + 1 < bounds.size(); ++s) {
        counts.push_back(std::min(bounds[s + 1], layers + 1) -
                         std::max<int64_t>(bounds[s], 1));
      }
    }
    const int64_t sum =
        std::accumulate(counts.begin(), counts.end(), int64_t{0});
    if (std::ssize(counts) != choice.table.stages || sum != layers) {
      return Refuse("`--assign` has " + CountText(sum) + " layers in " +
                        Counted(std::ssize(counts), "stage") +
                        ", and the plan has " + CountText(layers) + " for " +
                        Counted(choice.table.stages, "stage"),
                    "give a number of layers for each stage");
    }
    int64_t first = 0;
    for (const int64_t count : counts) {
      stages_.push_back({first, count, {}});
      first += count;
    }
    return true;
  }

  // Returns whether the model has an output head with its own parameters
  // outside of layers. If not, the head uses the embedding's weight.
  bool HasHead() const {
    const auto& params = request_.plan.params;
    for (size_t i = 0; i < params.size(); ++i) {
      if (!LayerOf(params[i].name, separator_) &&
          parameters_.Of(i).role().module_role == Role::kHead) {
        return true;
      }
    }
    return false;
  }

  // `index` is that of the plan's parameter.
  bool Add(size_t index) {
    const ReadParam& param = request_.plan.params[index];
    ExportedStage* stage = nullptr;
    if (const auto layer = LayerOf(param.name, separator_)) {
      stage = &*std::find_if(
          stages_.begin(), stages_.end(), [&](const ExportedStage& one) {
            return layer->layer < one.first_layer + one.layers;
          });
    } else {
      const ParameterRole& role = parameters_.Of(index).role();
      if (IsBeforeLayers(role, param.name)) {
        stage = &stages_.front();
        if (!has_head_ && role.module_role == Role::kEmbedding) {
          AddModule(ModuleOf(param.name), stages_.back());
        }
      } else if (IsAfterLayers(role, param.name)) {
        stage = &stages_.back();
      } else {
        return Refuse(ShortQuote(param.name) +
                          " is of no layer, and nothing shows an embedding, a "
                          "norm or a head",
                      "stages need names that state where a parameter belongs");
      }
    }
    AddModule(ModuleOf(param.name), *stage);
    return true;
  }

  const Request& request_;
  std::string_view format_;
  Findings& findings_;
  char separator_ = '.';
  // What the plan's parameters do.
  facts::ParameterTable parameters_;
  bool has_head_ = false;
  std::vector<ExportedStage> stages_;
};

// Returns the stages in order. The stages of the plan are used if they have the
// requested numbers of layers. Returns nullopt and adds a finding (SHD062) in
// these cases: no parameter name has a layer number; layers are in two lists
// (`encoder.0`, `decoder.0`); a parameter is in no stage; the stages do not
// have exactly the model's layers; a spec shards over the axis of the stages.
std::optional<std::vector<ExportedStage>> StagesOf(const Request& request,
                                                   std::string_view format,
                                                   Findings& findings) {
  return StageReader(request, format, findings).Read();
}

// Returns whether the requested schedule is one of `names`. If not, adds a
// finding (inexpressible).
bool HasSchedule(const Request& request, std::string_view format,
                 const std::vector<std::string_view>& names,
                 Findings& findings) {
  const std::string& name = request.pipeline->table.name;
  if (IsAmong(name, names)) return true;
  std::string known;
  for (const std::string_view one : names) {
    known += (known.empty() ? "`" : " or `") + std::string(one) + "`";
  }
  findings.Add(
      code::kInexpressible, request.plan.mesh_place,
      "`" + std::string(format) + "` has no schedule " + ShortQuote(name),
      "it runs " + known);
  return false;
}

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
    json.Member(std::to_string(s), (*stages)[s].modules);
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
  std::string layers = Join(*stages, ",", [&](const ExportedStage& stage) {
    return std::to_string(stage.layers);
  });
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
