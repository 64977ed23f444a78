// Checks the compiled program of a target. A build creates the program, so it
// may be missing or outdated. For each key of the target's section `audit`,
// `check` reports:
//
//   budget: {all_gather: {tp: 0}}  SHD611 if an all-gather over tp sends bytes
//   locked: llama.audit.json       SHD612 if the program sends more than the
//                                  summary in this file records
//   program: llama.hlo.txt         flaws (SHD601 ...) that the summary lacks
#include "cli/target_audit.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "audit/audit.h"
#include "audit/growth.h"
#include "cli/committed_plan.h"
#include "cli/compared_program.h"
#include "cli/cost_flags.h"
#include "cli/inputs.h"
#include "cli/pictured.h"
#include "emit/costs/cost_report.h"
#include "model/axis_rules.h"
#include "parse/project.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/json.h"
#include "source/repository.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// Reads the committed summary of the target's program. Returns nullopt after a
// finding.
std::optional<audit::Lock> ReadTargetLock(const Target& target,
                                          const AuditInput& audit,
                                          Findings& findings) {
  const std::string& path = audit.locked;
  if (!IsThere(path)) {
    findings.Add(code::kMissing, target.place,
                 "the committed summary `" + path + "` is not there",
                 "`shardc plan --write-locked` writes it");
    return std::nullopt;
  }
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return std::nullopt;
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return std::nullopt;
  return audit::ReadLock(*document, findings);
}

// Returns whether the committed summary `lock` can be compared with the
// program. Both must be for the same number of devices and of the same stage of
// compilation (partitioned or optimised). Adds a finding if they are not.
bool Suits(const audit::Lock& lock, const TargetProgram& program,
           const Target& target, const AuditInput& audit, Findings& findings) {
  const bool scheduled = program.program.IsScheduled();
  if (lock.sent.devices == program.report->devices &&
      lock.scheduled == scheduled) {
    return true;
  }
  const auto text = [](int64_t devices, bool is_scheduled) {
    return "the " + std::string(audit::StageName(is_scheduled)) +
           " program of " + Counted(devices, "device");
  };
  findings.Add(code::kDeviceCount, target.place,
               "`" + audit.locked + "` is the summary of " +
                   text(lock.sent.devices, lock.scheduled) + ", and `" +
                   audit.program + "` is " +
                   text(program.report->devices, scheduled),
               "give the program of the same stage, or write the summary again "
               "with `shardc plan --write-locked`");
  return false;
}

void Append(FindingSink& out, Findings more) {
  for (const Finding& one : more.all()) out.push_back({one});
}

}  // namespace

std::optional<AuditInput> ReadAuditInput(const Target& target,
                                         bool allow_outside,
                                         Findings& findings) {
  return ReadTargetAudit(target, audit::LimitedCollectives(), allow_outside,
                         findings);
}

std::unique_ptr<const TargetProgram> ReadTargetProgram(const Target& target,
                                                       const AuditInput& audit,
                                                       const Mesh& mesh,
                                                       Findings& findings) {
  const std::string& path = audit.program;
  if (!IsThere(path)) {
    findings.Add(code::kMissing, target.place,
                 "the compiled program `" + path + "` is not there",
                 "compile the step and write the text of the program there, as "
                 "the guide of `shardc audit` shows");
    return nullptr;
  }
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return nullptr;
  auto program = hlo::ReadProgram(source, findings);
  if (!program) return nullptr;
  auto out = std::make_unique<TargetProgram>();
  out->program = std::move(*program);
  out->report = audit::Audit(out->program, {&mesh, nullptr}, findings);
  if (!out->report) return nullptr;
  return out;
}

void CheckBudgetAxes(const AuditInput& audit, const Mesh& mesh,
                     Findings& findings) {
  for (const AuditLimit& limit : audit.limits) {
    if (limit.over.empty()) continue;
    for (const std::string& axis : audit::AxesIn(limit.over)) {
      const auto rules = ParallelismRules();
      const bool known =
          mesh.Find(axis) ||
          std::any_of(rules.begin(), rules.end(), [&](AxisRule rule) {
            return AxisRules().Value(rule).axes.front() == axis;
          });
      if (known) continue;
      findings.Add(
          code::kReference, limit.place,
          "the budget of `" + limit.of + "` over `" + limit.over + "` names " +
              ShortQuote(axis) + ", which is no axis of the mesh",
          "the mesh is " + MeshText(mesh) + "; several axes are joined by `+`");
      break;
    }
  }
}

