// `shardc plan`: compiles mesh, rules and manifest to a plan. The options
// `--illegal` and `--unmatched` set whether an illegal spec or an unmatched
// parameter is an error. If there is an error, the exit status is 1, and a plan
// is written only with --keep-going.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <system_error>

#include "cli/check_targets.h"
#include "cli/commands.h"
#include "cli/committed_plan.h"
#include "cli/cost_flags.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/plan_findings.h"
#include "cli/target_audit.h"
#include "emit/audits/audit_report.h"
#include "emit/costs/cost_report.h"
#include "emit/emit.h"
#include "emit/plans/plan_diff.h"
#include "emit/verify/step_json.h"
#include "lint/baseline.h"
#include "model/option_value.h"
#include "plan/fingerprint.h"
#include "source/file.h"
#include "source/process.h"
#include "source/sink.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

struct PlanFlags {
  InputFlags inputs;
  std::string output, format;
  bool keep_going = false;
  bool write_locked = false;
  bool diff = false;
  std::vector<std::string> weight_decay_exclude;
};

// Returns the targets to plan. With --write-locked or --diff, these are all
// requested targets that have a committed file; otherwise it is one target.
// Returns nullopt after a finding.
std::optional<std::vector<Target>> Targets(const PlanFlags& flags,
                                           const Common& common,
                                           Findings& findings) {
  if (!flags.format.empty() && (flags.write_locked || flags.diff)) {
    findings.Add(code::kUsage, {},
                 "`--format` has no effect with `--write-locked` or `--diff`",
                 "leave it out");
    return std::nullopt;
  }
  if (flags.format == "text" && !flags.output.empty()) {
    findings.Add(code::kUsage, {},
                 "`--format text` writes no plan to the file of `--output`",
                 "leave one of them out");
    return std::nullopt;
  }
  if (!flags.write_locked && !flags.diff) {
    if (flags.inputs.targets.size() > 1) {
      findings.Add(
          code::kUsage, {},
          "without `--write-locked` or `--diff`, one target can be planned",
          "give one `--target`; `--write-locked` and `--diff` take "
          "several");
      return std::nullopt;
    }
    TargetRequest asked = flags.inputs.asked;
    if (!flags.inputs.targets.empty()) asked.target = flags.inputs.targets[0];
    auto target = ChooseTarget(asked, findings);
    if (!target) return std::nullopt;
    return std::vector<Target>{std::move(*target)};
  }
  if (!flags.output.empty() || (flags.write_locked && flags.diff)) {
    findings.Add(
        code::kUsage, {},
        flags.output.empty()
            ? "`--write-locked` and `--diff` cannot be combined"
            : "`--output` and `--write-locked` or `--diff` cannot be combined",
        "give one of them");
    return std::nullopt;
  }
  auto all = ChooseTargets(flags.inputs.asked, flags.inputs.targets, findings);
  if (!all) return std::nullopt;
  std::vector<Target> out;
  for (Target& target : *all) {
    // ReadAuditInput() adds a finding if the target's section `audit` is
    // invalid. It is dropped here, because planning the target adds it again.
    Findings unread;
    const bool audited =
        flags.write_locked &&
        ReadAuditInput(target, flags.inputs.asked.allow_outside, unread);
    if (!target.plan.empty() || !target.step.empty() || audited) {
      out.push_back(std::move(target));
    } else if (all->size() > 1 && flags.inputs.targets.empty()) {
      PrintMessage(common,
                   "target `" + target.name + "` has no `plan`: skipped\n");
    } else {
      out.clear();
      all->front() = target;
      break;
    }
  }
  if (!out.empty()) return out;
  const Target& bare = all->front();
  findings.Add(code::kUsage, bare.place,
               flags.diff ? "the target has no `plan` to compare with"
                          : "the target has no `plan` to write",
               "give it one: `plan: plans/" +
                   (bare.name.empty() ? "name" : bare.name) + ".plan.json`");
  return std::nullopt;
}

