// `shardc export FORMAT`: writes a plan in the format of another system. The
// plan is read from a file or compiled; a compiled plan is written and read
// back in memory, so that both ways give the same bytes:
//
//   --mesh tp:4 --rules r.yaml --manifest m.json  ->  plan.json  ->  hlo
#include <algorithm>

#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/plan_findings.h"
#include "emit/emit.h"
#include "emit/exports/exporter.h"
#include "importers/rules/logical.h"
#include "source/file.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

struct ExportFlags {
  InputFlags inputs;
  std::string format, plan, output, mode, names;
  exports::Options options;
};

const exports::Exporter* Find(const std::string& format, Findings& findings) {
  if (const auto* exporter = exports::FindExporter(format)) return exporter;
  std::vector<std::string_view> names;
  std::string known;
  for (const exports::Exporter* exporter : exports::Exporters()) {
    names.push_back(exporter->name);
    known += (known.empty() ? "`" : ", `") + std::string(exporter->name) + "`";
  }
  findings.Add(code::kUsage, {}, "there is no export to `" + format + "`",
               DidYouMean(format, names, "the formats are " + known));
  return nullptr;
}

// Reports an option that the format does not use.
bool TakesFlags(const exports::Exporter& exporter, const ExportFlags& flags,
                const Common& common, Findings& findings) {
  const exports::Options& options = flags.options;
  const std::pair<std::string_view, bool> given[] = {
      {"--mode", !flags.mode.empty()},
      {"--form", !options.form.empty()},
      {"--axis", !options.axis.empty()},
      {"--transformers", !options.version.empty()},
      {"--names", !flags.names.empty()},
      {"--open", options.open},
      {"--replicated", options.replicated},
      {"--priorities", !options.priorities.empty()},
      {"--no-strided", options.no_strided}};
  const std::string own = " " + std::string(exporter.flags) + " ";
  for (const auto& [flag, set] : given) {
    if (!set || own.find(" " + std::string(flag) + " ") != std::string::npos) {
      continue;
    }
    findings.Add(code::kUsage, {},
                 "`" + std::string(flag) + "` says nothing to `" +
                     std::string(exporter.name) + "`");
    return false;
  }
  if (common.format == "json" &&
      exporter.formats.find("json") == std::string_view::npos) {
    findings.Add(code::kUsage, {},
                 "`" + std::string(exporter.name) + "` has no form in JSON");
    return false;
  }
  return true;
}

// The plan of the file or of the inputs. Returns nullopt if a parameter is
// illegal or unmatched; `status` distinguishes that from unreadable input.
std::optional<ReadPlan> PlanOf(const ExportFlags& flags, const Common& common,
                               int& status, std::optional<RuleSet>& rules,
                               Findings& findings) {
  if (!flags.plan.empty()) {
    if (!flags.inputs.asked.NamesAnInput()) {
      return ReadPlanFile(flags.plan, findings);
    }
    findings.Add(code::kUsage, {},
                 "`--plan` and the inputs of a plan both say what to export",
                 "give one of them");
    return std::nullopt;
  }
  const auto target = ChooseTarget(flags.inputs.asked, findings);
  if (!target) return std::nullopt;
  const auto compiled = LoadAndCompile(flags.inputs, *target, common, findings);
  if (compiled == nullptr) return std::nullopt;
  Findings found = PlanFindings(*compiled);
  if (found.HasErrors()) {
    status = kFound;
    findings.Append(std::move(found));
    return std::nullopt;
  }
  const auto document =
      JsonDocument::Parse(MakeSource("<plan>", TextOf([&](Sink& out) {
                                       WritePlanJson(compiled->plan, {}, out);
                                     })),
                          findings);
  if (document == nullptr) return std::nullopt;
  rules = compiled->rules;
  return ParsePlan(*document, findings);
}

bool HasMode(const ReadPlan& plan, Mode mode, Findings& findings) {
  if (mode == Mode::kTrain || std::find(plan.modes.begin(), plan.modes.end(),
                                        mode) != plan.modes.end()) {
    return true;
  }
  findings.Add(code::kUsage, {},
               "the plan has no mode `" + std::string(ModeName(mode)) + "`",
               "make it with `--modes`");
  return false;
}

