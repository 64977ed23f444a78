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
#include "emit/exports/stage_modules.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "emit/exports/view.h"
#include "roles/layer_units.h"
#include "schedule/assign.h"
#include "source/index.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

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
    has_head_ = HasHead();
    for (const ReadParam& param : request_.plan.params) {
      if (!Add(param)) return std::nullopt;
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
    if (std::find(modules.begin(), modules.end(), module) == modules.end()) {
      modules.push_back(std::move(module));
    }
  }

  bool SplitsOverStages(const Spec& spec) const {
    return std::any_of(spec.begin(), spec.end(), [&](const AxisGroup& axes) {
      return std::find(axes.begin(), axes.end(), request_.pipeline->axis) !=
             axes.end();
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
    return std::any_of(params.begin(), params.end(), [&](const auto& param) {
      return !LayerOf(param.name, separator_) &&
             RoleOfEnd(param.name, separator_).module_role == Role::kHead;
    });
  }

  bool Add(const ReadParam& param) {
    ExportedStage* stage = nullptr;
    if (const auto layer = LayerOf(param.name, separator_)) {
      stage = &*std::find_if(
          stages_.begin(), stages_.end(), [&](const ExportedStage& one) {
            return layer->layer < one.first_layer + one.layers;
          });
    } else {
      const ParameterRole role = RoleOfEnd(param.name, separator_);
      if (IsBeforeLayers(role, param.name)) {
        stage = &stages_.front();
        if (!has_head_ && role.module_role == Role::kEmbedding) {
          AddModule(ModuleOf(param.name), stages_.back());
        }
      } else if (IsAfterLayers(role, param.name)) {
        stage = &stages_.back();
      } else {
        return Refuse(ShortQuote(param.name) +
                          " is of no layer, and it is neither an embedding, a "
                          "norm nor a head",
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
  bool has_head_ = false;
  std::vector<ExportedStage> stages_;
};

}  // namespace

std::optional<std::vector<ExportedStage>> StagesOf(const Request& request,
                                                   std::string_view format,
                                                   Findings& findings) {
  return StageReader(request, format, findings).Read();
}

bool HasSchedule(const Request& request, std::string_view format,
                 const std::vector<std::string_view>& names,
                 Findings& findings) {
  const std::string& name = request.pipeline->table.name;
  if (std::find(names.begin(), names.end(), name) != names.end()) return true;
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

}  // namespace shardc::exports