StagedTarget CompileFor(const PlanFlags& flags, const Target& target,
                        const Common& common, Findings& findings) {
  StagedTarget out;
  auto loaded = LoadTarget(flags.inputs, target, common, findings);
  if (!loaded) return out;
  if (!flags.weight_decay_exclude.empty()) {
    auto& patterns = loaded->options.weight_decay_exclude.emplace();
    for (const std::string& text : flags.weight_decay_exclude) {
      patterns.push_back({text, FlagPlace("--weight-decay-exclude", text)});
    }
  }
  out.model = loaded->model;
  out.declared = loaded->stages;
  out.compiled = CompileTarget(std::move(*loaded), findings);
  return out;
}

// Returns whether `check` would read a compiled program of the target. Reading
// a program takes long, so the summary of a plan does not count the findings
// about it.
bool HasProgram(const PlanFlags& flags, const Target& target) {
  Findings unread;
  std::error_code error;
  const auto audit =
      ReadAuditInput(target, flags.inputs.asked.allow_outside, unread);
  return audit && std::filesystem::exists(audit->program, error);
}

// Returns a text with the number of findings that `check` would report, and the
// command that lists them. If the target has a compiled program, the text
// states that findings about it are not counted. The text is empty if the lint
// settings are invalid.
std::string CheckText(const PlanFlags& flags, const Target& target,
                      const Compiled& compiled,
                      std::optional<ModelConfig> model,
                      const LintSettings& settings, Findings& findings) {
  LintFlags lint;
  lint.lists_names = false;  // findings are only counted
  const auto result = LintBySettings(target, compiled, std::move(model), lint,
                                     settings, findings);
  if (!result) return {};
  std::array<int64_t, 3> counts{};
  for (const Finding& finding : result->findings) {
    ++counts[static_cast<size_t>(finding.level)];
  }
  const std::string rest =
      HasProgram(flags, target) ? ", without the compiled program" : "";
  if (result->findings.empty()) return "nothing found" + rest + "\n";
  return Counted(counts[0], "error") + ", " + Counted(counts[1], "warning") +
         ", " + Counted(counts[2], "note") + rest +
         (counts[0] + counts[1] > 0
              ? ": run `shardc check` to list them\n"
              : ": run `shardc check --notes` to list them\n");
}

// Returns a summary in one line, which is printed if there are several targets.
std::string TargetLine(const Target& target, const Compiled& compiled,
                       const std::string& check) {
  const PlanSummary& summary = compiled.plan.summary;
  std::string out = "target      " + target.name + ": " +
                    Counted(summary.params, "parameter");
  if (summary.bytes_per_device) {
    out += ", " + BytesText(*summary.bytes_per_device) + " per device";
  }
  return out + "; check: " + check;
}

using StepReports = std::vector<verify::StepReport>;

// The results of the targets that this run has already planned.
struct Outcome {
  std::string diff;          // differences to print
  std::set<FileId> written;  // committed files written so far
};

// Two targets may name the same committed file, and the first target has just
// written it. Returns whether the second target, `target`, would write the same
// content. Otherwise adds a finding.
bool HoldsTheSame(const Write& write, const std::string& path,
                  const Target& target, Findings& findings) {
  const SourceRef held = ReadSource(path, findings);
  if (held == nullptr) return false;
  MatchingSink sink(held->text());
  write(sink);
  if (sink.Matches()) return true;
  findings.Add(
      code::kUsage, target.place,
      "`" + path + "` is shared by several targets, whose contents differ",
      "give each target's `plan` and `step` their own file");
  return false;
}

int ShowDifference(const PlanDifference& difference, const std::string& path,
                   const Common& common, std::string& out) {
  if (difference.empty()) {
    PrintMessage(common, path + ": no changes\n");
    return kDone;
  }
  out += Printable(path) + "\n";
  out += TextOf([&](Sink& sink) { WriteDiffText(difference, sink); });
  return kFound;
}

// Appends the differences between the committed plan and `plan` to `out`.
// Returns the exit status.
int ShowDiff(const Target& target, const Plan& plan, const Common& common,
             std::string& out, Findings& findings) {
  const SourceRef committed = ReadCommittedPlan(target, findings);
  if (committed == nullptr) return kFailed;
  const auto difference = DifferenceFrom(
      [&](Sink& sink) { WritePlanJson(plan, {}, sink); }, committed, findings);
  if (!difference) return kFailed;
  return ShowDifference(*difference, target.plan, common, out);
}

