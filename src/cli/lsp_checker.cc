// Reads and checks a project as `check` does, with the editor's buffers in
// place of files. Findings without a place get the project file as their place,
// because editors show findings only in files:
//
//   `select: [SHD999]`, no such code  ->  shown at the top of shardc.yaml
#include "cli/lsp_checker.h"

#include <optional>
#include <utility>

#include "cli/fixes.h"
#include "lint/baseline.h"
#include "parse/project.h"

namespace shardc::cli {
namespace {

std::vector<Target> TargetsOf(const lsp::CheckedProject& project) {
  std::vector<Target> out;
  for (const auto& target : project.targets) out.push_back(target.target);
  return out;
}

// Places findings without a place at the project file.
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

}  // namespace

InputFlags LspChecker::InputsWith(const FileTexts& texts) {
  InputFlags inputs;
  inputs.held = {&texts, &manifests_};
  inputs.asked.allow_outside = allow_outside_;
  return inputs;
}

lsp::CheckedProject LspChecker::Check(const std::string& path,
                                      const FileTexts& texts) {
  lsp::CheckedProject out;
  out.path = path;
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
  CheckOptions options;
  options.inputs = InputsWith(texts);
  options.fix = true;
  options.keep = true;
  auto checked = CheckTargets(project->targets, options, *selection, common_);
  for (size_t i = 0; i < checked.size(); ++i) {
    CheckedTarget& one = checked[i];
    if (baseline) baseline->Apply(one.result.findings);
    out.targets.push_back(
        {project->targets[i], one.errors, one.compiled, one.fixes});
  }
  JoinedFindings joined = Join(checked);
  out.findings.Append(std::move(joined.findings));
  return out;
}

bool LspChecker::IsSafe(const RuleFix& fix, const lsp::CheckedProject& project,
                        const FileTexts& texts) {
  const auto witnesses = TargetsOf(project);
  return cli::IsSafe(fix, witnesses, InputsWith(texts), common_);
}

std::vector<lsp::NewText> LspChecker::SafeFixes(
    const lsp::CheckedProject& project, const FileTexts& texts) {
  std::vector<CheckedTarget> checked(project.targets.size());
  for (size_t i = 0; i < checked.size(); ++i) {
    checked[i].fixes = project.targets[i].fixes;
  }
  const auto witnesses = TargetsOf(project);
  const FixResult fixed =
      MakeFixes(checked, witnesses, InputsWith(texts), common_, false);
  std::vector<lsp::NewText> out;
  for (const FixedFile& file : fixed.files) {
    out.push_back({file.name, file.after});
  }
  return out;
}

}  // namespace shardc::cli
