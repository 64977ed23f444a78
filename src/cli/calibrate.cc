// `shardc calibrate`: fits a device profile to measured training steps, and
// writes it as a file for `--profile`.
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
#include "cli/pictured.h"
#include "cost/calibrate.h"
#include "cost/report.h"
#include "cost/setting_rows.h"
#include "emit/costs/cost_report.h"
#include "model/option_value.h"
#include "parse/operations.h"
#include "source/file.h"
#include "source/list.h"
#include "source/other_words.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

constexpr size_t kMostRuns = 1000;

struct CalibrateFlags {
  std::string profile, name, output;
  Strings runs;
};

// Sets the options of `cost` to the values in the file of a measured run. An
// option that the run does not give has no value.
void SetFlags(const MeasuredRun& run, CostFlags& flags, StageFlags& stages,
              Findings& findings) {
  flags.inputs.asked.no_project = true;
  flags.inputs.asked.mesh = run.mesh;
  flags.inputs.asked.rules = run.rules;
  flags.inputs.asked.manifest = run.manifest;
  flags.inputs.asked.model = run.model;
  stages.p2p.clear();
  Options options = OptionsOfCost(flags);
  Append(options, OptionsOf(stages));
  for (const Option& option : options) {
    for (const auto& [name, value] : run.options) {
      if (name != option.name) continue;
      if (auto* const* text = std::get_if<std::string*>(&option.to)) {
        **text = value;
      }
      const auto known = option.Choices();
      if (option.checked && !IsAmong(value, known)) {
        const std::vector<std::string_view> words(known.begin(), known.end());
        RefuseWord(run.places.at(name), name, value, words, findings);
      }
    }
    const bool on = IsAmong(option.name, run.flags);
    if (auto* const* flag = std::get_if<bool*>(&option.to); flag && on) {
      **flag = true;
    }
  }
  // Published pipelines divide their layers evenly.
  if (stages.Given() && stages.assign.empty()) stages.assign = "even";
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
    // A finding without a place is about the whole run.
    const bool whole = source == nullptr;
    if (whole || at != run.places.end()) {
      finding.place = whole ? run.place : at->second;
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
  StageFlags stages;
  Findings own;
  SetFlags(*run, flags, stages, own);
  flags.settings["--profile"] = profile.name;
  flags.inputs.trains = true;
  const auto target = TargetOrPlan(flags.inputs, "", own);
  auto settings =
      target ? CostSettings(flags, *target, Mode::kTrain, own) : std::nullopt;
  StagedTarget staged;
  if (settings) {
    staged = CompileStaged(stages, flags.inputs, *target, common, own);
  }
  cost::MeasuredStep out;
  const auto work = staged.compiled == nullptr
                        ? std::nullopt
                        : CompiledWork(staged, Mode::kTrain, own);
  if (work && staged.declared) {
    StageSizes sizes = {Mode::kTrain, settings->batch, settings->length, {}};
    if (!flags.settings["--microbatches"].empty())
      sizes.microbatches = settings->microbatches;
    out.stages = StagesOf(staged, sizes, own);
  }
  const bool wrong = own.HasErrors() || !work;
  const bool in_run = MoveToRun(*run, own);
  findings.Append(std::move(own));
  if (wrong && in_run) return std::nullopt;
  if (wrong) {
    findings.Add(code::kReference, run->place,
                 "the inputs of this run make no plan, so that its time cannot "
                 "be compared");
    return std::nullopt;
  }
  out.name = run->name;
  out.inputs = *work;
  out.settings = *settings;
  out.compiled = staged.compiled;
  // Real software sends messages while a rank computes nothing.
  out.exposed = stages.p2p.empty() || stages.Exposed();
  std::vector<NotKnown> unknown = out.inputs.not_known;
  bool timed = false;
  if (out.stages == nullptr) {
    cost::Report report =
        CostOf(staged.compiled.get(), staged.model, out.inputs, *settings);
    timed = report.expected.has_value();
    AddNotKnown(report.memory.unknown, unknown);
    AddNotKnown(report.communication.unknown, unknown);
    out.memory = std::move(report.memory);
    out.communication = std::move(report.communication);
  } else {
    Findings staged_findings;
    auto cost = cost::PipelineCostOf(*staged.compiled, out.inputs, *settings,
                                     *out.stages, out.exposed, staged_findings);
    MoveToRun(*run, staged_findings);
    findings.Append(std::move(staged_findings));
    if (!cost) return std::nullopt;
    timed = cost->timed;
    AddNotKnown(cost->Unknown(), unknown);
    for (const cost::StageCost& stage : cost->stages) {
      AddNotKnown(stage.communication.unknown, unknown);
    }
    // The layers stay divided as the base profile divides them while figures
    // are fitted.
    auto divided = std::make_shared<PlannedStages>(*out.stages);
    divided->listed = true;
    for (size_t s = 0; s < cost->stages.size(); ++s) {
      divided->bounds[s] = cost->stages[s].begin;
    }
    out.stages = std::move(divided);
  }
  if (!timed) {
    findings.Add(code::kSchema, run->place,
                 "the step of this run has no expected time" +
                     (unknown.empty() ? std::string()
                                      : ", since this is not known: " +
                                            NotKnownText(unknown.front())),
                 "give `batch`, `seq` and `model`, whose config.json has the "
                 "hidden size");
    return std::nullopt;
  }
  out.seconds = run->step_s ? *run->step_s
                            : cost::Real(*settings->batch) *
                                  cost::Real(*settings->length) /
                                  cost::Real(out.inputs.mesh.devices) /
                                  run->tokens_per_second_per_device.value_or(1);
  return out;
}

int RunCalibrate(const CalibrateFlags& flags, const Common& common,
                 Findings& findings) {
  const auto base = cost::ReadProfile(flags.profile, findings);
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
  Option profile = OptionOfSetting("--profile", &flags.profile);
  profile.value = "NAME";
  profile.help = "accelerator to begin with, such as h100-sxm";
  profile.required = true;
  return {profile,
          {.name = "--run",
           .need = HelpNeed::kOften,
           .to = &flags.runs,
           .value = "FILE",
           .help = "measured run; the inputs of cost and the time of a "
                   "step (YAML, see shardc-run(5))",
           .required = true,
           .several = Several::kWords},
          {.name = "--name",
           .need = HelpNeed::kOften,
           .to = &flags.name,
           .value = "NAME",
           .help = "name of the new profile (default: that of the base with "
                   "`-calibrated`)"},
          OutputOption(&flags.output)};
}

}  // namespace

Declared DeclareCalibrate() { return Declare(OptionsOf, RunCalibrate); }

}  // namespace shardc::cli
