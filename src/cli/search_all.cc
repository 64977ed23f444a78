// `shardc search --all`: lists, for each axis, the sizes that are legal for a
// model under its rules. With --devices, also lists the meshes that fit, the
// fastest first. Nothing else than the mesh is searched.
#include <memory>
#include <string>
#include <utility>

#include "cli/cost_flags.h"
#include "cli/output.h"
#include "cli/plan_findings.h"
#include "cli/progress.h"
#include "cli/search_inputs.h"
#include "cost/fit.h"
#include "emit/costs/cost_report.h"
#include "model/option_value.h"
#include "parse/mesh.h"
#include "source/list.h"
#include "source/process.h"
#include "source/wording.h"
#include "target/open.h"

namespace shardc::cli {
namespace {

// The largest number of meshes that are compiled. It is an error if a number of
// devices has more candidate meshes than this.
constexpr size_t kMostMeshes = 2000;
constexpr int64_t kLargestAlone = 64;

// Returns the sizes that are tried for a mesh of one axis. If a number of
// devices is given, these are its divisors, otherwise 2^n and 3 * 2^n up to
// kLargestAlone.
std::vector<int64_t> SizesAlone(std::optional<int64_t> devices) {
  std::vector<int64_t> out;
  for (int64_t size = 2; size <= devices.value_or(kLargestAlone); ++size) {
    const bool power = (size & (size - 1)) == 0;
    const bool three = size % 3 == 0 && (size / 3 & (size / 3 - 1)) == 0;
    if (devices ? *devices % size == 0 : power || three) out.push_back(size);
  }
  return out;
}

// Returns the pipeline of the declared stages, by default with `usual`
// micro-batches.
cost::StagesOfMeshes PipelineOfMeshes(const StageDeclaration& declared,
                                      bool exposed,
                                      std::optional<int64_t> usual) {
  cost::StagesOfMeshes out;
  out.axis = declared.axis;
  out.exposed = exposed;
  out.request = [declared, usual](const Mesh& mesh,
                                  std::optional<int64_t> microbatches,
                                  Findings& findings) {
    return StageRequestOn(declared, mesh, microbatches ? microbatches : usual,
                          findings);
  };
  return out;
}

// Reads all inputs except the meshes. Returns nullopt if one of them cannot be
// read.
std::optional<cost::FitInputs> ReadInputs(const SearchFlags& flags,
                                          const Target& target, Mode mode,
                                          const Common& common,
                                          Findings& findings) {
  Target without = target;
  InputFlags given = flags.cost.inputs;
  given.devices.clear();
  given.trains = mode == Mode::kTrain;
  const bool has_mesh = IsNamed(target.mesh);
  // No other input depends on the mesh, so the inputs are read with a mesh of
  // one device.
  if (!has_mesh) without.mesh.text = "dp:1";
  auto opened = LoadTarget(given, without, common, findings);
  const auto settings = CostSettings(flags.cost, target, mode, findings);
  if (!opened || !settings) return std::nullopt;
  cost::FitInputs out;
  const StageFlags& stages = flags.every.stages;
  auto& declared = opened->stages;
  if (!OverrideStages(stages, declared, findings)) return std::nullopt;
  if (declared) {
    StageSizes sizes = {mode, settings->batch, settings->length, {}};
    if (GivesMicrobatches(flags.cost, target, mode)) {
      sizes.microbatches = settings->microbatches;
    }
    if (!CheckStageSizes(declared->axis_place, sizes, findings)) {
      return std::nullopt;
    }
    out.stages =
        PipelineOfMeshes(*declared, stages.Exposed(), sizes.microbatches);
  }
  out.rules = std::move(opened->rules);
  out.manifest = std::move(opened->manifest);
  out.options = opened->options;
  out.options.modes = {mode};
  out.model = std::move(opened->model);
  if (has_mesh) out.like = std::move(opened->mesh);
  out.mode = mode;
  out.settings = *settings;
  return out;
}

// Returns those of `axes` that every mesh must have, because a spec in the
// rules may name them. The stage axis and the parallelism axes (dp, fsdp, ...)
// are left out. A mesh may lack them: a missing one is treated as an axis of
// size 1.
std::vector<std::string> NamedAxes(const cost::FitInputs& inputs,
                                   std::vector<std::string> axes) {
  const auto usual = cost::UsualAxes(inputs.rules, true, true);
  std::erase_if(axes, [&](const std::string& axis) {
    return (inputs.stages && inputs.stages->axis == axis) ||
           IsAmong(axis, usual);
  });
  return axes;
}

// Returns a mesh in which `axis` has the given size, and all other axes of
// `named` have size 1.
Mesh Alone(const std::string& axis, int64_t size,
           const std::vector<std::string>& named) {
  Mesh out;
  out.axes.push_back({axis, size, AxisType::kAuto});
  for (const std::string& other : named) {
    if (other != axis) out.axes.push_back({other, 1, AxisType::kAuto});
  }
  out.devices = size;
  return out;
}

// Compiles the rules for one device. If this fails, no mesh is legal. Adds the
// findings. Returns kDone if the rules compile to a plan, kFailed if they do
// not compile, and kFound if the plan has unmatched or illegal parameters.
ExitStatus PlanOnOne(const cost::FitInputs& inputs, const std::string& axis,
                     const std::vector<std::string>& named,
                     Findings& findings) {
  const auto compiled = Compile(Alone(axis, 1, named), inputs.rules,
                                inputs.manifest, inputs.options, findings);
  if (compiled == nullptr) return kFailed;
  findings.Append(PlanFindings(*compiled));
  return findings.HasErrors() ? kFound : kDone;
}

// If no mesh is legal, adds the errors of the first mesh on which the model
// cannot be divided into the pipeline stages.
void ReportRefusal(const std::vector<cost::FitMesh>& meshes,
                   Findings& findings) {
  const cost::FitMesh* refused = nullptr;
  for (const cost::FitMesh& one : meshes) {
    if (one.legal) return;
    if (refused == nullptr && !one.refused.empty()) refused = &one;
  }
  if (refused == nullptr) return;
  for (const Finding& finding : refused->refused) findings.Add(finding);
}

int Fit(const SearchFlags& flags, const cost::FitInputs& inputs,
        std::optional<int64_t> devices, int64_t limit, const Target& target,
        const Common& common, Findings& findings) {
  std::vector<std::string> axes = SplitList(flags.every.axes);
  const size_t before = findings.errors();
  // Each name is parsed as an axis of `--mesh`, so that `--axes` and `--mesh`
  // accept the same names.
  for (const std::string& axis : axes) {
    ParseMeshString(MakeSource("--axes", axis + ":1"), {}, findings);
  }
  if (findings.errors() > before) return kFailed;
  if (axes.empty()) {
    axes = cost::UsualAxes(inputs.rules, inputs.model && inputs.model->experts,
                           false);
    if (inputs.stages) {
      std::erase(axes, inputs.stages->axis);
      axes.insert(axes.begin(), inputs.stages->axis);
    }
  } else if (inputs.stages && !IsAmong(inputs.stages->axis, axes)) {
    findings.Add(code::kUsage, FlagPlace("--axes", flags.every.axes.front()),
                 "the model is divided into stages over `" +
                     inputs.stages->axis + "`, which `--axes` leaves out",
                 "add `" + inputs.stages->axis +
                     "` to `--axes`, or pass `--stages none`");
    return kFailed;
  }
  if (axes.empty()) return findings.HasErrors() ? kFound : kFailed;
  const auto named = NamedAxes(inputs, axes);
  const ExitStatus planned = PlanOnOne(inputs, axes.front(), named, findings);
  if (planned != kDone) return planned;
  const auto evaluator = cost::MeshEvaluator::Make(inputs, axes, findings);
  if (evaluator == nullptr) return kFailed;
  cost::FitReport report;
  report.target = target.name;
  report.mode = inputs.mode;
  report.settings = inputs.settings;
  report.usual_microbatches =
      inputs.stages && !GivesMicrobatches(flags.cost, target, inputs.mode);
  std::vector<Mesh> alone;
  std::vector<std::string> alone_axes;
  for (const std::string& axis : axes) {
    for (const int64_t size : SizesAlone(devices)) {
      alone.push_back(Alone(axis, size, named));
      alone_axes.push_back(axis);
    }
  }
  const int threads = ThreadsOr(common.threads);
  auto sizes = evaluator->OnEach(alone, threads, findings);
  if (!sizes) return kFailed;
  for (size_t i = 0; i < alone.size(); ++i) {
    std::erase_if((*sizes)[i].mesh.axes, [&](const MeshAxis& axis) {
      return axis.name != alone_axes[i];
    });
    report.sizes.push_back({alone_axes[i], std::move((*sizes)[i])});
  }
  if (devices) {
    const auto meshes = cost::MeshesOf(*devices, axes, kMostMeshes);
    if (!meshes) {
      findings.Add(
          code::kUsage, {},
          "there are more than " +
              CountText(static_cast<int64_t>(kMostMeshes)) + " meshes of " +
              CountText(*devices) + " devices over " +
              Counted(static_cast<int64_t>(axes.size()), "axis", "axes"),
          "give fewer axes with --axes");
      return kFailed;
    }
    ShowStage(common,
              "evaluating " + Counted(static_cast<int64_t>(meshes->size()),
                                      "mesh", "meshes"));
    auto fits = evaluator->OnEach(*meshes, threads, findings);
    if (!fits) return kFailed;
    report.meshes = std::move(*fits);
    cost::SortByCost(report.meshes);
    report.unknown = report.meshes.front().memory.unknown;
    ReportRefusal(report.meshes, findings);
    // What a change of the settings gives is not known either.
    if (!report.meshes.front().Fits() &&
        !report.meshes.front().memory.at_least) {
      report.change = cost::ChangeThatFits(report.meshes, inputs.settings,
                                           inputs.mode, *evaluator, findings);
    }
  }
  if (inputs.manifest.dtype_assumed) {
    report.unknown.push_back({.what = std::string(kDtypeAssumed)});
  }
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteFitJson(report, out);
    } else {
      out.Append(FitReportText(report, limit, flags.details));
    }
  };
  if (!PutResult(write, flags.output, findings)) return kFailed;
  return report.meshes.empty() || report.meshes.front().Fits() ? kDone : kFound;
}

}  // namespace

int RunSearchAll(const SearchFlags& flags, const Common& common,
                 Findings& findings) {
  const auto mode = ParseModeFlag(flags.cost.mode, findings);
  const auto target = ChooseTarget(flags.cost.inputs.asked, findings);
  std::optional<int64_t> devices;
  int64_t limit = 10;
  if (!flags.cost.inputs.devices.empty()) {
    devices = DeviceCount(flags.cost.inputs.devices, findings);
    if (!devices) return kFailed;
  }
  if (!flags.every.limit.empty()) {
    limit = ParseInteger("--limit", flags.every.limit, 1, findings).value_or(0);
  }
  if (!mode || !target || limit == 0) return kFailed;
  const auto inputs = ReadInputs(flags, *target, *mode, common, findings);
  if (!inputs) return kFailed;
  return Fit(flags, *inputs, devices, limit, *target, common, findings);
}

}  // namespace shardc::cli