FindingSink BudgetFindings(const AuditInput& audit, const audit::Sums& sums,
                           const Selection& selection) {
  FindingSink out;
  if (!selection.Selects(code::kOverAuditBudget)) return out;
  for (const audit::Excess& one : audit::OverBudget(audit.limits, sums)) {
    const AuditLimit& limit = *one.limit;
    const std::string what =
        limit.of == "total" ? "the compiled program sends "
        : limit.of == "activations_gathered"
            ? "all_gathers of activations send "
            : limit.of +
                  (limit.over.empty() ? "" : " over `" + limit.over + "`") +
                  " sends ";
    Finding finding;
    finding.code = &code::kOverAuditBudget;
    finding.place = limit.place;
    finding.message = what + BytesText(one.sent) + " per device, and the " +
                      "budget is " + BytesText(limit.bytes) +
                      (one.most.empty() ? "" : "; most of it is " + one.most);
    finding.help = "`shardc audit " + audit.program +
                   "` lists what is sent, by source line";
    out.push_back(std::move(finding));
  }
  return out;
}

FindingSink CheckProgram(const Target& target, const AuditInput& audit,
                         const Mesh& mesh, bool locked,
                         const Selection& selection, Findings& errors) {
  if (!locked && !IsThere(audit.program)) return {};
  const auto program = ReadTargetProgram(target, audit, mesh, errors);
  if (program == nullptr) return {};
  const audit::Report& report = *program->report;
  FindingSink out = BudgetFindings(audit, audit::SumsOf(report), selection);
  std::optional<audit::Lock> lock;
  const std::string& path = audit.locked;
  if (!path.empty() && (locked || IsThere(path))) {
    lock = ReadTargetLock(target, audit, errors);
    if (!lock) return out;
  }
  Append(out, AuditFindings(program->program, report, selection,
                            lock ? &*lock : nullptr));
  if (locked && lock && selection.Selects(code::kTrafficGrew) &&
      Suits(*lock, *program, target, audit, errors)) {
    Append(out, GrowthFindings(
                    program->program, report,
                    audit::GrowthOf(lock->sent, audit::SentOf(report)), path));
  }
  return out;
}

std::optional<std::vector<std::string>> SummaryChanges(
    const Target& target, const AuditInput& audit, const TargetProgram& program,
    Findings& findings) {
  const auto lock = ReadTargetLock(target, audit, findings);
  if (!lock) return std::nullopt;
  return audit::ChangesOf(
      *lock, audit::LockOf(*program.report, program.program.IsScheduled()));
}

std::shared_ptr<const audit::Sums> ProgramSums::Of(const Target& target,
                                                   const AuditInput& audit,
                                                   const Mesh& mesh) {
  const std::string& path = audit.program;
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) return nullptr;
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) return nullptr;
  const std::scoped_lock lock(mutex_);
  const auto [at, added] = known_.try_emplace({path, MeshText(mesh)});
  Known& known = at->second;
  if (added || known.size != size || known.time != time) {
    known = {size, time, nullptr};
    Findings unread;
    const auto program = ReadTargetProgram(target, audit, mesh, unread);
    if (program != nullptr) {
      known.sums =
          std::make_shared<const audit::Sums>(audit::SumsOf(*program->report));
    }
  }
  return known.sums;
}

// Checks the section `budget` of a target. The figures are those that `cost`
// prints for the target. A figure that is not known does not pass: the finding
// names the facts that would settle it. For example:
//
//   budget: {memory: 70GiB, growth: 5%}
//     ->  the memory of a step is 71.2 GiB per device, and the budget is
//         70 GiB; most of it is activations (30 GiB), optimizer (22 GiB) ...
//     ->  the memory of a step grew by 70.0 %, from 41.9 GiB to 71.2 GiB ...

