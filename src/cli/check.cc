// `shardc check`: runs lints on the targets of the project, or on the files
// that the options name. A lint is skipped if one of its inputs is not given.
// Options override the project's settings. Findings that an ignore comment or
// the baseline names are removed. The other findings set the exit status:
//
//   two targets, one warning, --fail-on warning  ->  exit 1
#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <span>

#include "cli/check_targets.h"
#include "cli/commands.h"
#include "cli/config_flags.h"
#include "cli/config_report.h"
#include "cli/cost_flags.h"
#include "cli/fixes.h"
#include "cli/found_rules.h"
#include "cli/output.h"
#include "cli/target_audit.h"
#include "cli/version.h"
#include "cost/setting_rows.h"
#include "emit/findings/formats.h"
#include "lint/baseline.h"
#include "model/option_value.h"
#include "source/file.h"
#include "source/leftover.h"
#include "source/list.h"
#include "source/sink.h"
#include "source/wording.h"
#include "target/from_config.h"

namespace shardc::cli {
namespace {

struct CheckFlags {
  CheckOptions options;
  std::string attention, batch, kv_length, memory, program;
  std::vector<std::string> select, ignore, severity;
  std::string fail_on;
  bool preview = false;
  std::string baseline, write_baseline, output;
  bool statistics = false;
  bool notes = false;
  bool diff = false;
  bool fix = false;
  bool unsafe_fixes = false;
};

// The targets and the lint settings of one run of `check`. A fix is safe only
// if it changes the specs of no target of the project. This includes targets
// that are not checked, so `all_targets` is needed too.
struct CheckRequest {
  std::vector<Target> targets;
  std::vector<Target> all_targets;  // all targets of the project
  LintSettings settings;
};

std::optional<CheckRequest> FindWork(const InputFlags& flags,
                                     Findings& findings) {
  CheckRequest work;
  const size_t before = findings.errors();
  const auto project = OpenProject(flags.asked, findings);
  if (findings.errors() > before) return std::nullopt;
  auto targets = ChooseTargets(flags.asked, flags.targets, findings);
  if (!targets) return std::nullopt;
  work.targets = std::move(*targets);
  work.all_targets = work.targets;
  if (project) {
    work.settings = project->lint;
    for (const Target& target : project->targets) {
      const bool there = std::any_of(
          work.targets.begin(), work.targets.end(),
          [&](const Target& own) { return own.name == target.name; });
      if (!there) work.all_targets.push_back(target);
    }
  }
  return work;
}

bool ParseSeverity(const std::vector<std::string>& given,
                   LintSettings& settings, Findings& findings) {
  constexpr std::pair<std::string_view, Level> kLevels[] = {
      {"error", Level::kError},
      {"warning", Level::kWarning},
      {"note", Level::kNote}};
  for (const std::string& text : SplitList(given)) {
    const size_t equals = text.find('=');
    const std::string level =
        equals == std::string::npos ? "" : text.substr(equals + 1);
    const auto* at =
        std::find_if(std::begin(kLevels), std::end(kLevels),
                     [&](const auto& entry) { return entry.first == level; });
    if (at == std::end(kLevels)) {
      findings.Add(code::kUsage, {},
                   "`" + text + "` in `--severity` has no level",
                   "write CODE=error, CODE=warning or CODE=note");
      return false;
    }
    settings.flag_severity[text.substr(0, equals)] = at->second;
  }
  return true;
}

bool ApplyFlags(const CheckFlags& flags, LintSettings& settings,
                Findings& findings) {
  const auto select = SplitList(flags.select);
  if (!select.empty()) settings.select = select;
  for (const std::string& code : SplitList(flags.ignore)) {
    settings.ignore.push_back(code);
  }
  if (!flags.fail_on.empty()) settings.fail_on = flags.fail_on;
  return ParseSeverity(flags.severity, settings, findings);
}

std::string Diffs(const FixResult& fixed) {
  std::string out;
  for (const FixedFile& file : fixed.files) {
    out += DiffText(file.name, file.before, file.after);
  }
  return out;
}

// Prints which fixes were made, or would be made with --fix, and their effect
// on plans.
void PrintFixes(const FixResult& fixed, const CheckFlags& flags,
                const Common& common) {
  if (!flags.diff && fixed.made > 0) {
    PrintMessage(
        common,
        Counted(fixed.made, "finding") + " fixed" +
            (fixed.proven ? ", and no possible name gets another spec" : "") +
            "\n");
  }
  if (fixed.unsafe == 0) return;
  if (flags.unsafe_fixes) {
    PrintMessage(common,
                 fixed.changes.empty() ? "no plan changes\n" : fixed.changes);
  } else {
    PrintMessage(common, Counted(fixed.unsafe, "fix", "fixes") +
                             " not applied, because specs would change: add "
                             "`--unsafe-fixes` to apply them\n");
  }
}

// Returns false, after a finding, if a fixed file is compressed. The fixed text
// is not compressed and must not replace such a file.
bool AreText(std::span<const FixedFile> files, Findings& findings) {
  bool good = true;
  for (const FixedFile& file : files) {
    std::array<char, 3> start = {};
    std::ifstream(file.name, std::ios::binary).read(start.data(), start.size());
    if (!IsGzip({start.data(), start.size()})) continue;
    findings.Add(
        code::kWrite, Place{MakeSource(file.name, {})},
        "`" + file.name + "` is compressed with gzip, so it is not fixed",
        "decompress it first, or print the fixes with `--diff`");
    good = false;
  }
  return good;
}

bool CheckLocked(const std::vector<Target>& targets, bool allow_outside,
                 Findings& findings) {
  for (const Target& target : targets) {
    // ReadAuditInput() adds a finding if the target's section `audit` is
    // invalid. It is dropped here, because the check itself adds it later.
    Findings unread;
    if (!target.plan.empty() || !target.step.empty() ||
        ReadAuditInput(target, allow_outside, unread)) {
      return true;
    }
  }
  findings.Add(code::kUsage, {}, "no target has a committed plan to compare",
               "add `plan: plans/NAME.plan.json` to the target, and write the "
               "plan with `shardc plan --write-locked`");
  return false;
}

// Returns whether notes are left out of the output. Text output shows notes
// only with --notes or if they fail the check. Other formats contain all
// findings.
bool HidesNotes(const CheckFlags& flags, const Common& common,
                const Selection& selection) {
  return !flags.notes && common.format == "text" &&
         !selection.Fails(Level::kNote);
}

int ShowDiff(const CheckFlags& flags, const Common& common,
             const FixResult& fixed, std::vector<CheckedTarget>& targets,
             Findings& findings) {
  JoinedFindings joined = JoinFindings(targets);
  if (joined.unreadable) {
    findings.Append(std::move(joined.findings));
    return kFailed;
  }
  const std::string diff = Diffs(fixed);
  if (!PutResult(diff, flags.output, findings)) return kFailed;
  PrintFixes(fixed, flags, common);
  return diff.empty() ? kDone : kFound;
}

void EmitAs(const CheckFlags& flags, const Common& common,
            std::span<const Finding> shown, Sink& out) {
  const FindingFormat* format = FindFindingFormat(common.format);
  const char* workspace = std::getenv("GITHUB_WORKSPACE");
  FindingReport report{shown,
                       kVersion,
                       {},
                       Repository::Find(workspace == nullptr ? "" : workspace)};
  report.style.color = flags.output.empty() && UsesColor(common, 1);
  (format == nullptr ? FindingsText : format->write)(report, out);
}

void WriteFindingsOf(const CheckFlags& flags, const Common& common,
                     const Selection& selection, const Findings& findings,
                     Sink& out) {
  if (flags.statistics) {
    WriteStatistics(findings.all(), common.format == "json", out);
    return;
  }
  if (!HidesNotes(flags, common, selection)) {
    EmitAs(flags, common, findings.all(), out);
    return;
  }
  std::vector<Finding> shown(findings.all().begin(), findings.all().end());
  std::erase_if(shown, [](const Finding& finding) {
    return finding.level == Level::kNote;
  });
  EmitAs(flags, common, shown, out);
}

// The configurations of other systems in the folder, if there is no project and
// no option names an input. Each is a target, whose name is that of its file.
struct FoundTargets {
  std::vector<CheckedTarget> targets;
  std::string text;  // a line for each
};

// Checks a configuration by itself. What is not known is a note.
CheckedTarget CheckConfig(const FoundConfig& found, const ConfigOrigin& origin,
                          const Selection& selection, std::string& text) {
  CheckedTarget out;
  out.name = found.file + (found.symbol.empty() ? "" : ":" + found.symbol);
  if (found.line > 0) out.name += ":" + std::to_string(found.line);
  out.main_file = Place{MakeSource(found.file, "")};
  Findings own;
  const auto deployment = DeployFound(found, origin, own);
  TakeFindings(own, selection, out);
  text += out.name + ": " + found.format;
  if (deployment) text += ": " + DeploymentLine(*deployment);
  if (deployment && !deployment->manifest) {
    text += "; what a rank holds is not known: " + deployment->no_model;
  }
  if (!deployment) text += ": its ranks are not known";
  text += "\n";
  return out;
}

std::optional<FoundTargets> CheckFolder(const CheckFlags& flags,
                                        const Selection& selection,
                                        Findings& findings) {
  ConfigOrigin origin;
  const std::string& devices = flags.options.inputs.devices;
  if (!devices.empty()) {
    origin.devices = ParseInteger("--devices", devices, 1, findings);
    if (!origin.devices) return std::nullopt;
  }
  origin.model = flags.options.inputs.asked.model;
  origin.families = flags.options.inputs.asked.families;
  const FoundConfigs found = FindConfigs("");
  if (found.configs.empty() && found.unread.empty()) return std::nullopt;
  FoundTargets out;
  int64_t without = 0;
  for (const FoundConfig& one : found.configs) {
    if (systems::FindSystem(one.format) == nullptr) {
      auto target = CheckFoundRules(one, selection, out.text);
      if (target) {
        out.targets.push_back(std::move(*target));
      } else {
        ++without;
      }
    } else {
      out.targets.push_back(CheckConfig(one, origin, selection, out.text));
    }
  }
  if (without > 0) {
    out.text += Counted(without, "file") +
                " of Python named partition rules, without a list of "
                "them: not checked\n";
  }
  for (const auto& [file, why] : found.unread) {
    out.text += file + ": not understood: " + why + "\n";
  }
  if (!out.targets.empty()) {
    out.text +=
        "note: the plans that follow from them are linted only in a project, "
        "which `shardc init` writes\n";
  }
  return out;
}

// Some errors prevent the check, for example an unreadable project. Writes
// these errors in the requested format, so that a CI job displays them. Nothing
// is written in three cases: the format is text, all errors are usage errors,
// or an error states that output cannot be written.
void EmitErrors(const CheckFlags& flags, const Common& common,
                Findings& findings) {
  const auto all = findings.all();
  const bool reading = std::any_of(
      all.begin(), all.end(),
      [](const Finding& finding) { return finding.code != &code::kUsage; });
  const bool writing = std::any_of(
      all.begin(), all.end(),
      [](const Finding& finding) { return finding.code == &code::kWrite; });
  if (common.format == "text" || !findings.HasErrors() || !reading || writing) {
    return;
  }
  findings = common.command_line.Placed(std::move(findings));
  findings.Sort();
  const auto write = [&](Sink& out) {
    EmitAs(flags, common, findings.all(), out);
  };
  Findings failure;
  failure.NoteReadsOf(findings);
  if (PutResult(write, flags.output, failure)) {
    findings = std::move(failure);
  } else {
    findings.Append(std::move(failure));
  }
}

// Returns false, after a finding, if an option's output does not exist in the
// requested format: `--diff` prints only text, and `--statistics` prints text
// or JSON. A program that expects SARIF, for example, could not read it.
bool FormatApplies(const CheckFlags& flags, const Common& common,
                   Findings& findings) {
  const std::string& format = common.format;
  const bool only_findings = format == "sarif" || format == "junit";
  const bool diff = flags.diff && (only_findings || format == "json");
  if (!diff && !(flags.statistics && only_findings)) return true;
  findings.Add(code::kUsage, {},
               "`--format " + format + "` does not apply to `" +
                   (diff ? "--diff" : "--statistics") + "`",
               diff ? "leave out `--format`" : "write `--format json`");
  return false;
}

// Returns false, after a finding, if `--write-baseline` is given together with
// an option about the printed output. `--write-baseline` prints no findings.
bool OnlyWritesBaseline(const CheckFlags& flags, Findings& findings) {
  if (flags.write_baseline.empty()) return true;
  const std::string_view other = !flags.output.empty() ? "--output"
                                 : flags.statistics    ? "--statistics"
                                 : flags.diff          ? "--diff"
                                                       : "";
  if (other.empty()) return true;
  findings.Add(code::kUsage, {},
               "`" + std::string(other) +
                   "` does not apply to `--write-baseline`, which prints no "
                   "findings",
               "leave one of them out");
  return false;
}

// Checks the configurations of the folder. Returns nullopt if there is a
// project or no configuration.
std::optional<int> CheckWithoutProject(const CheckFlags& flags,
                                       const Common& common,
                                       Findings& findings) {
  Findings ignored;
  if (OpenProject(flags.options.inputs.asked, ignored) || ignored.HasErrors()) {
    return std::nullopt;
  }
  LintSettings settings;
  if (!ApplyFlags(flags, settings, findings)) return kFailed;
  const auto selection = Selection::Make(settings, flags.preview, findings);
  if (!selection) return kFailed;
  auto found = CheckFolder(flags, *selection, findings);
  if (findings.HasErrors()) return kFailed;
  if (!found) return std::nullopt;
  PrintMessage(common, found->text);
  JoinedFindings joined = JoinFindings(found->targets);
  const auto write = [&](Sink& out) {
    WriteFindingsOf(flags, common, *selection, joined.findings, out);
  };
  if (!PutResult(write, flags.output, findings)) return kFailed;
  PrintMessage(common, SummaryText(joined.findings, found->targets, 0,
                                   HidesNotes(flags, common, *selection)));
  for (const Finding& finding : joined.findings.all()) {
    if (selection->Fails(finding.level)) return kFound;
  }
  return kDone;
}

int CheckTargetsOf(const CheckFlags& given, const Common& common,
                   Findings& findings) {
  CheckFlags flags = given;
  if (!FormatApplies(flags, common, findings) ||
      !OnlyWritesBaseline(flags, findings)) {
    return kFailed;
  }
  // A traced program has the parameters that its findings are about.
  TargetRequest& asked = flags.options.inputs.asked;
  if (!asked.mesh.empty() && asked.manifest.empty()) {
    asked.manifest = flags.program;
  }
  if (asked.project.empty() && asked.target.empty() && !asked.NamesAnInput() &&
      flags.options.inputs.targets.empty() && flags.program.empty()) {
    const auto status = CheckWithoutProject(flags, common, findings);
    if (status) return *status;
  }
  auto work = FindWork(flags.options.inputs, findings);
  if (!work || !ApplyFlags(flags, work->settings, findings)) return kFailed;
  const auto selection =
      Selection::Make(work->settings, flags.preview, findings);
  if (!selection) return kFailed;
  if (!flags.attention.empty()) {
    const auto attention = ParseAttention(flags.attention, findings);
    if (!attention) return kFailed;
    flags.options.lint.attention = *attention;
  }
  cost::Settings sizes;
  if (!cost::ReadSetting("--batch", flags.batch, sizes, findings) ||
      !cost::ReadSetting("--kv-len", flags.kv_length, sizes, findings) ||
      !cost::ReadSetting("--memory", flags.memory, sizes, findings)) {
    return kFailed;
  }
  LintFlags& lint = flags.options.lint;
  lint.batch = sizes.batch;
  lint.kv_length = sizes.kv_length;
  lint.memory = sizes.memory;
  std::optional<program::TracedProgram> traced;
  if (!flags.program.empty()) {
    traced = ReadTracedFile(flags.program, findings);
    if (!traced) return kFailed;
    flags.options.lint.traced = &*traced;
  }
  std::optional<Baseline> baseline;
  // A baseline lists known findings, which `check` does not report. A new
  // baseline must list all findings, also those that the project's baseline
  // lists. The project's baseline is therefore not applied before a new one is
  // written.
  if (flags.baseline.empty() && flags.write_baseline.empty()) {
    flags.baseline = work->settings.baseline;
  }
  if (!flags.baseline.empty()) {
    baseline = ReadBaseline(flags.baseline, findings);
    if (!baseline) return kFailed;
  }
  if (flags.options.locked &&
      !CheckLocked(work->targets, flags.options.inputs.asked.allow_outside,
                   findings)) {
    return kFailed;
  }
  if (flags.unsafe_fixes && !flags.diff) flags.fix = true;
  flags.options.fix = flags.fix || flags.diff;
  // Statistics and baselines need the names of all parameters of a finding. Of
  // the formats, only some do.
  const FindingFormat* format = FindFindingFormat(common.format);
  flags.options.lint.lists_names = (format != nullptr && format->lists_names) ||
                                   flags.statistics || baseline ||
                                   !flags.write_baseline.empty();
  auto targets = CheckTargets(work->targets, flags.options, *selection, common);
  if (flags.options.fix) {
    const FixResult fixed = MakeFixes(
        targets,
        {work->targets, work->all_targets, flags.options, flags.unsafe_fixes},
        *selection, common);
    if (flags.diff) return ShowDiff(flags, common, fixed, targets, findings);
    if (!AreText(fixed.files, findings)) return kFailed;
    // WriteToFile refuses to write a file that its list of findings records as
    // read. `findings` records the rules files as read, so a new list is
    // passed.
    Findings replaced;
    for (const FixedFile& file : fixed.files) {
      WriteToFile(file.name, file.after, replaced);
    }
    findings.Append(std::move(replaced));
    if (findings.HasErrors()) return kFailed;
    // A run that was killed while another one fixed the same file has left its
    // own fixed file, although nothing is left to fix.
    for (const CheckedTarget& target : targets) {
      for (const std::string& file : target.rule_files) RemoveLeftover(file);
    }
    PrintFixes(fixed, flags, common);
    if (fixed.made > 0) {
      targets = CheckTargets(work->targets, flags.options, *selection, common);
    }
  }
  for (const CheckedTarget& target : targets) {
    findings.NoteReadsOf(target.errors);
  }
  int64_t known = 0;
  if (baseline) {
    for (CheckedTarget& target : targets) {
      known += baseline->Apply(target.result.findings);
    }
  }
  JoinedFindings joined = JoinFindings(targets);
  // An error about a missing input has no file. Placed() sets its place to the
  // command's name in the command line.
  joined.findings = common.command_line.Placed(std::move(joined.findings));
  if (!flags.write_baseline.empty() && !joined.unreadable) {
    Baseline fresh;
    for (const Finding& finding : joined.findings.all()) fresh.Add(finding);
    const auto write = [&](Sink& out) { fresh.Write(out); };
    if (!PutResult(write, flags.write_baseline, findings)) return kFailed;
    PrintMessage(
        common,
        Counted(static_cast<int64_t>(joined.findings.all().size()), "finding") +
            " written to the baseline\n");
    return kDone;
  }
  const auto write = [&](Sink& out) {
    WriteFindingsOf(flags, common, *selection, joined.findings, out);
  };
  if (!PutResult(write, flags.output, findings)) return kFailed;
  PrintMessage(common, SummaryText(joined.findings, targets, known,
                                   !flags.statistics &&
                                       HidesNotes(flags, common, *selection)));
  if (joined.unreadable) return kFailed;
  for (const Finding& finding : joined.findings.all()) {
    if (selection->Fails(finding.level)) return kFound;
  }
  return kDone;
}

int RunCheck(const CheckFlags& flags, const Common& common,
             Findings& findings) {
  const int status = CheckTargetsOf(flags, common, findings);
  if (status == kFailed) EmitErrors(flags, common, findings);
  return status;
}

Options OptionsOf(CheckFlags& flags) {
  Options options = AllInputs(flags.options.inputs);
  TakeSeveralTargets(options, flags.options.inputs, "all");
  Append(
      options,
      {{.name = "--attention",
        .to = &flags.attention,
        .value = "SETTINGS",
        .help = "sizes such as heads=32,kv_heads=8,head_dim=128; in "
                "place of a config.json"},
       OptionOfSetting("--batch", &flags.batch),
       OptionOfSetting("--kv-len", &flags.kv_length),
       OptionOfSetting("--memory", &flags.memory),
       {.name = "--program",
        .need = HelpNeed::kOften,
        .to = &flags.program,
        .value = "FILE",
        .help = "traced program of your function; specs that split "
                "what it keeps together are reported"},
       {.name = "--runtime",
        .need = HelpNeed::kMost,
        .to = &flags.options.runtimes,
        .value = "NAME,...",
        .help = "systems that are to run the plan; reports what "
                "they refuse, and what they do in another way "
                "(default: `runtime` of the target)",
        .several = Several::kCommas,
        .words = SystemNames},
       {.name = "--select",
        .need = HelpNeed::kMost,
        .to = &flags.select,
        .value = "CODE,...",
        .help = "run only these lints; codes, names or families such as SHD1",
        .several = Several::kCommas},
       {.name = "--ignore",
        .need = HelpNeed::kMost,
        .to = &flags.ignore,
        .value = "CODE,...",
        .help = "run all lints but these",
        .several = Several::kCommas},
       {.name = "--severity",
        .to = &flags.severity,
        .value = "CODE=LEVEL,...",
        .help = "change a diagnostic's level",
        .several = Several::kCommas},
       {.name = "--fail-on",
        .need = HelpNeed::kMost,
        .to = &flags.fail_on,
        .value = "error|warning|note|never",
        .help = "exit 1 if a finding has this level or a higher one (default: "
                "error)"},
       {.name = "--preview",
        .to = &flags.preview,
        .help = "run preview lints too"},
       {.name = "--baseline",
        .need = HelpNeed::kOften,
        .to = &flags.baseline,
        .value = "FILE",
        .help = "leave out the findings of this baseline (default: the "
                "project's)"},
       {.name = "--write-baseline",
        .to = &flags.write_baseline,
        .value = "FILE",
        .help = "write the findings to a baseline"},
       {.name = "--notes",
        .need = HelpNeed::kMost,
        .to = &flags.notes,
        .help = "show notes too; without it text output only counts them"},
       {.name = "--statistics",
        .to = &flags.statistics,
        .help = "count findings by code"},
       {.name = "--locked",
        .need = HelpNeed::kMost,
        .to = &flags.options.locked,
        .help = "compare the committed plans with the inputs"},
       {.name = "--diff",
        .need = HelpNeed::kOften,
        .to = &flags.diff,
        .help = "print what --fix would change; as a diff, and "
                "change nothing"},
       {.name = "--fix",
        .need = HelpNeed::kMost,
        .to = &flags.fix,
        .help = "apply the fixes that change no parameter's spec"},
       {.name = "--unsafe-fixes",
        .to = &flags.unsafe_fixes,
        .help = "apply all fixes, and print what they change in plans"},
       OutputOption(&flags.output)});
  return options;
}

}  // namespace

Declared DeclareCheck() { return Declare(OptionsOf, RunCheck); }

}  // namespace shardc::cli
