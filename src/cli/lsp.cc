// `shardc lsp`: the language server over standard input and output. One thread
// reads and handles the messages, and runs a check when no more messages
// arrive. If checks are slow, the server first waits for a pause in the input,
// so that a check does not delay the response to the next key. If the input
// never pauses, a check runs one second after the first unchecked edit:
//
//   checks take 20 ms   ->  an edit is checked at once
//   checks take 200 ms  ->  after 40 ms without input
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/check_targets.h"
#include "cli/commands.h"
#include "cli/fixes.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/target_audit.h"
#include "cli/version.h"
#include "lint/baseline.h"
#include "lint/rules/all.h"
#include "lsp/recover.h"
#include "lsp/server.h"
#include "lsp/workspace.h"
#include "match/sketch.h"
#include "parse/project.h"
#include "source/sink.h"
#include "source/size.h"
#include "target/open.h"

namespace shardc::cli {
namespace {

// Reads and checks a project as `check` does, but reads the texts of open files
// from the editor. Editors show findings only in files, so a finding without a
// place is placed in the project file:
//
//   `select: [SHD999]`, no such code  ->  shown at the top of shardc.yaml
//
// If rules files have errors, the project is read again without the rules that
// have the errors (lsp/recover.h), so that findings about other rules are still
// shown.

class LspChecker final : public lsp::Checker {
 public:
  LspChecker(const Common& common, bool allow_outside)
      : common_(common), allow_outside_(allow_outside) {}

  bool AllowsOutside() const override { return allow_outside_; }

  lsp::CheckedProject Check(const std::string& project,
                            const FileTexts& texts) override;
  bool IsSafe(const RuleFix& fix, const lsp::CheckedProject& project) override;
  std::vector<lsp::NewText> SafeFixes(
      const lsp::CheckedProject& project) override;

 private:
  lsp::CheckedProject Read(const std::string& path, const FileTexts& texts,
                           bool partial);
  InputFlags InputsWith(const FileTexts& texts);
  CheckOptions OptionsWith(const FileTexts& texts);