namespace {

using cost::BudgetFigure;
using cost::StepFigure;
using cost::StepFigures;

constexpr std::array<std::string_view, cost::kBudgetFigureNames.size()>
    kSubjects = {"the memory of a step", "what a step sends",
                 "the time of a step"};

std::string ValueText(BudgetFigure name, double value) {
  if (name == BudgetFigure::kTime) return SecondsText(value);
  // A sum of bytes is saturated at 2^63 - 1, which a double rounds up.
  constexpr double kMost = 9.2e18;
  return BytesText(std::llround(std::min(value, kMost)));
}

std::string PerDevice(BudgetFigure name) {
  return name == BudgetFigure::kTime ? "" : " per device";
}

// Returns the largest parts: "activations (3 GiB) and optimizer (2 GiB)".
std::string PartsText(BudgetFigure name,
                      const std::vector<cost::FigurePart>& parts) {
  constexpr size_t kListed = 3;
  return ListInWords(First(parts, kListed), [&](const cost::FigurePart& part) {
    return part.first + " (" + ValueText(name, part.second) + ")";
  });
}

Finding BudgetFinding(const Place& place, std::string message,
                      std::string help) {
  Finding out;
  out.code = &code::kOverStepBudget;
  out.level = Level::kError;
  out.place = place;
  out.message = std::move(message);
  out.help = std::move(help);
  return out;
}

// Returns the finding that a limit cannot be checked, because the figure is not
// known or only a lower bound.
Finding Unknown(BudgetFigure name, const StepFigure& figure,
                const Place& place) {
  const std::string subject(kSubjects[static_cast<size_t>(name)]);
  std::string message =
      figure.value
          ? subject + " is at least " + ValueText(name, *figure.value) +
                PerDevice(name) +
                ", and how much more is not known, so the budget is not checked"
          : subject + " is not known, so its budget is not checked";
  std::string settled;
  for (const NotKnown& fact : figure.unknown) {
    message +=
        (&fact == figure.unknown.data() ? ": " : "; ") + NotKnownText(fact);
    if (!fact.settled_by.empty() &&
        settled.find(fact.settled_by) == std::string::npos) {
      AppendItem(settled, ", and ", fact.settled_by);
    }
  }
  return BudgetFinding(
      place, std::move(message),
      settled.empty()
          ? "give `model`, `batch` and `seq` in the target; `shardc "
            "cost` lists what is not known"
          : "give " + settled + ", by a key of the target");
}

void CheckLimit(BudgetFigure name, const StepFigure& figure,
                const std::optional<BudgetLimit>& limit, FindingSink& out) {
  if (!limit) return;
  if (!figure.value || (*figure.value <= limit->value && figure.at_least)) {
    out.push_back({Unknown(name, figure, limit->place)});
    return;
  }
  if (*figure.value <= limit->value) return;
  const std::string parts = PartsText(name, cost::LargestParts(figure));
  out.push_back({BudgetFinding(
      limit->place,
      std::string(kSubjects[static_cast<size_t>(name)]) + " is " +
          (figure.at_least ? "at least " : "") +
          ValueText(name, *figure.value) + PerDevice(name) +
          ", and the budget is " + ValueText(name, limit->value) +
          (parts.empty() ? "" : "; most of it is " + parts),
      "`shardc cost` lists the parts; change the rules or the settings of the "
      "step, or raise the budget")});
}

// Returns whether growth of the figure is limited. Without rates of the device,
// neither the committed nor the present figures have a time.
bool HasGrowth(BudgetFigure name, const StepFigure& before,
               const StepFigure& now) {
  return name != BudgetFigure::kTime || before.value || now.value;
}

void CheckGrowth(BudgetFigure name, const StepFigure& before,
                 const StepFigure& now, const BudgetLimit& limit,
                 FindingSink& out) {
  if (!HasGrowth(name, before, now)) return;
  const std::string subject(kSubjects[static_cast<size_t>(name)]);
  if (!now.IsKnown()) {
    out.push_back({Unknown(name, now, limit.place)});
    return;
  }
  if (!before.IsKnown()) {
    out.push_back({BudgetFinding(
        limit.place,
        subject + " was not known when the plan was committed, so its growth "
                  "is not checked",
        "look at the figure that `shardc cost` prints, then run `shardc plan "
        "--write-locked`")});
    return;
  }
  if (*now.value <= *before.value * (1 + limit.value)) return;
  const std::string parts = PartsText(name, cost::LargestParts(now, &before));
  const std::string by =
      *before.value > 0 ? " by " + PercentText(*now.value / *before.value - 1)
                        : "";
  out.push_back({BudgetFinding(
      limit.place,
      subject + " grew" + by + ", from " + ValueText(name, *before.value) +
          " to " + ValueText(name, *now.value) + PerDevice(name) +
          ", and the budget allows " + PercentText(limit.value) +
          (parts.empty() ? "" : "; most of the growth is " + parts),
      "if the growth is intended, `shardc plan --write-locked` commits the new "
      "figures")});
}

// Returns the fingerprint that a plan states, or an empty text. The member is
// one of the first of a plan, so the plan need not be parsed.
std::string_view FingerprintIn(std::string_view plan) {
  constexpr std::string_view kKey = "\"fingerprint\"";
  constexpr std::string_view kPrefix = "\"sha256:";
  const size_t key = plan.find(kKey);
  if (key == std::string_view::npos) return {};
  const size_t begin = plan.find(kPrefix, key);
  if (begin == std::string_view::npos) return {};
  const size_t end = plan.find('"', begin + 1);
  if (end == std::string_view::npos) return {};
  return plan.substr(begin + 1, end - begin - 1);
}

// Reads the figures that are committed next to the target's plan. Returns
// nullopt after a finding, for example if they were written with another plan.
std::optional<cost::CostLock> ReadTargetCost(const Target& target,
                                             Findings& findings) {
  const std::string path = CostLockPath(target.plan);
  constexpr std::string_view kWrite = "run `shardc plan --write-locked`";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    findings.Add(code::kMissing, target.budget.growth->place,
                 "the committed figures `" + path +
                     "`, with which `growth` compares, are not there",
                 std::string(kWrite));
    return std::nullopt;
  }
  const SourceRef plan = ReadCommittedPlan(target, findings);
  const SourceRef source = ReadSource(path, findings);
  if (plan == nullptr || source == nullptr) return std::nullopt;
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return std::nullopt;
  auto lock = cost::ReadCostLock(*document, findings);
  if (!lock) return std::nullopt;
  const bool same_plan = lock->plan == FingerprintIn(plan->text());
  if (same_plan && lock->mode == target.budget.mode) return lock;
  findings.Add(
      code::kSchema,
      document->root().Find(same_plan ? "mode" : "plan")->place(),
      same_plan ? "these figures are of another mode than the budget of the "
                  "target"
                : "these figures were not written together with the committed "
                  "plan `" +
                      target.plan + "`",
      std::string(kWrite) + ", which writes both");
  return std::nullopt;
}

}  // namespace