// Appends the differences between the committed step program and `steps` to
// `out`. Returns the exit status.
int ShowStepDiff(const Target& target, const StepReports& steps,
                 const Common& common, std::string& out, Findings& findings) {
  const SourceRef committed = ReadCommittedStep(target, findings);
  if (committed == nullptr) return kFailed;
  const auto difference =
      DifferenceFrom([&](Sink& sink) { WriteStepJson(steps, sink); }, committed,
                     findings, Committed::kStep);
  if (!difference) return kFailed;
  return ShowDifference(*difference, target.step, common, out);
}

// Adds a file that is committed next to the plan to the files to write. If a
// target before this one has written the file, only checks that both have the
// same text. An existing file is overwritten only if its format is `schema`.
// Returns the exit status.
template <typename Write>
int PutBesidePlan(const Target& target, const std::string& path,
                  std::string_view schema, const Write& write, FileSet& set,
                  Outcome& outcome, Findings& findings) {
  const bool good = outcome.written.contains(FileIdOf(path))
                        ? HoldsTheSame(write, path, target, findings)
                        : MayReplace(target, path, schema, findings) &&
                              set.AddWithFolders(path, write, findings);
  return good ? kDone : kFailed;
}

// Writes or compares the target's committed step program, if it has one.
// Returns the exit status.
int PutStep(const PlanFlags& flags, const Target& target,
            const Compiled& compiled, const std::optional<ModelConfig>& model,
            const Common& common, FileSet& set, Outcome& outcome,
            Findings& findings) {
  if (target.step.empty() || !(flags.diff || flags.write_locked)) return kDone;
  const auto steps = StepsToCommit(target, compiled, model, findings);
  if (!steps) return kFailed;
  if (flags.diff) {
    return ShowStepDiff(target, *steps, common, outcome.diff, findings);
  }
  const auto write = [&](Sink& out) { WriteStepJson(*steps, out); };
  return PutBesidePlan(target, target.step, "shardc.step", write, set, outcome,
                       findings);
}

// Appends the lines about the committed file `path`. Returns the exit status.
int ShowLines(const std::vector<std::string>& changes, const std::string& path,
              const Common& common, std::string& out) {
  if (changes.empty()) {
    PrintMessage(common, path + ": no changes\n");
    return kDone;
  }
  out += Printable(path) + "\n";
  for (const std::string& change : changes) {
    out += "  " + Printable(change) + "\n";
  }
  return kFound;
}

// Appends the differences between the committed summary of the compiled program
// and its current summary to `out`. Returns the exit status.
int ShowAuditDiff(const Target& target, const AuditInput& audit,
                  const TargetProgram& program, const Common& common,
                  std::string& out, Findings& findings) {
  const auto changes = SummaryChanges(target, audit, program, findings);
  return changes ? ShowLines(*changes, audit.locked, common, out) : kFailed;
}

// If the target's compiled program has a committed summary, writes or compares
// the summary. Returns the exit status.
int PutAudit(const PlanFlags& flags, const Target& target, const Mesh& mesh,
             const Common& common, FileSet& set, Outcome& outcome,
             Findings& findings) {
  if (!flags.diff && !flags.write_locked) return kDone;
  const size_t before = findings.errors();
  const auto audit =
      ReadAuditInput(target, flags.inputs.asked.allow_outside, findings);
  if (findings.errors() > before) return kFailed;
  if (!audit || audit->locked.empty()) return kDone;
  const auto program = ReadTargetProgram(target, *audit, mesh, findings);
  if (program == nullptr) return kFailed;
  if (flags.diff) {
    return ShowAuditDiff(target, *audit, *program, common, outcome.diff,
                         findings);
  }
  const std::string& path = audit->locked;
  const auto write = [&](Sink& out) {
    WriteAuditLock(*program->report, program->program.IsScheduled(), out);
  };
  return PutBesidePlan(target, path, "shardc.audit-lock", write, set, outcome,
                       findings);
}