  Common common_;
  bool allow_outside_;
  ManifestCache manifests_;
  ProgramSums programs_;
};

std::vector<Target> TargetsOf(const lsp::CheckedProject& project) {
  std::vector<Target> out;
  for (const auto& target : project.targets) out.push_back(target.target);
  return out;
}

// Sets the place of each finding that has none to the project file.
void GivePlaces(Findings& findings, const std::string& path) {
  Findings placed;
  for (Finding finding : findings.all()) {
    if (finding.place.source == nullptr) {
      finding.place = {MakeSource(path, {})};
    }
    placed.Add(std::move(finding));
  }
  placed.NoteReadsOf(findings);
  findings = std::move(placed);
}

// Returns the findings that were not reported by a lint. These are errors in
// inputs, because of which targets do not compile.
Findings ErrorsOf(const lsp::CheckedProject& project) {
  Findings out;
  for (const Finding& finding : project.findings.all()) {
    if (FindLint(*finding.code) == nullptr) out.Add(finding);
  }
  return out;
}

// Returns the files of a project that are not rules files.
std::set<std::string> OtherFiles(const lsp::CheckedProject& project) {
  std::set<std::string> out = {project.path};
  for (const lsp::CheckedTarget& one : project.targets) {
    const Target& target = one.target;
    for (const std::string& file : {target.mesh.file, target.manifest,
                                    target.model, target.plan, target.step}) {
      out.insert(file);
    }
  }
  return out;
}

// Rules with errors are left out of the compilation. Returns the parameters
// that such a rule may match. These are the parameters that no other rule
// matches, and those whose first match is a catch-all rule such as `.*`.
std::set<std::string_view> UndecidedOf(const Compiled& compiled) {
  std::vector<bool> catch_all;
  for (const Rule& rule : compiled.rules.rules) {
    catch_all.push_back(SketchOf(rule.match).catch_all);
  }
  std::set<std::string_view> out;
  for (size_t i = 0; i < compiled.plan.params.size(); ++i) {
    const int32_t rule = compiled.matches.first[i];
    if (rule < 0 || catch_all[AsIndex(rule)])
      out.insert(compiled.plan.names[i]);
  }
  return out;
}

// Removes findings that may exist only because a rule or definition with errors
// was left out. These are findings with the codes below, and findings about
// parameters that a left-out rule may match.
void DropUncertain(CheckedTarget& target) {
  if (target.compiled == nullptr) return;
  const Code* const codes[] = {
      &kUnusedDefinition.code, &kUnusedIgnore.code,  &kUnusedMeshAxis.code,
      &kTensorAxisIdle.code,   &kRoleNeverUsed.code, &kOtherNaming.code,
      &kMemoryOverBudget.code, &kMemoryTight.code,
  };
  const auto undecided = UndecidedOf(*target.compiled);
  std::erase_if(target.result.findings, [&](const Finding& finding) {
    return std::find(std::begin(codes), std::end(codes), finding.code) !=
               std::end(codes) ||
           std::any_of(finding.params.begin(), finding.params.end(),
                       [&](const std::string& name) {
                         return undecided.contains(name);
                       });
  });
}

InputFlags LspChecker::InputsWith(const FileTexts& texts) {
  InputFlags inputs;
  inputs.held = {&texts, &manifests_};
  inputs.asked.allow_outside = allow_outside_;
  return inputs;
}

CheckOptions LspChecker::OptionsWith(const FileTexts& texts) {
  CheckOptions out;
  out.inputs = InputsWith(texts);
  out.fix = true;
  out.programs = &programs_;
  return out;
}

lsp::CheckedProject LspChecker::Read(const std::string& path,
                                     const FileTexts& texts, bool partial) {
  lsp::CheckedProject out;
  out.path = path;
  out.texts = texts;
  out.partial = partial;
  const auto project = ReadProject(path, out.findings, &texts, allow_outside_);
  auto selection = project ? Selection::Make(project->lint, false, out.findings)
                           : std::nullopt;
  std::optional<Baseline> baseline;
  if (selection && !project->lint.baseline.empty()) {
    baseline = ReadBaseline(project->lint.baseline, out.findings);
    if (!baseline) selection.reset();
  }
  GivePlaces(out.findings, path);
  if (!selection) return out;
  CheckOptions options = OptionsWith(texts);
  options.keep = true;
  auto checked = CheckTargets(project->targets, options, *selection, common_);
  for (size_t i = 0; i < checked.size(); ++i) {
    CheckedTarget& one = checked[i];
    if (partial) DropUncertain(one);
    if (baseline) baseline->Apply(one.result.findings);
    // Editors do not show the names of a finding's parameters. There may be
    // tens of thousands of names, so they are dropped to save memory.
    for (Finding& finding : one.result.findings) finding.params.clear();
    out.targets.push_back(
        {project->targets[i], one.errors, one.compiled, one.fixes});
  }
  JoinedFindings joined = JoinFindings(checked);
  out.findings.Append(std::move(joined.findings));
  return out;
}

lsp::CheckedProject LspChecker::Check(const std::string& path,
                                      const FileTexts& texts) {
  lsp::Recovery recovery(texts);
  for (int reading = 1;; ++reading) {
    lsp::CheckedProject out = Read(path, recovery.texts(), recovery.any());
    if (reading == lsp::Recovery::kReadings ||
        !recovery.LeaveOut(ErrorsOf(out), OtherFiles(out))) {
      if (recovery.any()) recovery.Finish(out.findings);
      return out;
    }
  }
}

bool LspChecker::IsSafe(const RuleFix& fix,
                        const lsp::CheckedProject& project) {
  const auto all_targets = TargetsOf(project);
  return cli::IsSafe(fix, all_targets, InputsWith(project.texts), common_);
}

std::vector<lsp::NewText> LspChecker::SafeFixes(
    const lsp::CheckedProject& project) {
  if (project.partial) return {};
  Findings unreported;
  const auto read =
      ReadProject(project.path, unreported, &project.texts, allow_outside_);
  const auto selection =
      read ? Selection::Make(read->lint, false, unreported) : std::nullopt;
  if (!selection) return {};
  std::vector<CheckedTarget> checked(project.targets.size());
  for (size_t i = 0; i < checked.size(); ++i) {
    checked[i].fixes = project.targets[i].fixes;
  }
  const auto all_targets = TargetsOf(project);
  const FixResult fixed =
      MakeFixes(checked, {all_targets, all_targets, OptionsWith(project.texts)},
                *selection, common_);
  std::vector<lsp::NewText> out;
  for (const FixedFile& file : fixed.files) {
    out.push_back({file.name, file.after});
  }
  return out;
}

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPause{40};   // pause in the input before a slow check
constexpr milliseconds kQuick{100};  // a check that takes longer is slow
// The longest time that an edit stays unchecked.
constexpr milliseconds kLongest{1000};

struct LspFlags {
  bool stdio = false, allow_outside = false;
};

// Waits for input bytes and sets `out` to them. Waits at most `wait`, or
// without a limit if `wait` is negative. Returns false if no bytes arrive, and
// nullopt at the end of the stream or after an error.
std::optional<bool> ReadSome(milliseconds wait, std::string& out) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  const int ready = ::poll(&input, 1, static_cast<int>(wait.count()));
  if (ready < 0 && errno != EINTR) return std::nullopt;
  if (ready <= 0) return false;
  constexpr size_t kPiece = 65536;
  out.resize(kPiece);
  const ssize_t got = ::read(STDIN_FILENO, out.data(), out.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return false;
  if (got <= 0) return std::nullopt;
  out.resize(AsIndex(got));
  return true;
}

class Loop {
 public:
  Loop(const LspFlags& flags, const Common& common)
      : checker_(common, flags.allow_outside),
        server_(checker_, std::string(kVersion)) {}

