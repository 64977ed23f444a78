// `shardc export FORMAT`: writes a plan in the format of another system. The
// plan is read from a file or compiled from inputs. A compiled plan is first
// written as JSON in memory and read back, so that the output is the same as
// for its plan file:
//
//   --mesh, --rules, --manifest  ->  the plan as JSON  ->  the text in FORMAT
#include <algorithm>
#include <map>

#include "cli/commands.h"
#include "cli/compared_program.h"
#include "cli/cost_flags.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/plan_findings.h"
#include "cli/planned.h"
#include "cli/program_plan.h"
#include "cli/suggested.h"
#include "cli/verify_request.h"
#include "cli/verify_step.h"
#include "emit/emit.h"
#include "emit/exports/exporter.h"
#include "emit/step_programs/translate.h"
#include "importers/rules/exact.h"
#include "model/option_value.h"
#include "plan/lowered_step.h"
#include "plan/planned_stages.h"
#include "program/facts.h"
#include "program/fixed_sizes.h"
#include "program/sharding.h"
#include "source/file.h"
#include "source/json.h"
#include "source/other_words.h"
#include "source/size.h"
#include "source/wording.h"
#include "step/build.h"
#include "step/graph_writer.h"

namespace shardc::cli {
namespace {

struct ExportFlags {
  InputFlags inputs;
  std::string format, plan, output, mode, names, state;
  exports::Options options;
  std::string stages, assign, virtual_stages, schedule, microbatches;
  std::string program;
  std::string batch, length;
  bool allow_edited = false;
};

Options OptionsOf(ExportFlags& flags);

const exports::Exporter* FindExporter(const std::string& format,
                                      Findings& findings) {
  if (const auto* exporter = exports::FindExporter(format)) return exporter;
  std::vector<std::string_view> names;
  std::string known;
  for (const exports::Exporter* exporter : exports::Exporters()) {
    names.push_back(exporter->name);
    known += (known.empty() ? "`" : ", `") + std::string(exporter->name) + "`";
  }
  std::string help = HelpForOtherWord("export", format);
  if (help.empty() && IsThere(format, nullptr)) {
    help = "write the format before the file: `shardc export jax " +
           Printable(format) + "`";
  }
  if (help.empty())
    help = DidYouMean(format, names, "the formats are " + known);
  findings.Add(code::kUsage, {},
               "there is no export to `" + Printable(format) + "`",
               std::move(help));
  return nullptr;
}

// Returns false, after a finding, if the format does not accept one of the
// given options. This includes `--format json` for a format that has no JSON
// form.
bool Applies(const exports::Exporter& exporter, const ExportFlags& flags,
             const Common& common, Findings& findings) {
  const exports::Options& options = flags.options;
  const std::pair<std::string_view, bool> given[] = {
      {"--mode", !flags.mode.empty()},
      {"--form", !options.form.empty()},
      {"--axis", !options.axis.empty()},
      {"--transformers", !options.version.empty()},
      {"--program", !flags.program.empty()},
      {"--names", !flags.names.empty()},
      {"--state", !flags.state.empty()},
      {"--stages", !flags.stages.empty()},
      {"--assign", !flags.assign.empty()},
      {"--virtual", !flags.virtual_stages.empty()},
      {"--schedule", !flags.schedule.empty()},
      {"--microbatches", !flags.microbatches.empty()},
      {"--open", options.open},
      {"--replicated", options.replicated},
      {"--priorities", !options.priorities.empty()},
      {"--no-strided", options.no_strided},
      {"--batch", !flags.batch.empty()},
      {"--seq", !flags.length.empty()}};
  if (!TakesFlags(exporter.name, exporter.flags, given, findings)) {
    return false;
  }
  if (common.format == "json" &&
      exporter.formats.find("json") == std::string_view::npos) {
    findings.Add(code::kUsage, {},
                 "`" + std::string(exporter.name) + "` has no JSON form");
    return false;
  }
  return true;
}

// Returns false, after a finding, for `--stages none`. In other commands, this
// value means that the stages that files declare are ignored. Here it is an
// error: formats with the option `--stages` write only stages, so the output
// would be empty.
bool HasStages(const ExportFlags& flags, Findings& findings) {
  if (flags.stages != "none") return true;
  findings.Add(code::kUsage, FlagPlace("--stages", flags.stages),
               "`" + flags.format +
                   "` writes how layers are divided into stages, and "
                   "`--stages none` divides them into none",
               "give the axis of the stages, or leave the option out if the "
               "rules or the target declare `stages:`");
  return false;
}

// Data that a plan file does not contain. They are known only if the plan is
// compiled from inputs.
struct OfInputs {
  std::optional<RuleSet> rules;
  std::string model_type;  // empty without a configuration
  // The stages that the rules or the target declare.
  std::optional<exports::PipelineChoice> stages;
  // What the program of `--program` shows.
  std::optional<exports::ProgramNotes> program;
};

// If the rules or the target declare stages, divides the layers into these
// stages. Flags override single keys of the declaration. Returns false after a
// finding.
bool DivideDeclared(const ExportFlags& flags, const StagedTarget& target,
                    OfInputs& out, Findings& findings) {
  std::optional<StageDeclaration> declared = target.declared;
  if (!declared) return true;
  // `--assign cost` would let the cost model divide the layers. The cost model
  // needs a batch size, which is no option of `export`. Only numbers of layers
  // are therefore valid, and ParseInteger reports that `cost` is not a number.
  if (flags.assign == "cost") {
    ParseInteger("--assign", flags.assign, 0, findings);
    return false;
  }
  std::optional<int64_t> microbatches;
  if (!flags.microbatches.empty()) {
    microbatches =
        ParseInteger("--microbatches", flags.microbatches, 1, findings);
    if (!microbatches) return false;
  }
  const StageFlags stages = {flags.stages, flags.assign, flags.virtual_stages,
                             flags.schedule};
  if (!OverrideStages(stages, declared, findings)) return false;
  const auto planned = Divided(*target.compiled, target.config(), *declared,
                               microbatches, findings);
  if (planned == nullptr) return false;
  exports::PipelineChoice& choice = out.stages.emplace();
  choice.axis = planned->axis;
  choice.table = planned->table;
  for (int32_t s = 0; s < planned->stages(); ++s) {
    choice.layers.push_back(planned->LayersOf(s).count());
  }
  return true;
}

// Returns the compiled plan as a plan file that was read.
std::optional<ReadPlan> ReadCompiled(const Compiled& compiled,
                                     Findings& findings) {
  const auto document =
      JsonDocument::Parse(MakeSource("<plan>", TextOf([&](Sink& out) {
                                       WritePlanJson(compiled.plan, {}, out);
                                     })),
                          findings);
  if (document == nullptr) return std::nullopt;
  return ParsePlan(*document, EditedPlan::kAllowed, findings);
}

// Lets findings about a parameter point to the rule that matches it.
void PlaceAtRules(const Compiled& compiled, ReadPlan& out) {
  const Plan& plan = compiled.plan;
  for (size_t i = 0; i < std::min(out.params.size(), plan.params.size()); ++i) {
    const int32_t rule = plan.layouts[plan.params[i].layout].rule;
    if (rule < 0 || out.params[i].name != plan.names[i]) continue;
    const Place& match = compiled.rules.rules[AsIndex(rule)].match_place;
    if (match.HasPosition()) out.params[i].place = match;
  }
}

// Reads the sizes that the code of the program in a file gives as numbers.
// Returns nullopt after a finding.
std::optional<std::vector<program::FixedSizes>> FixedSizesOf(
    const std::string& path, const program::Program& program,
    Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  const auto document =
      source ? JsonDocument::Parse(source, findings) : nullptr;
  if (document == nullptr) return std::nullopt;
  return program::ReadFixedSizes(*document, program, findings);
}

// Returns the plan that follows from the traced program alone. A dimension that
// holds several equal parts is sharded part by part. Returns nullopt after a
// finding; `status` is then the exit status.
std::optional<ReadPlan> SuggestedPlan(const ExportFlags& flags,
                                      const Common& common, int& status,
                                      OfInputs& of_inputs, Findings& findings) {
  if (!RefuseOthers(OptionsOf, flags,
                    {"FORMAT", "--mesh", "--devices", "--processes",
                     "--project", "--no-project", "--target", "--mode",
                     "--axis", "--transformers", "--program", "--output"},
                    findings)) {
    return std::nullopt;
  }
  const auto target = ChooseTarget(flags.inputs.asked, findings);
  const auto traced =
      target ? ReadTracedFile(flags.program, findings) : std::nullopt;
  const auto fixed =
      traced ? FixedSizesOf(flags.program, traced->program, findings)
             : std::nullopt;
  const auto mesh =
      fixed ? LoadMesh(flags.inputs, *target, findings) : std::nullopt;
  if (!mesh) return std::nullopt;
  const Manifest manifest = program::ManifestOf(traced->program);
  if (!HasShapes(manifest, findings)) return std::nullopt;
  suggest::Preferences preferences;
  preferences.traced = &*traced;
  preferences.divides_parts = true;
  const auto rules =
      SuggestFor(manifest, *mesh, std::nullopt, preferences, common, "<rules>");
  if (!rules.Good() || rules.compiled == nullptr) {
    Refuse(rules, *mesh, std::nullopt, common, findings);
    status = kFound;
    return std::nullopt;
  }
  of_inputs.rules = rules.compiled->rules;
  of_inputs.model_type = program::TransformersType(traced->program);
  exports::ProgramNotes& notes = of_inputs.program.emplace();
  notes.reads = program::ReadsElsewhere(traced->program);
  const suggest::Suggestion& made = rules.suggestion;
  for (size_t k = 0; k < made.dims.groups.size(); ++k) {
    const Role role = made.dims.groups[k].role;
    if (!IsMlp(role)) continue;
    for (const uint32_t member : made.tree.Members(made.tree.groups[k])) {
      notes.roles.emplace(made.tree.NameOf(member), role);
    }
  }
  const std::string axis =
      flags.options.axis.empty() ? "tp" : flags.options.axis;
  const int64_t devices = std::max<int64_t>(2, mesh->SizeOf(axis));
  notes.fixed = program::FixedBy(traced->program, *fixed, devices);
  for (const program::ParamFacts& param : traced->facts.params) {
    std::string why =
        program::WhyUnsharded(traced->program, traced->facts, param, devices);
    if (!why.empty()) notes.unsharded.emplace(param.name, std::move(why));
    if (param.looked_up) notes.tables.insert(param.name);
  }
  auto plan = ReadCompiled(*rules.compiled, findings);
  // The user has not written the rules, so no finding is at a line of them.
  if (plan) {
    for (ReadParam& param : plan->params) param.place = {};
  }
  return plan;
}

// Returns the plan of the file or of the inputs, or nullopt after a finding.
// Sets `status` to the exit status if the inputs could be read but a parameter
// is illegal or unmatched, or if the stages are refused.
std::optional<ReadPlan> PlanOf(const ExportFlags& flags, const Common& common,
                               bool staged, int& status, OfInputs& of_inputs,
                               Findings& findings) {
  if (!flags.plan.empty()) {
    if (!RefuseInputs(flags.inputs, "the plan is that of `--plan`", findings)) {
      return std::nullopt;
    }
    return ReadPlanFile(flags.plan, EditedPlanOf(flags.allow_edited), findings);
  }
  const auto target = ChooseTarget(flags.inputs.asked, findings);
  if (!target) return std::nullopt;
  const StagedTarget opened =
      CompileStaged({}, flags.inputs, *target, common, findings);
  const Compiled* const compiled = opened.compiled.get();
  if (compiled == nullptr) return std::nullopt;
  Findings found = PlanFindings(*compiled);
  if (!staged) found.Append(StageFindings(*compiled));
  if (found.HasErrors()) {
    status = compiled->stage_findings.empty() ? kFound : StageStatus(found);
    findings.Append(std::move(found));
    return std::nullopt;
  }
  const bool on_mesh =
      flags.stages.empty() || compiled->mesh.Find(flags.stages);
  if (staged && on_mesh &&
      !DivideDeclared(flags, opened, of_inputs, findings)) {
    status = StageStatus(findings);
    return std::nullopt;
  }
  of_inputs.rules = compiled->rules;
  if (opened.config() != nullptr) {
    of_inputs.model_type = opened.config()->model_type;
  }
  auto plan = ReadCompiled(*compiled, findings);
  if (plan) PlaceAtRules(*compiled, *plan);
  return plan;
}

// Reads the file of `--names`. Returns nullopt without a finding if `--names`
// is not given, and after a finding if the file is invalid.
std::optional<std::vector<LogicalNames>> NamesOf(const ExportFlags& flags,
                                                 Findings& findings) {
  if (flags.names.empty()) return std::nullopt;
  const SourceRef source = ReadSource(flags.names, findings);
  if (source == nullptr) return std::nullopt;
  return imports::ReadLogicalNames(source, findings);
}

// Returns whether each rank has exactly one stage, and stage n is on rank n.
bool HasStageOfEachRank(const PlanStages& planned) {
  if (std::ssize(planned.of) != planned.ranks) return false;
  for (size_t s = 0; s < planned.of.size(); ++s) {
    const std::vector<int32_t>& ranks = planned.of[s].ranks;
    if (ranks.size() != 1 || AsIndex(ranks.front()) != s) return false;
  }
  return true;
}

// Sets each stage flag that is not given to the value in the plan's stages.
// Returns false after a finding.
bool CompleteFlags(const exports::Exporter& exporter, const PlanStages& planned,
                   const Place& place, ExportFlags& flags, Findings& findings) {
  // A format without `--schedule` only writes the layers of each stage. The
  // reader of the output assumes that stage n is on rank n.
  if (exporter.flags.find("--schedule") == std::string_view::npos) {
    if (!HasStageOfEachRank(planned)) {
      findings.Add(code::kInexpressible, place,
                   "`" + flags.format + "` has stage n on rank n, and " +
                       ShortQuote(planned.schedule) + " places " +
                       Counted(std::ssize(planned.of), "stage") + " on " +
                       Counted(planned.ranks, "rank") + " otherwise",
                   "take `schedule: 1f1b` and `virtual: 1` in `stages:`");
      return false;
    }
    flags.schedule = "1f1b";
  } else if (flags.schedule.empty() && IsScheduleFile(planned.schedule)) {
    findings.Add(code::kUsage, place,
                 "the schedule of the plan is the file " +
                     ShortQuote(planned.schedule) +
                     ", of which the plan has the digest alone",
                 "give the file with `--schedule FILE`, or the name of a "
                 "schedule");
    return false;
  }
  flags.stages = planned.axis;
  if (flags.schedule.empty()) flags.schedule = planned.schedule;
  if (flags.virtual_stages.empty() && !IsScheduleFile(flags.schedule)) {
    flags.virtual_stages = std::to_string(planned.virtual_stages);
  }
  if (flags.microbatches.empty()) {
    flags.microbatches = std::to_string(planned.microbatches);
  }
  return true;
}

// Returns the stages of the plan. Each given flag replaces one value of these
// stages. If the plan has no stages, or if `--stages` names another axis, the
// flags alone describe the stages. Returns nullopt after a finding, for example
// if neither the plan nor the flags have stages.
std::optional<exports::PipelineChoice> PipelineOf(
    const exports::Exporter& exporter, const ExportFlags& given,
    const ReadPlan& plan, const std::optional<PlanStages>& planned,
    Findings& findings) {
  const Mesh& mesh = plan.mesh;
  exports::PipelineChoice out;
  ExportFlags flags = given;
  if (planned && (flags.stages.empty() || flags.stages == planned->axis)) {
    if (!CompleteFlags(exporter, *planned, plan.mesh_place, flags, findings)) {
      return std::nullopt;
    }
    if (given.assign.empty() && given.virtual_stages.empty()) {
      for (const PlanStage& stage : planned->of) {
        out.layers.push_back(stage.layers.count());
      }
    }
  }
  out.axis = flags.stages;
  if (flags.stages.empty()) {
    findings.Add(code::kUsage, {},
                 "`" + flags.format + "` needs the axis of the stages",
                 "give `--stages AXIS`, or `stages:` in the rules");
    return std::nullopt;
  }
  if (!mesh.Find(flags.stages)) {
    findings.Add(code::kUsage, FlagPlace("--stages", flags.stages),
                 "the mesh has no axis " + ShortQuote(flags.stages),
                 "its axes are " + MeshText(mesh));
    return std::nullopt;
  }
  if (!flags.assign.empty() && flags.assign != "even") {
    for (const std::string& part : SplitList({flags.assign})) {
      const auto layers = ParseInteger("--assign", part, 0, findings);
      if (!layers) return std::nullopt;
      out.layers.push_back(*layers);
    }
  }
  const size_t before = findings.errors();
  ScheduleChoice choice{flags.schedule.empty() ? "1f1b" : flags.schedule,
                        "--schedule"};
  choice.ranks = ScheduleSize(
      "--stages", std::to_string(mesh.SizeOf(flags.stages)), findings);
  choice.virtual_stages =
      ScheduleSize("--virtual", flags.virtual_stages, findings);
  choice.microbatches =
      ScheduleSize("--microbatches", flags.microbatches, findings);
  if (findings.errors() > before) return std::nullopt;
  // A format for an inference engine (vllm-pipeline) only states how many
  // layers each stage has. The number of micro-batches has no effect on this
  // text, so any valid number can be used.
  if (exporter.flags.find("--microbatches") == std::string_view::npos) {
    choice.microbatches = choice.ranks;
  }
  auto table = ScheduleTable(choice, findings);
  if (!table) return std::nullopt;
  out.table = std::move(*table);
  return out;
}

// Writes a format that describes a traced program, such as `constraints`, under
// the plan of `--plan` or of the rules.
int ExportProgram(const exports::Exporter& exporter, const ExportFlags& flags,
                  const exports::Options& options, const Common& common,
                  Findings& findings) {
  if (flags.program.empty()) {
    findings.Add(code::kUsage, {},
                 "`" + flags.format + "` needs a traced program",
                 "write `--program FILE`; `python3 -m shardc.program` writes "
                 "the file");
    return kFailed;
  }
  const auto program = ReadTracedProgram(flags.program, findings);
  if (!program) return kFailed;
  const auto plan =
      PlanOfProgram(*program, flags.plan, flags.inputs, options.mode,
                    PlannedParts::kContiguous, common, findings);
  if (!plan) return kFailed;
  if (plan->found) return kFound;
  if (!CanRunOn(*program, plan->mesh, findings)) return kFailed;
  for (const std::string& note : plan->notes) {
    PrintMessage(common, "note: " + note + "\n");
  }
  const program::Sharding sharding =
      program::ShardProgram(*program, plan->mesh, plan->specs);
  const exports::ShardedProgram of = {*program, plan->mesh, sharding};
  const ReadPlan none;
  const std::string text = TextOf([&](Sink& out) {
    exporter.write({.plan = none, .options = options, .sharded = &of}, out,
                   findings);
  });
  return PutResult(text, flags.output, findings) ? kDone : kFailed;
}

// Returns the dtype that most numbers of the parameters have.
Dtype UsualDtype(const Manifest& manifest) {
  std::map<Dtype, double> sizes;
  for (const Tensor& tensor : manifest.tensors) {
    const TensorType& type = manifest.TypeOf(tensor);
    if (type.dtype && step::IsTrained(*type.dtype)) {
      sizes[*type.dtype] += static_cast<double>(type.Elements().value_or(0));
    }
  }
  const auto most = std::max_element(
      sizes.begin(), sizes.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == sizes.end() ? Dtype::kBF16 : most->first;
}

// Returns the program of the step that the rules describe, or nullopt after a
// finding.
std::optional<program::Program> ProgramOfModel(const ExportFlags& flags,
                                               Mode mode, const Common& common,
                                               Findings& findings) {
  auto target = ChooseTarget(flags.inputs.asked, findings);
  if (!target) return std::nullopt;
  // A step has no mesh. A mesh gives the usual batch only.
  if (!IsNamed(target->mesh)) target->mesh.file = "dp:1";
  InputFlags inputs = flags.inputs;
  inputs.trains = mode == Mode::kTrain;
  const auto opened = LoadTarget(inputs, *target, common, findings);
  if (!opened || !HasDescription(opened->rules, opened->manifest, findings)) {
    return std::nullopt;
  }
  const ModelDescription& description = *opened->rules.model;
  const ModelConfig* const config = opened->model ? &*opened->model : nullptr;
  if (!step::HasMode(description, config, mode)) {
    findings.Add(
        code::kUsage, FlagPlace("--mode", flags.mode),
        "the model has no step of the mode " + std::string(ModeName(mode)),
        "its `model:` section is not causal; give `--mode train`");
    return std::nullopt;
  }
  int64_t batch = target->batch.value_or(2 * opened->mesh.devices);
  int64_t length = kUsualLength;
  if (!ReadCountOption("--batch", flags.batch, batch, findings) ||
      !ReadCountOption("--seq", flags.length, length, findings)) {
    return std::nullopt;
  }
  auto model =
      step::BuildForward(description, config, opened->manifest, mode, findings);
  if (!model) return std::nullopt;
  if (mode == Mode::kTrain) {
    step::Differentiate(model->graph);
    step::AppendOptimizer(model->graph);
  }
  const bool decodes = mode == Mode::kDecode || mode == Mode::kInsert;
  const step::Sizes sizes = step::RealSizes(*model, batch, length);
  return program::ProgramOfStep({.graph = model->graph,
                                 .sizes = sizes,
                                 .manifest = opened->manifest,
                                 .function = std::string(ModeName(mode)),
                                 .file = description.source->name(),
                                 .dtype = UsualDtype(opened->manifest),
                                 .counts_positions = !decodes})
      .program;
}

int ExportStep(const exports::Exporter& exporter, const ExportFlags& flags,
               const exports::Options& options, const Common& common,
               Findings& findings) {
  if (!flags.plan.empty()) {
    findings.Add(code::kUsage, FlagPlace("--plan", flags.plan),
                 "`" + flags.format +
                     "` writes the step of a `model:` section, and a plan has "
                     "none",
                 "give rules and a manifest or `--model`, in place of the "
                 "plan");
    return kFailed;
  }
  if (!RefuseOthers(
          OptionsOf, flags,
          {"FORMAT", "--mesh", "--devices", "--processes", "--rules",
           "--manifest", "--stdin-filename", "--header-only", "--model",
           "--families", "--weights-dtype", "--target", "--project",
           "--no-project", "--allow-outside", "--mode", "--batch", "--seq",
           "--output"},
          findings,
          {"the program of a step, which has no plan", "leave it out"})) {
    return kFailed;
  }
  const auto step = ProgramOfModel(flags, options.mode, common, findings);
  if (!step) return kFailed;
  const ReadPlan none;
  const std::string text = TextOf([&](Sink& out) {
    exporter.write({.plan = none, .options = options, .step = &*step}, out,
                   findings);
  });
  return PutResult(text, flags.output, findings) ? kDone : kFailed;
}

int RunExport(const ExportFlags& flags, const Common& common,
              Findings& findings) {
  const exports::Exporter* exporter = FindExporter(flags.format, findings);
  if (exporter == nullptr || !Applies(*exporter, flags, common, findings) ||
      !HasStages(flags, findings)) {
    return kFailed;
  }
  exports::Options options = flags.options;
  options.json = common.format == "json";
  options.priorities = SplitList(options.priorities);
  if (!flags.mode.empty()) {
    const auto mode = ParseModeFlag(flags.mode, findings);
    if (!mode) return kFailed;
    options.mode = *mode;
  }
  if (exporter->of_step) {
    return ExportStep(*exporter, flags, options, common, findings);
  }
  if (exporter->of_program) {
    return ExportProgram(*exporter, flags, options, common, findings);
  }
  const auto names = NamesOf(flags, findings);
  if (!names && !flags.names.empty()) return kFailed;
  int status = kFailed;
  const bool staged =
      exporter->flags.find("--stages") != std::string_view::npos;
  OfInputs of_inputs;
  // What replicates KV heads by itself does so whatever the rules say.
  ExportFlags planned = flags;
  if (exporter->repeats_keys && flags.plan.empty()) {
    planned.inputs.kv_replicate = true;
  }
  auto plan = flags.program.empty()
                  ? PlanOf(planned, common, staged, status, of_inputs, findings)
                  : SuggestedPlan(flags, common, status, of_inputs, findings);
  if (!plan) return status;
  if (!exporter->for_people && HasIllegalSpec(*plan, findings)) return kFound;
  if (!exports::StateKvReplicas(*exporter, *plan, findings) ||
      !exports::StateParts(*exporter, *plan, options.mode, findings)) {
    return kFailed;
  }
  const auto stages = plan->stages;
  if (stages && !staged && !exporter->lists_ranks) {
    plan = exporter->of_stage
               ? exports::WithinStage(*plan)
               : exports::WithoutStages(*plan, exporter->name, findings);
    if (!plan) return kFailed;
  }
  if (!CheckMode(plan->modes, options.mode, findings)) return kFailed;
  std::optional<Manifest> state;
  if (!flags.state.empty()) {
    state = LoadManifest(flags.inputs, flags.state, findings);
    if (!state) return kFailed;
  }
  std::optional<exports::PipelineChoice> pipeline = std::move(of_inputs.stages);
  if (staged && !pipeline) {
    pipeline = PipelineOf(*exporter, flags, *plan, stages, findings);
    if (!pipeline) return StageStatus(findings);
  }
  Findings said;
  const std::string text = TextOf([&](Sink& out) {
    exporter->write(
        {*plan, options, of_inputs.rules ? &*of_inputs.rules : nullptr,
         names ? &*names : nullptr, state ? &*state : nullptr,
         pipeline ? &*pipeline : nullptr, of_inputs.model_type,
         of_inputs.program ? &*of_inputs.program : nullptr},
        out, said);
  });
  const bool failed = said.HasErrors();
  findings.Append(std::move(said));
  if (failed) return kFailed;
  return PutResult(text, flags.output, findings) ? kDone : kFailed;
}

std::string FormatsText() {
  return Join(
      exports::Exporters(), "; ", [&](const exports::Exporter* exporter) {
        return std::string(exporter->name) + ": " + std::string(exporter->what);
      });
}

Strings FormatNames() {
  Strings names;
  for (const exports::Exporter* exporter : exports::Exporters()) {
    names.emplace_back(exporter->name);
  }
  return names;
}

Options OptionsOf(ExportFlags& flags) {
  Options options = {{.name = "FORMAT",
                      .to = &flags.format,
                      .value = "FORMAT",
                      .help = FormatsText(),
                      .required = true,
                      .words = FormatNames}};
  Append(
      options,
      Under(kInputsGroup,
            {{.name = "--plan",
              .need = HelpNeed::kMost,
              .to = &flags.plan,
              .value = "PLAN",
              .help = "plan file (default: compile mesh, rules and manifest)"},
             AllowEditedOption(&flags.allow_edited)}));
  Append(options, AllInputs(flags.inputs));
  exports::Options& own = flags.options;
  Append(
      options,
      {OutputOption(&flags.output, "file to write (default: standard output)"),
       {.name = "--mode",
        .need = HelpNeed::kMost,
        .to = &flags.mode,
        .value = "MODE",
        .help = "mode, for formats that hold one (default: train)",
        .words = ModeNames},
       {.name = "--form",
        .need = HelpNeed::kOften,
        .to = &own.form,
        .value = "iota|list|mesh",
        .help = "hlo: form of the device list: iota (default), list for older "
                "programs, mesh for the newest",
        .checked = true},
       {.name = "--open",
        .to = &own.open,
        .help = "shardy: mark dimensions as open, so that propagation may "
                "shard them further"},
       {.name = "--replicated",
        .to = &own.replicated,
        .help = "shardy: list the axes that shard no dimension as replicated"},
       {.name = "--priorities",
        .to = &own.priorities,
        .value = "AXES",
        .help = "shardy: order in which axes are propagated, such as dp,tp; "
                "all others come last",
        .several = Several::kCommas},
       {.name = "--no-strided",
        .to = &own.no_strided,
        .help =
            "dtensor: report an error if the private _StridedShard is needed"},
       {.name = "--axis",
        .need = HelpNeed::kOften,
        .to = &own.axis,
        .value = "AXIS",
        .help = "hf-tp-plan, megatron, vllm, sglang: axis of tensor "
                "parallelism (default: tp)"},
       {.name = "--transformers",
        .to = &own.version,
        .value = "VERSION",
        .help = "hf-tp-plan: version of transformers, such as 4.57 (default: "
                "the newest)"},
       {.name = "--program",
        .to = &flags.program,
        .value = "FILE",
        .help = "constraints: traced program of your function; hf-tp-plan: "
                "that of your module, in place of a plan, rules and a "
                "manifest"},
       {.name = "--batch",
        .to = &flags.batch,
        .value = "N",
        .help = "program: rows of the batch, over all devices (default: two a "
                "device)"},
       {.name = "--seq",
        .to = &flags.length,
        .value = "N",
        .help = "program: tokens per row; in decoding, those that the cache "
                "holds (default: 8192)"},
       {.name = "--names",
        .need = HelpNeed::kOften,
        .to = &flags.names,
        .value = "FILE",
        .help = "maxtext: file with the logical names of the parameters' "
                "dimensions: MaxText's logical_shardings.json, or a list by "
                "name"},
       {.name = "--state",
        .to = &flags.state,
        .value = "CHECKPOINT",
        .help = "orbax: folder of the checkpoint of a train state, or a "
                "manifest of its arrays; the file covers all of them"},
       {.name = "--stages",
        .to = &flags.stages,
        .value = "AXIS",
        .help = "pipelines: axis whose ranks have the stages (default: that "
                "of `stages:`)"},
       {.name = "--assign",
        .to = &flags.assign,
        .value = "even|N,...",
        .help = "pipelines: layers of each stage; `cost --stages` prints those "
                "that balance them (default: that of `stages:`, else even)"},
       {.name = "--virtual",
        .to = &flags.virtual_stages,
        .value = "N",
        .help = "pipelines: stages on each rank"},
       {.name = "--schedule",
        .to = &flags.schedule,
        .value = "NAME|FILE",
        .help = "pipelines: the schedule (default: that of `stages:`, else "
                "1f1b)",
        .words = ScheduleNames},
       {.name = "--microbatches",
        .to = &flags.microbatches,
        .value = "N",
        .help = "pipelines: parts of the batch"}});
  return options;
}

}  // namespace

Declared DeclareExport() { return Declare(OptionsOf, RunExport); }

}  // namespace shardc::cli
