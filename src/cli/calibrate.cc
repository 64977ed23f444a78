// `shardc calibrate`: fits a device profile to measured training steps, and
// writes it as a file for `--profile`.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cli/commands.h"
#include "cli/compared_program.h"
#include "cli/cost_flags.h"
#include "cli/output.h"
#include "cli/plan_findings.h"
#include "cost/calibrate.h"
#include "cost/report.h"
#include "emit/costs/cost_report.h"
#include "parse/operations.h"
#include "source/file.h"

namespace shardc::cli {
namespace {

constexpr size_t kMostRuns = 1000;

struct CalibrateFlags {
  std::string profile, name, output;
  Strings runs;
};

// Sets the options of `cost` to the values in the file of a measured run.
void SetFlags(const MeasuredRun& run, CostFlags& flags) {
  flags.inputs.asked.no_project = true;
  flags.inputs.asked.mesh = run.mesh;
  flags.inputs.asked.rules = run.rules;
  flags.inputs.asked.manifest = run.manifest;
  flags.inputs.asked.model = run.model;
  for (const Option& option : OptionsOfCost(flags)) {
    for (const auto& [name, value] : run.options) {
      if (name != option.name) continue;
      if (auto* const* text = std::get_if<std::string*>(&option.to)) {
        **text = value;
      }
    }
    const bool on = std::find(run.flags.begin(), run.flags.end(),
                              option.name) != run.flags.end();
    if (auto* const* flag = std::get_if<bool*>(&option.to); flag && on) {
      **flag = true;
    }
  }
}

// Returns the name of the first input that the run lacks. Returns an empty text
// if the run has all inputs.
std::string_view MissingInput(const MeasuredRun& run) {
  if (run.mesh.empty()) return "mesh";
  if (run.rules.empty()) return "rules";
  return run.manifest.empty() && run.model.empty() ? "manifest" : "";
}

// The file of a measured run gives the values of options of `cost`. A finding
// about such a value is placed at the option. This function changes the place
// to the value's place in the file. Returns whether one of these findings is an
// error.
bool MoveToRun(const MeasuredRun& run, Findings& findings) {
  Findings moved;
  moved.NoteReadsOf(findings);
  bool any = false;
  for (Finding finding : findings.all()) {
    const SourceRef& source = finding.place.source;
    const auto at =
        source == nullptr ? run.places.end() : run.places.find(source->name());
    if (at != run.places.end()) {
      finding.place = at->second;
      any = any || finding.level == Level::kError;
    }
    moved.Add(std::move(finding));
  }
  findings = std::move(moved);
  return any;
}

// Reads a measured run and the inputs that it names. Returns nullopt after
// findings. If the inputs do not compile to a plan, one of the findings is
// placed at the run's file.
std::optional<cost::MeasuredStep> ReadStep(const std::string& path,
                                           const DeviceProfile& profile,
                                           const Common& common,
                                           Findings& findings) {
  SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return std::nullopt;
  const auto run = ParseMeasuredRun(std::move(source), findings);
  if (!run) return std::nullopt;
  if (const auto missing = MissingInput(*run); !missing.empty()) {
    findings.Add(code::kSchema, run->place,
                 "the run has no `" + std::string(missing) + "`",
                 "write the inputs of `shardc cost` as keys: `mesh`, `rules`, "
                 "and `manifest` or `model`");
    return std::nullopt;
  }
  CostFlags flags;
  SetFlags(*run, flags);
  Findings own;
  const auto target = TargetOrPlan(flags.inputs, "", own);
  auto settings =
      target ? CostSettings(flags, *target, Mode::kTrain, own) : std::nullopt;
  std::optional<ModelConfig> model;
  const auto compiled =
      settings ? LoadAndCompile(flags.inputs, *target, common, own, &model)
               : nullptr;
  if (compiled != nullptr) own.Append(PlanFindings(*compiled));
  const bool wrong = own.HasErrors() || compiled == nullptr;
  const bool in_run = MoveToRun(*run, own);
  findings.Append(std::move(own));
  if (wrong && in_run) return std::nullopt;
  if (wrong) {
    findings.Add(code::kReference, run->place,
                 "the inputs of this run make no plan, so that its time cannot "
                 "be compared");
    return std::nullopt;
  }
  settings->profile = &profile;
  cost::MeasuredStep out;
  out.name = run->name;
  out.inputs = cost::MakeCostInputs(*compiled, model, Mode::kTrain);
  out.settings = *settings;
  cost::Report report = CostOf(compiled.get(), model, out.inputs, *settings);
  if (!report.expected) {
    findings.Add(code::kSchema, run->place,
                 "the step of this run has no expected time",
                 "give `batch`, `seq` and `model`, whose config.json has the "
                 "hidden size");
    return std::nullopt;
  }
  out.memory = std::move(report.memory);
  out.communication = std::move(report.communication);
  out.seconds = run->step_s ? *run->step_s
                            : cost::Real(*settings->batch) *
                                  cost::Real(*settings->length) /
                                  cost::Real(out.inputs.mesh.devices) /
                                  run->tokens_per_second_per_device.value_or(1);
  return out;
}

int RunCalibrate(const CalibrateFlags& flags, const Common& common,
                 Findings& findings) {
  const auto base = ReadProfile(flags.profile, findings);
  if (base == nullptr) return kFailed;
  if (FindDeviceProfile(base->name) == nullptr) {
    findings.Add(code::kUsage, FlagPlace("--profile", flags.profile),
                 "the base of a calibrated profile is an accelerator with a "
                 "name, not a file",
                 "`shardc cost --profiles` lists them");
    return kFailed;
  }
  if (flags.runs.size() > kMostRuns) {
    findings.Add(code::kLimit, FlagPlace("--run", flags.runs.back()),
                 "more than 1,000 runs are given");
    return kFailed;
  }
  std::vector<cost::MeasuredStep> steps;
  for (const std::string& path : flags.runs) {
    auto step = ReadStep(path, *base, common, findings);
    if (step) steps.push_back(std::move(*step));
  }
  if (steps.size() < flags.runs.size()) return kFailed;
  std::string why;
  const auto calibration = cost::Calibrate(*base, steps, why);
  if (!calibration) {
    findings.Add(code::kInexpressible, {}, why);
    return kFailed;
  }
  const std::string name =
      flags.name.empty() ? std::string(base->name) + "-calibrated" : flags.name;
  const bool json = common.format == "json";
  if ((!json || !flags.output.empty()) &&
      !PutResult(CalibratedProfileText(*base, name, *calibration), flags.output,
                 findings)) {
    return kFailed;
  }
  if (!json) {
    PrintMessage(common, CalibrationText(*base, *calibration));
    return kDone;
  }
  const auto write = [&](Sink& out) {
    WriteCalibrationJson(*base, name, *calibration, out);
  };
  return PutOut(write, findings) ? kDone : kFailed;
}

Options OptionsOf(CalibrateFlags& flags) {
  Option profile = ProfileOption(&flags.profile);
  profile.value = "NAME";
  profile.help = "accelerator to begin with, such as h100-sxm";
  profile.required = true;
  return {profile,
          {.name = "--run",
           .to = &flags.runs,
           .value = "FILE",
           .help = "measured run: the inputs of cost and the time of a step "
                   "(YAML, see shardc-run(5))",
           .required = true,
           .several = Several::kWords},
          {.name = "--name",
           .to = &flags.name,
           .value = "NAME",
           .help = "name of the new profile (default: that of the base with "
                   "`-calibrated`)"},
          OutputOption(&flags.output)};
}

}  // namespace

Declared DeclareCalibrate() { return Declare(OptionsOf, RunCalibrate); }

}  // namespace shardc::cli