// Writes or compares the figures with which the budget of the target compares
// the growth of a step. Returns the exit status.
int PutFigures(const PlanFlags& flags, const Target& target,
               const StagedTarget& compiled, const Common& common, FileSet& set,
               Outcome& outcome, Findings& findings) {
  if (!(flags.diff || flags.write_locked) || !target.budget.growth) {
    return kDone;
  }
  const auto figures = FiguresOfTarget(target, compiled, findings);
  if (!figures) return kFailed;
  const std::string path = CostLockPath(target.plan);
  if (flags.diff) {
    const auto changes = FigureChanges(target, *figures, findings);
    return changes ? ShowLines(*changes, path, common, outcome.diff) : kFailed;
  }
  const cost::CostLock lock = {Fingerprint(compiled.compiled->plan),
                               target.budget.mode, *figures};
  const auto write = [&](Sink& out) { WriteCostLock(lock, out); };
  return PutBesidePlan(target, path, "shardc.cost-lock", write, set, outcome,
                       findings);
}

// Returns whether the plan is written as JSON. People who read the summary on a
// terminal would lose it above thousands of lines.
bool WantsJson(const PlanFlags& flags, const Common& common) {
  if (!flags.format.empty()) return flags.format == "json";
  return !flags.output.empty() || common.quiet || isatty(STDOUT_FILENO) != 1;
}

// Writes the plan to the file of `--write-locked` or `--output`. Returns false
// after a finding.
bool PutPlan(const PlanFlags& flags, const Target& target,
             const Compiled& compiled, std::span<const Finding> found,
             const Common& common, FileSet& set, const Outcome& outcome,
             Findings& findings) {
  const auto write = [&](FileSink& out) {
    WritePlanJson(compiled.plan, found, out, ThreadsOr(common.threads));
  };
  if (!flags.write_locked) {
    if (!WantsJson(flags, common)) {
      PrintMessage(
          common,
          "\nThe plan itself is not printed: `-o plan.json` writes it, "
          "and a pipe or `--format json` takes it.\n");
      return true;
    }
    const auto to = ResultPath(flags.output, findings);
    if (!to) return false;
    FileSink file(*to);
    write(file);
    return file.Commit(findings);
  }
  const std::string& path = target.plan;
  if (outcome.written.contains(FileIdOf(path))) {
    const auto again = [&](Sink& out) {
      WritePlanJson(compiled.plan, found, out);
    };
    return HoldsTheSame(again, path, target, findings);
  }
  return MayReplace(target, path, "shardc.plan", findings) &&
         set.AddWithFolders(path, write, findings);
}

// Gives the committed files of a target their names. Returns false after a
// finding.
bool PublishCommitted(FileSet& set, Outcome& outcome, Findings& findings) {
  if (!set.Publish(kResumeIndex, false, findings)) return false;
  for (const std::string& path : set.paths()) {
    outcome.written.insert(FileIdOf(path));
  }
  return true;
}

// Plans one target and returns the exit status. If `settings` is given, also
// runs the lints and prints how many findings `check` would report.
int PlanOne(const PlanFlags& flags, const Target& target, const Common& common,
            const std::optional<LintSettings>& settings, bool in_one_line,
            Outcome& outcome, Findings& findings) {
  const StagedTarget staged = CompileFor(flags, target, common, findings);
  const std::shared_ptr<const Compiled>& compiled = staged.compiled;
  const std::optional<ModelConfig>& model = staged.model;
  if (compiled == nullptr) return kFailed;
  // If the declared stages are refused, no plan is written. A plan without
  // stages would not be the plan that the inputs describe.
  Findings stages = StageFindings(*compiled);
  if (stages.HasErrors()) {
    const int status = StageStatus(stages);
    findings.Append(std::move(stages));
    return status;
  }
  Findings found = PlanFindings(*compiled);
  bool refused = found.HasErrors();
  if (!refused) {
    found = ReplicatedFindings(
        target, *compiled, ProjectLintSettings(flags.inputs.asked, findings));
    refused = found.HasErrors();
  }
  if (settings) {
    const std::string check =
        CheckText(flags, target, *compiled, model, *settings, findings);
    PrintMessage(common, in_one_line
                             ? TargetLine(target, *compiled, check)
                             : PlanSummaryText(*compiled) +
                                   (check.empty() ? "" : "\ncheck       ") +
                                   check);
  }
  int status = refused ? kFound : kDone;
  if (refused && !flags.keep_going) {
    findings.Append(std::move(found));
    return status;
  }
  FileSet set;
  status = std::max(status, PutStep(flags, target, *compiled, model, common,
                                    set, outcome, findings));
  status = std::max(status, PutAudit(flags, target, compiled->plan.mesh, common,
                                     set, outcome, findings));
  status = std::max(status, PutFigures(flags, target, staged, common, set,
                                       outcome, findings));
  const bool committed = flags.diff || flags.write_locked;
  if (flags.diff && !target.plan.empty()) {
    status = std::max(status, ShowDiff(target, compiled->plan, common,
                                       outcome.diff, findings));
  } else if (!(committed && target.plan.empty()) &&
             !PutPlan(flags, target, *compiled,
                      refused ? found.all() : std::span<Finding>{}, common, set,
                      outcome, findings)) {
    status = kFailed;
  }
  if (status != kFailed && !PublishCommitted(set, outcome, findings)) {
    status = kFailed;
  }
  findings.Append(std::move(found));
  return status;
}

