// Exports the keys with which a system divides a model as a plan does:
//
//   pp:2, tp:4  ->  torchrun pretrain_gpt.py --tensor-model-parallel-size 4
//                     --pipeline-model-parallel-size 2 --sequence-parallel
#include "emit/exports/system_keys.h"

#include "emit/exports/exporter.h"
#include "plan/axis_facts.h"
#include "systems/system.h"

namespace shardc::exports {

systems::PlanFacts FactsOfPlan(const ReadPlan& plan, Mode mode,
                               const std::optional<ModelConfig>& model) {
  systems::PlanFacts out;
  out.mesh = plan.mesh;
  out.axes = AxisFactsOf(plan);
  out.model = model;
  if (plan.stages) {
    out.stage_axis = plan.stages->axis;
    out.virtual_stages = plan.stages->virtual_stages;
    out.folded = plan.stages->placement == "v";
    out.microbatches = plan.stages->microbatches;
    for (const PlanStage& stage : plan.stages->of) {
      out.layers.push_back(stage.layers.count());
    }
  }
  for (const ReadParam& param : plan.params) {
    systems::PlanFacts::Param& one = out.params.emplace_back();
    one.name = param.name;
    one.shape = param.type.shape.value_or(Shape());
    one.spec = param.SpecOf(mode);
    one.local =
        ShardShape(plan.mesh, one.spec, param.type.shape).value_or(one.shape);
  }
  return out;
}

void WriteKeysOf(std::string_view name, const Request& request, Sink& out,
                 Findings& findings) {
  const systems::System* const system = systems::FindSystem(name);
  if (system == nullptr || !NoPlacements(request.plan, name, findings)) return;
  if (!request.options.axis.empty()) {
    findings.Add(
        code::kUsage, {},
        "`--axis` is for the layers of `" + std::string(name) + "` as JSON",
        "add `--format json`, or leave out `--axis`");
    return;
  }
  const auto facts =
      FactsOfPlan(request.plan, request.options.mode, std::nullopt);
  const auto keys = systems::KeysOfPlan(*system, facts, findings);
  if (keys) out.Append(systems::ConfigOfKeys(*system, *keys));
}

namespace {

void WriteTorchtitan(const Request& request, Sink& out, Findings& findings) {
  WriteKeysOf("torchtitan", request, out, findings);
}
void WriteDeepspeed(const Request& request, Sink& out, Findings& findings) {
  WriteKeysOf("deepspeed", request, out, findings);
}
void WriteAccelerate(const Request& request, Sink& out, Findings& findings) {
  WriteKeysOf("accelerate", request, out, findings);
}

}  // namespace

constexpr Exporter kAccelerate{.name = "accelerate",
                               .what = "the sizes of Accelerate, as JSON",
                               .formats = "text",
                               .flags = "--mode",
                               .write = WriteAccelerate,
                               .lists_ranks = true,
                               .kv_form = KvForm::kSubAxes,
                               .parts_form = PartsForm::kWrites};
constexpr Exporter kTorchtitan{.name = "torchtitan",
                               .what = "the degrees of torchtitan, as TOML",
                               .formats = "text",
                               .flags = "--mode",
                               .write = WriteTorchtitan,
                               .lists_ranks = true,
                               .kv_form = KvForm::kSubAxes,
                               .parts_form = PartsForm::kWrites};
constexpr Exporter kDeepspeed{.name = "deepspeed",
                              .what =
                                  "DeepSpeed's ZeRO stage and AutoTP, as "
                                  "JSON",
                              .formats = "text",
                              .flags = "--mode",
                              .write = WriteDeepspeed,
                              .lists_ranks = true,
                              .kv_form = KvForm::kSubAxes,
                              .parts_form = PartsForm::kWrites};

}  // namespace shardc::exports