std::string CostLockPath(const std::string& plan) {
  std::string_view stem = plan;
  for (const std::string_view suffix : {".json", ".plan"}) {
    if (stem.ends_with(suffix)) stem.remove_suffix(suffix.size());
  }
  return std::string(stem) + ".cost.json";
}

std::optional<StepFigures> FiguresOfTarget(const Target& target,
                                           const StagedTarget& compiled,
                                           Findings& findings) {
  const Mode mode = target.budget.mode;
  if (!CheckMode(compiled.compiled->plan.modes, mode, findings)) {
    return std::nullopt;
  }
  const auto settings = CostSettings({}, target, mode, findings);
  const auto work = CompiledWork(compiled, mode, findings);
  if (!settings || !work) return std::nullopt;
  if (!compiled.declared) {
    return cost::FiguresOf(
        CostOf(compiled.compiled.get(), compiled.model, *work, *settings));
  }
  StageSizes sizes = {mode, settings->batch, settings->length, {}};
  if (GivesMicrobatches({}, target, mode)) {
    sizes.microbatches = settings->microbatches;
  }
  const auto cost =
      CostOfStages(compiled, *work, *settings, false, sizes, findings);
  if (!cost) return std::nullopt;
  return cost::FiguresOf(*cost, *work);
}

FindingSink CheckStepBudget(const Target& target, const StagedTarget& compiled,
                            bool locked, const Selection& selection,
                            Findings& errors) {
  FindingSink out;
  const StepBudget& budget = target.budget;
  // Errors in step options are reported even if no budget needs the options.
  if (!CostSettings({}, target, budget.mode, errors)) return out;
  if (budget.IsEmpty() || !selection.Selects(code::kOverStepBudget)) return out;
  Findings wrong;
  auto figures = FiguresOfTarget(target, compiled, wrong);
  errors.NoteReadsOf(wrong);
  if (!figures) {
    // The plan or the stages have an error, which other findings report too.
    figures.emplace();
    for (StepFigure& figure : *figures) {
      for (const Finding& one : wrong.all()) {
        figure.unknown.push_back({.what = one.message});
      }
    }
  }
  const auto& [memory, sent, time] = *figures;
  CheckLimit(BudgetFigure::kMemory, memory, budget.memory, out);
  CheckLimit(BudgetFigure::kSent, sent, budget.sent, out);
  CheckLimit(BudgetFigure::kTime, time, budget.time, out);
  std::error_code error;
  if (!budget.growth ||
      (!locked && !std::filesystem::exists(CostLockPath(target.plan), error))) {
    return out;
  }
  const auto before = ReadTargetCost(target, errors);
  if (!before) return out;
  for (size_t i = 0; i < figures->size(); ++i) {
    CheckGrowth(static_cast<BudgetFigure>(i), before->figures[i], (*figures)[i],
                *budget.growth, out);
  }
  return out;
}