// Returns nullopt without a finding if `--names` is not given.
std::optional<std::vector<LogicalNames>> NamesOf(const ExportFlags& flags,
                                                 Findings& findings) {
  if (flags.names.empty()) return std::nullopt;
  const SourceRef source = ReadSource(flags.names, findings);
  if (source == nullptr) return std::nullopt;
  return imports::ReadLogicalNames(source, findings);
}

int RunExport(const ExportFlags& flags, const Common& common,
              Findings& findings) {
  const exports::Exporter* exporter = Find(flags.format, findings);
  if (exporter == nullptr || !TakesFlags(*exporter, flags, common, findings)) {
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
  const auto names = NamesOf(flags, findings);
  if (!names && !flags.names.empty()) return kFailed;
  int status = kFailed;
  std::optional<RuleSet> rules;
  const auto plan = PlanOf(flags, common, status, rules, findings);
  if (!plan) return status;
  if (!HasMode(*plan, options.mode, findings)) return kFailed;
  Findings said;
  const std::string text = TextOf([&](Sink& out) {
    exporter->write(
        {*plan, options, rules ? &*rules : nullptr, names ? &*names : nullptr},
        out, said);
  });
  const bool failed = said.HasErrors();
  findings.Append(std::move(said));
  if (failed) return kFailed;
  return PutResult(text, flags.output, findings) ? kDone : kFailed;
}

std::string FormatsText() {
  std::string text;
  for (const exports::Exporter* exporter : exports::Exporters()) {
    text += (text.empty() ? "" : "; ") + std::string(exporter->name) + ": " +
            std::string(exporter->what);
  }
  return text;
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
                      .help = FormatsText(),
                      .required = true,
                      .words = FormatNames()}};
  Append(options, Under("Inputs", {{.name = "--plan",
                                    .to = &flags.plan,
                                    .value = "PLAN",
                                    .help = "a plan that was written; without "
                                            "it, mesh, rules and manifest"}}));
  Append(options, AllInputs(flags.inputs));
  exports::Options& own = flags.options;
  Append(
      options,
      {OutputOption(&flags.output, "file to write (default: standard output)"),
       {.name = "--mode",
        .to = &flags.mode,
        .value = "MODE",
        .help = "the mode of formats that hold one (default: train)",
        .words = ModeNames()},
       {.name = "--form",
        .to = &own.form,
        .value = "iota|list|mesh",
        .help = "hlo: how devices are written, by default iota; a list is "
                "what older programs have, mesh what the newest",
        .checked = true},
       {.name = "--open",
        .to = &own.open,
        .help = "shardy: dimensions that may be split further"},
       {.name = "--replicated",
        .to = &own.replicated,
        .help = "shardy: name the axes that split nothing as replicated"},
       {.name = "--priorities",
        .to = &own.priorities,
        .value = "AXES",
        .help = "shardy: the rounds in which axes are propagated, such as "
                "dp,tp; those not named come last",
        .several = Several::kCommas},
       {.name = "--no-strided",
        .to = &own.no_strided,
        .help = "dtensor: refuse what only the private _StridedShard says"},
       {.name = "--axis",
        .to = &own.axis,
        .value = "AXIS",
        .help = "hf-tp-plan, megatron, vllm: the axis of tensor "
                "parallelism (default: tp)"},
       {.name = "--transformers",
        .to = &own.version,
        .value = "VERSION",
        .help = "hf-tp-plan: the version whose words are taken, such as "
                "4.57 (default: the newest)"},
       {.name = "--names",
        .to = &flags.names,
        .value = "FILE",
        .help = "maxtext: logical names of the parameters' dimensions: "
                "MaxText's logical_shardings.json, or a list by name"}});
  return options;
}

}  // namespace

const Command kExport = {
    .name = "export",
    .summary = "write a plan in another system's words",
    .about = R"(
Writes a plan, given with `--plan` or compiled from mesh, rules and manifest,
in another system's format.

What the format cannot say, such as a tensor that lives at one coordinate of an
axis, is an error that names the parameters, and nothing is written. Formats
that hold one mode take it from `--mode`; `jax`, `jax-json`, `csv` and
`markdown` hold all that the plan has.)",
    .example = "shardc export jax --plan plan.json -o shardings.py",
    .formats = "text|json",
    .declare = [] { return Declare(OptionsOf, RunExport); },
};

}  // namespace shardc::cli
