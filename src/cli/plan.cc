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

#include "cli/commands.h"
#include "cli/committed_plan.h"
#include "cli/file_set.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/plan_companions.h"
#include "cli/plan_findings.h"
#include "emit/emit.h"
#include "lint/baseline.h"
#include "model/option_value.h"
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
    const bool audited = flags.write_locked &&
                         HasAudit(target, flags.inputs.asked.allow_outside);
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
             const Common& common, FileSet& set,
             const CommittedOutcome& outcome, Findings& findings) {
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
bool PublishCommitted(FileSet& set, CommittedOutcome& outcome,
                      Findings& findings) {
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
            CommittedOutcome& outcome, Findings& findings) {
  const StagedTarget staged = CompileFor(flags, target, common, findings);
  const std::shared_ptr<const Compiled>& compiled = staged.compiled;
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
    const std::string check = CheckText(
        target, flags.inputs.asked.allow_outside, staged, *settings, findings);
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
  const bool committed = flags.diff || flags.write_locked;
  if (committed) {
    const Committing run = {target, staged, common,
                            flags.inputs.asked.allow_outside, flags.diff};
    status = std::max(status, PutCompanions(run, set, outcome, findings));
  }
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
  CommittedOutcome outcome;
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
        .need = HelpNeed::kMost,
        .to = &flags.format,
        .value = "text|json",
        .help = "format of the result: `text` prints only the summary "
                "(default: on a terminal without `-o`), `json` writes the plan",
        .checked = true},
       {.name = "--keep-going",
        .need = HelpNeed::kMost,
        .to = &flags.keep_going,
        .help = "write the plan in spite of errors; parameters may "
                "be unmatched and specs illegal, and the plan has "
                "the diagnostics"},
       {.name = "--write-locked",
        .need = HelpNeed::kMost,
        .to = &flags.write_locked,
        .help = "write the committed plans of the targets; all by "
                "default"},
       {.name = "--diff",
        .need = HelpNeed::kOften,
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