std::optional<std::vector<std::string>> FigureChanges(const Target& target,
                                                      const StepFigures& now,
                                                      Findings& findings) {
  const auto before = ReadTargetCost(target, findings);
  if (!before) return std::nullopt;
  std::vector<std::string> out;
  for (size_t i = 0; i < now.size(); ++i) {
    const auto name = static_cast<BudgetFigure>(i);
    const auto text = [&](const StepFigure& one) {
      return one.value ? (one.at_least ? "at least " : "") +
                             ValueText(name, *one.value)
                       : std::string("not known");
    };
    const std::string from = text(before->figures[i]), to = text(now[i]);
    if (from != to) {
      out.push_back(std::string(kSubjects[i]) + ": " + from + " -> " + to +
                    PerDevice(name));
    }
  }
  return out;
}

// Converts the results of an audit to findings at lines of Python files. The
// program's text names a Python file by its path on the machine that compiled
// the program. If this machine has no such file, class Repository looks in the
// current Git repository for a file with a similar path.
//
// If there is no such file, or if the file is too short, the finding still
// states the file name and the line number. Its place is then in a text of
// empty lines that stands for the file. For example:
//
//   model.py:31, no such file  ->  line 31 of a text of 31 line breaks

namespace {

constexpr int64_t kMostLines = 1'000'000;
constexpr int64_t kMostBytes = int64_t{16} << 20;  // larger files are not read

class PythonFiles {
 public:
  // Returns the place of a line in its file. If the line number is less than 1
  // or too large, the place has the file but no position in the file.
  Place PlaceOf(const hlo::SourceLine& line) {
    const std::string name = NameOf(line.file);
    SourceRef source = Read(name);
    const bool known = line.line >= 1 && line.line <= kMostLines;
    const auto number = static_cast<int>(known ? line.line : 1);
    if (source == nullptr || !HasLine(*source, number)) {
      source = MakeSource(name, std::string(static_cast<size_t>(number), '\n'));
    }
    if (!known) return {source};
    const size_t begin = source->LineStart(number);
    const std::string_view text = source->Line(number);
    const size_t blanks = std::min(text.find_first_not_of(" \t"), text.size());
    return {source, begin + blanks, begin + text.size()};
  }

 private:
  // Returns null if the file cannot be read. Only Python files are read,
  // because the program's text is not trusted and could name any file.
  SourceRef Read(const std::string& name) {
    const auto [at, added] = read_.try_emplace(name);
    if (added && name.ends_with(".py")) {
      Findings unread;
      at->second = ReadSource(name, unread, kMostBytes);
    }
    return at->second;
  }

  // Returns the path of the file on this machine. `file` may be a path of the
  // machine that compiled the program. If it does not exist here, returns the
  // file of the current Git repository whose path is the longest ending of
  // `file`, or else `file` itself:
  //
  //   /home/ci/repo/model/mlp.py  ->  model/mlp.py
  std::string NameOf(std::string_view file) {
    const auto [at, added] = names_.try_emplace(std::string(file), file);
    std::error_code error;
    if (added && file.ends_with(".py") &&
        !std::filesystem::exists(at->first, error)) {
      const char* workspace = std::getenv("GITHUB_WORKSPACE");
      if (!repository_) {
        repository_ = Repository::Find(workspace == nullptr ? "" : workspace);
      }
      at->second = repository_->FileLike(at->first).value_or(at->first);
    }
    return at->second;
  }

  static bool HasLine(const Source& source, int number) {
    const std::string_view text = source.text();
    return !text.empty() && number <= source.At(text.size()).line;
  }