  int Run(Findings& findings) {
    std::string bytes;
    for (;;) {
      const auto got = ReadSome(Wait(), bytes);
      const bool quiet = got && !*got;
      if (got && *got) {
        server_.Receive(bytes);
        last_ = Clock::now();
      }
      while (server_.Step()) {
        if (!Send(findings)) return kFailed;
      }
      if (server_.exit_status()) return *server_.exit_status();
      if (!got) return server_.StatusAtEnd();
      Check(quiet);
      if (!Send(findings)) return kFailed;
    }
  }

 private:
  milliseconds Pause() const {
    return took_ < kQuick ? milliseconds(0) : kPause;
  }

  milliseconds Wait() const {
    if (!server_.HasEdits()) return milliseconds(-1);
    const auto left = std::chrono::duration_cast<milliseconds>(last_ + Pause() -
                                                               Clock::now());
    return std::max(milliseconds(0), left + milliseconds(1));
  }

  // Runs a check if one is due. `quiet` is true if the last wait received no
  // bytes.
  void Check(bool quiet) {
    if (!server_.HasEdits()) {
      first_.reset();
      return;
    }
    const auto now = Clock::now();
    if (!first_) first_ = now;
    const bool paused = quiet && now >= last_ + Pause();
    if (!paused && now < *first_ + kLongest) return;
    server_.CheckNow();
    took_ = Clock::now() - now;
    first_.reset();
  }

  bool Send(Findings& findings) {
    const std::string output = server_.TakeOutput();
    if (output.empty() || WriteAll(STDOUT_FILENO, output)) return true;
    findings.Add(code::kWrite, {}, "the client does not read the output");
    return false;
  }

  LspChecker checker_;
  lsp::Server server_;
  Clock::time_point last_ = Clock::now();   // time of the last received bytes
  std::optional<Clock::time_point> first_;  // time of the first unchecked edit
  // The duration of the last check. The initial value is less than kQuick, so
  // the first check does not wait.
  Clock::duration took_ = kPause;
};

int RunLsp(const LspFlags& flags, const Common& common, Findings& findings) {
  // The server runs until the editor ends it.
  HideProgress();
  return Loop(flags, common).Run(findings);
}

Options OptionsOf(LspFlags& flags) {
  return {{.name = "--stdio",
           .to = &flags.stdio,
           .help = "use standard input and output (always on; for editors that "
                   "pass it)"},
          {.name = "--allow-outside",
           .to = &flags.allow_outside,
           .help = "let a project name files outside its repository"}};
}

}  // namespace

Declared DeclareLsp() { return Declare(OptionsOf, RunLsp); }

}  // namespace shardc::cli
