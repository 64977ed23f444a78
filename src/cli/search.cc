// `shardc search`: finds the cheapest sharding of a model on a number of
// devices. Prints the sharding with the proof that its step computes the values
// of the dense model. Also prints the Pareto front of time and memory, and why
// each alternative is worse.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/program_plan.h"
#include "cli/progress.h"
#include "cli/search_inputs.h"
#include "cli/search_project.h"
#include "cli/suggested.h"
#include "cli/verify_request.h"
#include "cli/verify_step.h"
#include "cost/memory.h"
#include "cost/setting_rows.h"
#include "emit/costs/cost_report.h"
#include "emit/costs/search_report.h"
#include "emit/emit.h"
#include "emit/plans/input_text.h"
#include "emit/plans/rules_file.h"
#include "emit/report/report.h"
#include "model/option_value.h"
#include "plan/compile.h"
#include "plan/mesh_purposes.h"
#include "plan/planned_stages.h"
#include "plan/stage_units.h"
#include "schedule/schedules.h"
#include "search/search.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/json_writer.h"
#include "source/repository.h"
#include "source/wording.h"
#include "verify/step/staged_step.h"
#include "verify/step/step_report.h"

namespace shardc::cli {
namespace {

// Proves and writes the sharding that a search found. The rules of the sharding
// are first written as text, and read again in the same way as by other
// commands. The proof and the written files therefore use the rules that `cost`
// and `plan` will compile:
//
//   shardc search --devices 64 ... -o out
//     ->  out/mesh.yaml, out/rules.yaml, out/shardc.yaml, a manifest

// Compiles a sharding for its mesh and proves its training step in the same way
// as `verify step`: at reduced sizes of the model and the mesh.
SearchProof ProofOf(const search::Sharding& one, const SearchInputs& inputs);
// Proves the training step of a pipeline, divided into stages, at reduced sizes
// of the model and the mesh.
SearchProof ProofOf(const search::Pipeline& one, const SearchInputs& inputs);

// These functions return the `cost` command that prints the figures of the
// winner of the search, or of a pipeline. If the search wrote a project to
// `folder`, the command reads the project. Without a project, the command
// has the inputs as options. The command is empty if that is not possible,
// because the search changed the rules, built the parameters with a naming that
// the rules do not state, or chose a mesh that needs a mesh file.
std::string CostCommandOf(const search::Sharding& one,
                          const SearchInputs& inputs,
                          const std::string& folder);
std::string CostCommandOf(const search::Pipeline& one,
                          const SearchInputs& inputs,
                          const std::string& folder);

namespace fs = std::filesystem;

template <typename Found>  // Found is a sharding or a pipeline.
bool IsGivenAsIs(const Found& one) {
  return one.base == search::Base::kGiven &&
         one.changes == search::RuleChanges{};
}

// Returns the number of micro-batches for the proof: the largest divisor of the
// given number, `parts`, that is at most kMostMicrobatches.
int64_t ProvedMicrobatches(int64_t parts) {
  int64_t out = std::min(parts, kMostMicrobatches);
  while (parts % out != 0) --out;
  return out;
}

std::string LayersText(const search::Pipeline& one) {
  return Join(one.layers, ",");
}

std::string StagesText(const search::Pipeline& one) {
  return "    stages:\n      axis: " + one.axis +
         "\n      schedule: " + one.schedule +
         "\n      virtual: " + std::to_string(one.virtual_stages) +
         "\n      microbatches: " + std::to_string(one.settings.microbatches) +
         "\n      assign: [" + LayersText(one) + "]\n";
}

std::string PolicyAsFlags(const Policy& policy) {
  std::string out;
  for (const auto& [key, value] : PolicyMembers(policy)) {
    std::string flag(key);
    std::replace(flag.begin(), flag.end(), '_', '-');
    out += " --" + flag + " " + value;
  }
  if (policy.kv_replicate.value_or(false)) out += " --kv-replicate";
  return out;
}

// Returns flags of `cost` for the settings that the search chose, and for given
// settings that differ from the defaults. If the project was written,
// `--memory` is left out, because the project file has the memory.
std::string SettingsAsFlags(const cost::Settings& settings,
                            const SearchInputs& inputs, bool written) {
  const cost::Settings& given = inputs.request.settings;
  std::string out = " --batch " + std::to_string(*settings.batch) + " --seq " +
                    std::to_string(*settings.length) + " --microbatches " +
                    std::to_string(settings.microbatches) + " --zero " +
                    std::to_string(settings.zero) + " --remat '" +
                    settings.remat.text + "' --profile " +
                    ShellWord(inputs.profile);
  if (given.optimizer != cost::Optimizer::kAdamW) {
    const auto optimizer = static_cast<size_t>(given.optimizer);
    out += " --optimizer " + std::string(cost::kOptimizerNames[optimizer]);
  }
  for (const std::string& flag :
       cost::StatedSettings(given, Mode::kTrain, cost::Stated::kChanges)) {
    out += " " + flag;
  }
  const auto memory = OwnMemory(inputs);
  if (memory && !written) out += " --memory " + std::to_string(*memory);
  return out + PolicyAsFlags(inputs.request.options.policy);
}

// Returns whether `cost` can get the names of the parameters from the inputs.
// `cost` reads these names from the manifest. Without a manifest, it builds
// them. The naming is then that of the built-in rules in use, such as `flax` in
// `builtin:llama/flax`, or else `hf`.
bool CanNameTree(const SearchInputs& inputs) {
  if (!inputs.manifest_path.empty() || inputs.naming == "hf") return true;
  const auto& rules = inputs.request.rules;
  return std::any_of(rules.begin(), rules.end(), [&](const std::string& one) {
    return one.starts_with("builtin:") && one.ends_with("/" + inputs.naming);
  });
}

// Returns the flags with which commands read the written project. The rules
// files of a project must be in its repository or, without a repository, in its
// folder. If a given rules file is elsewhere, the flags include
// `--allow-outside`.
std::string ProjectFlags(const SearchInputs& inputs,
                         const std::string& folder) {
  const std::string project =
      (fs::path(folder) / "shardc.yaml").generic_string();
  const Boundary boundary = Boundary::Of(project);
  const auto& rules = inputs.request.rules;
  const bool outside =
      std::any_of(rules.begin(), rules.end(), [&](const std::string& one) {
        return !one.starts_with("builtin:") && !boundary.Holds(one);
      });
  return " --project " + ShellWord(project) +
         (outside ? " --allow-outside" : "");
}

// Returns the flag `--mesh` for a mesh. A mesh with several processes or slices
// cannot be written as sizes, so the flag names the mesh file, and `--devices`
// is added. Returns an empty text if such a mesh has no file.
std::string MeshAsFlags(const Mesh& mesh, const SearchInputs& inputs) {
  if (mesh.processes == 1 && mesh.slices == 1) {
    return " --mesh " + MeshWords(mesh);
  }
  if (inputs.mesh_path.empty()) return "";
  return " --mesh " + ShellWord(inputs.mesh_path) + " --devices " +
         std::to_string(mesh.devices);
}

std::string InputsFlags(const Mesh& mesh, const search::RulesFile& file,
                        const SearchInputs& inputs) {
  std::string out = MeshAsFlags(mesh, inputs);
  for (const std::string& rules : file.extends) {
    out += " --rules " + ShellWord(rules);
  }
  if (!inputs.manifest_path.empty()) {
    out += " --manifest " + ShellWord(inputs.manifest_path);
  }
  if (inputs.header_only) out += " --header-only";
  if (!inputs.model_path.empty()) {
    out += " --model " + ShellWord(inputs.model_path);
  }
  return out;
}

// A function that divides a compiled model into the stages of a pipeline. It
// returns nullopt if that fails.
using Divide = std::function<std::optional<verify::StageSettings>(
    const Compiled&, int64_t microbatches, Findings&)>;

std::optional<verify::StageSettings> StagesOf(const search::Pipeline& one,
                                              const SearchInputs& inputs,
                                              const Compiled& compiled,
                                              int64_t microbatches,
                                              Findings& findings) {
  const auto request =
      DeclaredRequest(search::DeclarationOf(one), compiled.mesh,
                      static_cast<int32_t>(microbatches), findings);
  if (!request) return std::nullopt;
  const auto& model = inputs.request.model;
  const auto planned =
      DivideIntoStages(compiled, model ? &*model : nullptr, *request, findings);
  if (!planned) return std::nullopt;
  return verify::StageSettings{one.axis,
                               StageMesh(compiled.step_mesh, one.axis),
                               compiled.mesh, planned->table, one.layers};
}

// Returns the number of micro-batches for the proof of a pipeline. One
// micro-batch per rank is enough to fill a pipeline, so a larger number is
// reduced. A schedule accepts only some numbers, so the result is the accepted
// number that is nearest to the number of ranks.
int64_t MicrobatchesOf(const search::Pipeline& one) {
  const int64_t given = one.settings.microbatches;
  if (given <= one.Ranks()) return given;
  const schedule::Schedule* const own = schedule::FindSchedule(one.schedule);
  if (own == nullptr) return given;
  const auto nearest = schedule::NearestMicrobatches(
      *own, {static_cast<int32_t>(one.Ranks()), one.virtual_stages,
             static_cast<int32_t>(one.Ranks())});
  return nearest.value_or(given);
}

// Proves the training step with these settings. If `divide` is not empty, the
// step is divided into stages and has `staged_microbatches` micro-batches.
SearchProof Proof(const Mesh& mesh, const search::RulesFile& file,
                  const cost::Settings& settings, const SearchInputs& inputs,
                  int64_t staged_microbatches, const Divide& divide) {
  std::optional<verify::StageSettings> stages;
  return ProveStep(mesh, file, inputs, settings.zero,
                   [&](const Compiled& compiled, verify::StepRequest& step,
                       Findings& findings) {
                     if (settings.batch) step.batch = *settings.batch;
                     step.length = *settings.length;
                     step.remat = settings.remat;
                     step.microbatches =
                         ProvedMicrobatches(settings.microbatches);
                     if (!divide) return true;
                     step.microbatches = staged_microbatches;
                     stages = divide(compiled, step.microbatches, findings);
                     if (stages) step.stages = &*stages;
                     return stages.has_value();
                   });
}

SearchProof ProofOf(const search::Sharding& one, const SearchInputs& inputs) {
  return Proof(one.mesh, one.file, one.report.settings, inputs, 1, {});
}

SearchProof ProofOf(const search::Pipeline& one, const SearchInputs& inputs) {
  const auto divide = [&](const Compiled& compiled, int64_t microbatches,
                          Findings& findings) {
    return StagesOf(one, inputs, compiled, microbatches, findings);
  };
  return Proof(one.mesh, one.file, one.settings, inputs, MicrobatchesOf(one),
               divide);
}

// Writes a project whose target has the mesh and the rules of `one`. Rules
// files that the search did not change are named and not copied. If `one` is a
// pipeline, `pipeline` is that pipeline, and the target has stages; otherwise
// it is null. Returns false with findings if a file already exists or cannot be
// written.
bool WriteSearched(const search::Sharding& one,
                   const search::Pipeline* pipeline, const SearchInputs& inputs,
                   const std::string& folder, const Common& common,
                   Findings& findings) {
  const cost::Settings& settings = one.report.settings;
  const bool given =
      pipeline == nullptr ? IsGivenAsIs(one) : IsGivenAsIs(*pipeline);
  std::string lines = "    modes: [train]\n    batch: " +
                      std::to_string(settings.batch.value_or(1)) + "\n";
  if (const auto memory = OwnMemory(inputs)) {
    lines += "    memory: " + std::to_string(*memory) + "\n";
  }
  if (pipeline != nullptr) lines += StagesText(*pipeline);
  SearchProject project(inputs, folder);
  project.AddTarget(inputs.target.empty() ? "searched" : inputs.target, "",
                    one.mesh, one.file, !given, lines);
  return project.Write(
      "Found by `shardc search`: " + SearchSettingsText(settings) + ".", common,
      findings);
}

std::string CostCommandOf(const search::Sharding& one,
                          const SearchInputs& inputs,
                          const std::string& folder) {
  std::string out = "shardc cost";
  if (!folder.empty()) {
    out += ProjectFlags(inputs, folder);
  } else if (!IsGivenAsIs(one) || !CanNameTree(inputs) ||
             MeshAsFlags(one.mesh, inputs).empty()) {
    return "";
  } else {
    out += InputsFlags(one.mesh, one.file, inputs);
  }
  if (inputs.has_stages) out += " --stages none";
  return out + SettingsAsFlags(one.report.settings, inputs, !folder.empty());
}

std::string CostCommandOf(const search::Pipeline& one,
                          const SearchInputs& inputs,
                          const std::string& folder) {
  std::string out = "shardc cost";
  if (!folder.empty()) {
    out += ProjectFlags(inputs, folder);
  } else if (!IsGivenAsIs(one) || !CanNameTree(inputs)) {
    return "";
  } else {
    out += InputsFlags(one.mesh, one.file, inputs) + " --stages " + one.axis +
           " --schedule " + one.schedule + " --virtual " +
           std::to_string(one.virtual_stages) + " --assign " + LayersText(one);
  }
  return out + " --p2p exposed" +
         SettingsAsFlags(one.settings, inputs, !folder.empty());
}

// Returns a function that shows the progress of the search on a terminal.
std::function<void(const search::Progress&)> SearchProgressLine(
    const Common& common) {
  const verify::Progress line = CountedProgress(common, "shardings");
  if (!line) return {};
  return [line](const search::Progress& now) {
    line(static_cast<size_t>(now.done), static_cast<size_t>(now.all),
         now.best_seconds > 0 ? "best " + SecondsText(now.best_seconds) : "");
  };
}

bool IsSame(const search::Sharding& a, const search::Sharding& b) {
  return a.mesh.axes == b.mesh.axes && a.rules == b.rules &&
         a.schedule == b.schedule &&
         SearchSettingsText(a.report.settings) ==
             SearchSettingsText(b.report.settings);
}

void Prove(const SearchInputs& inputs, SearchReport& report) {
  const search::Found& found = report.found;
  if (inputs.prove == 0 || !found.winner) return;
  report.proof = found.winner->IsPipeline()
                     ? ProofOf(*found.pipelines.fastest, inputs)
                     : ProofOf(*found.winner, inputs);
  // Prove at most `left` further shardings of the Pareto front. Its pipelines
  // are not proved here. If the winner is in the front, its proof is reused.
  int64_t left = inputs.prove - 1;
  for (const search::Sharding& one : found.front) {
    SearchProof& proof = report.proofs.emplace_back();
    if (IsSame(one, *found.winner)) {
      proof = report.proof;
    } else if (!one.IsPipeline() && left > 0) {
      proof = ProofOf(one, inputs);
      --left;
    }
  }
}

bool Failed(const SearchProof& proof) {
  return proof.status == SearchProof::Status::kFail;
}

int RunSearch(const SearchFlags& flags, const Common& common,
              Findings& findings) {
  if (!flags.program.empty()) return SearchProgram(flags, common, findings);
  if (!CheckDonate(flags.donate, flags.program, findings)) return kFailed;
  if (!CheckSearchOptions(flags, common, findings)) return kFailed;
  if (flags.every.all) return RunSearchAll(flags, common, findings);
  const auto inputs = ReadSearchInputs(flags, common, findings);
  if (inputs == nullptr) return kFailed;
  if (inputs->has_rules_stages && !flags.output.empty()) {
    findings.Add(code::kUsage, FlagPlace("--output", flags.output),
                 "the rules declare `stages:`, which the project of a winner "
                 "without stages cannot leave out",
                 "declare the stages in a target of `shardc.yaml`, and not in "
                 "the rules, or leave out `-o`");
    return kFailed;
  }
  const ExitStatus planned = PlanGivenRules(*inputs, findings);
  if (planned != kDone) return planned;
  if (flags.serve.serve) return RunServe(flags, *inputs, common, findings);
  inputs->request.progress = SearchProgressLine(common);
  ShowStage(common, "listing the shardings of " +
                        CountText(inputs->request.devices) + " devices");
  SearchReport report;
  report.target = inputs->target;
  report.devices = inputs->request.devices;
  report.settings = inputs->request.settings;
  report.assumed = inputs->assumed;
  report.found = search::Search(inputs->request);
  ShowStage(common, "proving the winner");
  Prove(*inputs, report);
  // A sharding that fails its proof is not written.
  const bool writes =
      report.found.winner && !Failed(report.proof) && !flags.output.empty();
  const bool staged = report.found.winner && report.found.winner->IsPipeline();
  const search::Pipeline* const pipeline =
      staged ? &*report.found.pipelines.fastest : nullptr;
  if (writes && !WriteSearched(*report.found.winner, pipeline, *inputs,
                               flags.output, common, findings)) {
    return kFailed;
  }
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteSearchJson(report, out);
      return;
    }
    if (common.format == "html") {
      report::WriteSearchPage(report, out);
      return;
    }
    out.Append(SearchReportText(report, flags.details));
    if (inputs->request.manifest.dtype_assumed) {
      out.Append("note: " + std::string(kDtypeAssumed) + "\n");
    }
    if (!report.found.winner) return;
    const std::string command =
        staged ? CostCommandOf(*pipeline, *inputs, flags.output)
               : CostCommandOf(*report.found.winner, *inputs, flags.output);
    out.Append(command.empty()
                   ? "the winner's mesh, rules or parameters are in no file: "
                     "`-o FOLDER` writes them\n"
                   : "the same figures: " + command + "\n");
  };
  if (!PutOut(write, findings)) return kFailed;
  const bool proved =
      !Failed(report.proof) &&
      std::none_of(report.proofs.begin(), report.proofs.end(), Failed);
  // If the winner may not fit in memory, the exit status is 1, as in `search
  // --all` and `cost`.
  const bool fits = report.found.winner && !report.found.may_fit;
  return fits && proved ? kDone : kFound;
}

}  // namespace

Declared DeclareSearch() { return Declare(OptionsOfSearch, RunSearch); }

}  // namespace shardc::cli