  std::map<std::string, SourceRef> read_;
  std::map<std::string, std::string> names_;
  std::optional<Repository> repository_;
};

// Returns the line that calls the function in which a flaw is. A flaw is a
// mistake that the audit found in the program, and `flaw.line` is its line of
// Python code. Returns nullopt if the caller is unknown or in an installed
// package.
std::optional<hlo::SourceLine> CallerOf(const audit::Flaw& flaw,
                                        const hlo::Frames& frames) {
  const auto stack = frames.StackOf(flaw.metadata);
  auto at = std::ranges::find(stack, flaw.line);
  if (flaw.line.file.empty() || at == stack.end()) return std::nullopt;
  const hlo::SourceLine caller = hlo::UserLine({at + 1, stack.end()});
  // UserLine() prefers callers outside of installed packages.
  if (caller.file.empty() || hlo::IsInPackage(caller)) return std::nullopt;
  return caller;
}

// Returns the lines in helpers that lead to `with_sharding_constraint`
// (audit/runs.h), outermost first, if the flaw is placed at the line that calls
// the outermost helper.
std::vector<hlo::SourceLine> ConstraintsOf(const audit::Flaw& flaw,
                                           const hlo::Frames& frames) {
  auto stack = frames.StackOf(flaw.metadata);
  stack.erase(std::ranges::find(stack, flaw.line), stack.end());
  std::erase_if(stack, hlo::IsInPackage);
  std::ranges::reverse(stack);
  return stack;
}

}  // namespace

Findings AuditFindings(const hlo::Program& program, const audit::Report& report,
                       const Selection& selection, const audit::Lock* locked) {
  PythonFiles files;
  Findings out;
  for (const audit::Flaw& flaw : report.flaws) {
    if (!selection.Selects(*flaw.code)) continue;
    if (locked != nullptr && locked->Has(audit::LockedOf(flaw))) {
      continue;
    }
    Finding finding;
    finding.code = flaw.code;
    finding.level = flaw.level;
    finding.level = selection.LevelOf(finding);
    finding.message = flaw.message;
    finding.help = flaw.help;
    finding.place = flaw.line.file.empty() ? program.PlaceOf(flaw.at)
                                           : files.PlaceOf(flaw.line);
    if (!flaw.parameter.empty()) finding.params = {flaw.parameter};
    for (const auto& helper : ConstraintsOf(flaw, *report.frames)) {
      finding.labels.push_back({files.PlaceOf(helper), "constrained here"});
    }
    if (const auto caller = CallerOf(flaw, *report.frames)) {
      finding.labels.push_back({files.PlaceOf(*caller), "called from here"});
    }
    out.Add(std::move(finding));
  }
  out.Sort();
  return out;
}

Findings GrowthFindings(const hlo::Program& program,
                        const audit::Report& report,
                        std::span<const audit::Growth> growth,
                        const std::string& committed) {
  PythonFiles files;
  Findings out;
  for (const audit::Growth& one : growth) {
    // Find the collective that caused the growth. It has the kind and the mesh
    // axes of the growth's route, and the tensor, shape and function of its
    // cause. If several collectives have these, take the one that sends the
    // most bytes.
    const audit::Traffic* most = nullptr;
    for (const audit::Traffic& traffic : report.traffic) {
      const bool caused = audit::RouteOf(traffic) == one.route &&
                          audit::MovedText(traffic.moved) == one.cause.what &&
                          traffic.moved.shape == one.cause.shape &&
                          traffic.line.function == one.cause.function;
      if (caused &&
          (most == nullptr || traffic.sent.value() > most->sent.value())) {
        most = &traffic;
      }
    }
    Finding finding;
    finding.code = &code::kTrafficGrew;
    finding.message = one.route.first + " over `" + one.route.second +
                      "` sends " + BytesText(one.after) + " per device, and " +
                      (one.before == 0 ? "nothing" : BytesText(one.before)) +
                      " in the committed summary";
    if (most != nullptr) {
      finding.message += "; most of what is new is " + one.cause.what + " `" +
                         one.cause.shape + "`";
    }
    finding.help =
        "look at what changed the sharding at this line; if it is "
        "intended, `shardc plan --write-locked` writes `" +
        committed + "` again";
    finding.place = most == nullptr || most->line.file.empty()
                        ? program.PlaceOf(program.name)
                        : files.PlaceOf(most->line);
    out.Add(std::move(finding));
  }
  return out;
}

}  // namespace shardc::cli