// Reads the inputs of all targets before any plan is written. A command never
// overwrites a file that it has read, so no target's plan can replace an input
// of another target. Planning reads the inputs again, because the inputs of all
// targets together may not fit in memory.
void NoteReads(const PlanFlags& flags, std::span<const Target> targets,
               const Common& common, Findings& findings) {
  for (const Target& target : targets) {
    if (target.manifest == "-") continue;  // stdin can be read only once
    Findings own;
    LoadTarget(flags.inputs, target, common, own);
    findings.NoteReadsOf(own);
  }
}

int RunPlan(const PlanFlags& flags, const Common& common, Findings& findings) {
  const auto targets = Targets(flags, common, findings);
  if (!targets) return kFailed;
  if (flags.write_locked && targets->size() > 1) {
    NoteReads(flags, *targets, common, findings);
  }
  std::optional<LintSettings> settings;
  if (!flags.diff && !common.quiet) {
    settings = ProjectLintSettings(flags.inputs.asked, findings);
  }
  int status = kDone;
  Outcome outcome;
  for (const Target& target : *targets) {
    Findings own;
    own.NoteReadsOf(findings);
    status = std::max(status, PlanOne(flags, target, common, settings,
                                      targets->size() > 1, outcome, own));
    for (Finding finding : own.all()) {
      if (targets->size() > 1) finding.targets = {target.name};
      findings.Add(std::move(finding));
    }
  }
  if (flags.diff && !PutOut(outcome.diff, findings)) return kFailed;
  return status;
}

Options OptionsOf(PlanFlags& flags) {
  Options options = AllInputs(flags.inputs);
  TakeSeveralTargets(options, flags.inputs,
                     "the only one; all with --write-locked and --diff");
  Append(
      options,
      {OutputOption(&flags.output,
                    "file to write the plan to (default: stdout)"),
       {.name = "--format",
        .to = &flags.format,
        .value = "text|json",
        .help = "format of the result: `text` prints only the summary "
                "(default: on a terminal without `-o`), `json` writes the plan",
        .checked = true},
       {.name = "--keep-going",
        .to = &flags.keep_going,
        .help = "write the plan, with its diagnostics, even if parameters "
                "are unmatched or specs are illegal"},
       {.name = "--write-locked",
        .to = &flags.write_locked,
        .help = "write the committed plans of the targets, all by default"},
       {.name = "--diff",
        .to = &flags.diff,
        .help = "print what would change in the committed plans; exit 1 if "
                "anything would"},
       {.name = "--weight-decay-exclude",
        .to = &flags.weight_decay_exclude,
        .value = "REGEX",
        .help = "patterns of parameters without weight decay; adds a "
                "boolean to each parameter of the plan",
        .several = Several::kWords}});
  return options;
}

}  // namespace

Declared DeclarePlan() { return Declare(OptionsOf, RunPlan); }

}  // namespace shardc::cli
