// Checks targets separately, several at a time, and merges their findings: a
// finding of several targets is reported once, with their names. Some findings
// state that a part of a rules file is unused. They are reported only if the
// part is unused in every target that reads the file:
//
//   a rule that applies to no parameter in target `v5e`, but to one in target
//   `cpu`  ->  not reported
#include "cli/check_targets.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "cli/committed_plan.h"
#include "cli/committed_step.h"
#include "cli/output.h"
#include "cli/settings_flags.h"
#include "cli/target_audit.h"
#include "cli/verify_request.h"
#include "emit/emit.h"
#include "emit/findings/formats.h"
#include "emit/verify/step_json.h"
#include "exec/operations/operation.h"
#include "lint/locked.h"
#include "lint/rules/all.h"
#include "source/index.h"
#include "source/thread_pool.h"

namespace shardc::cli {
namespace {

// Returns the place at which a finding is shown if it is about no line of a
// file, for example about the mesh of `--mesh`. In a project this place is the
// target's lines in the project file. Otherwise it is the first of manifest,
// mesh and rules that is a file, or the manifest if none of them is a file.
Place MainFileOf(const Target& target) {
  if (target.place.source != nullptr) return target.place;
  std::vector<std::string> files = {target.manifest, target.mesh.file};
  files.insert(files.end(), target.rules.begin(), target.rules.end());
  std::error_code error;
  for (const std::string& file : files) {
    const Place place{MakeSource(file, ""), Place::kEntireFile,
                      Place::kEntireFile};
    if (IsFile(place) && std::filesystem::exists(file, error)) return place;
  }
  return {MakeSource(target.manifest.empty() ? "-" : target.manifest, ""),
          Place::kEntireFile, Place::kEntireFile};
}

FindingSink LockedPlan(const Target& target, const Plan& plan,
                       Findings& errors) {
  if (target.plan.empty()) return {};
  const SourceRef source = ReadCommittedPlan(target, errors);
  if (source == nullptr) return {};
  return CompareLocked([&](Sink& out) { WritePlanJson(plan, {}, out); }, source,
                       errors);
}

FindingSink LockedStep(const Target& target, const Compiled& compiled,
                       const std::optional<ModelConfig>& config,
                       Findings& errors) {
  if (target.step.empty()) return {};
  const SourceRef source = ReadCommittedStep(target, errors);
  if (source == nullptr) return {};
  const auto steps = StepsToCommit(target, compiled, config, errors);
  if (!steps) return {};
  return CompareLocked([&](Sink& out) { WriteStepJson(*steps, out); }, source,
                       errors, Committed::kStep);
}

// Compares the target's committed plan and step program with those of the
// current inputs. Returns a finding for each file that differs.
FindingSink Locked(const Target& target, const Compiled& compiled,
                   const std::optional<ModelConfig>& config, Findings& errors) {
  FindingSink out = LockedPlan(target, compiled.plan, errors);
  FindingSink more = LockedStep(target, compiled, config, errors);
  std::move(more.begin(), more.end(), std::back_inserter(out));
  return out;
}

// A target may list attention operations for `shardc verify`, and settings for
// them. Reports unknown names of operations and errors in the settings. The
// lints do not report these errors: they ignore unknown operations and invalid
// settings.
void CheckOperations(const VerifyInput& input, Findings& errors) {
  for (const VerifyInput::Named& named : input.operations) {
    NamedOperation(named.operation, named.place, errors);
  }
  TargetSettings(input, exec::KnownOperations(), errors);
}

CheckedTarget CheckOne(const Target& target, const CheckOptions& options,
                       const Selection& selection, const Common& common) {
  CheckedTarget out;
  out.name = target.name;
  out.main_file = MainFileOf(target);
  std::optional<ModelConfig> config;
  const std::shared_ptr<const Compiled> compiled =
      LoadAndCompile(options.inputs, target, common, out.errors, &config);
  if (compiled == nullptr) return out;
  CheckOperations(target.verify, out.errors);
  FindingSink extra;
  if (options.locked && selection.Selects(kPlanOutOfDate.code)) {
    extra = Locked(target, *compiled, config, out.errors);
  }
  const Mesh& mesh = compiled->plan.mesh;
  const auto audit =
      ReadAuditInput(target, options.inputs.asked.allow_outside, out.errors);
  if (audit) CheckBudgetAxes(*audit, mesh, out.errors);
  if (audit && options.programs != nullptr) {
    const auto sums = options.programs->Of(target, *audit, mesh);
    if (sums != nullptr) extra = BudgetFindings(*audit, *sums, selection);
  } else if (audit) {
    FindingSink more = CheckProgram(target, *audit, mesh, options.locked,
                                    selection, out.errors);
    std::move(more.begin(), more.end(), std::back_inserter(extra));
  }
  FindingSink refused = RefusedStages(*compiled, selection, out.errors);
  std::move(refused.begin(), refused.end(), std::back_inserter(extra));
  out.result =
      LintTarget(target, *compiled, std::move(config), options.lint, selection,
                 std::move(extra), options.fix ? &out.fixes : nullptr);
  for (const SourceRef& source : compiled->rules.sources) {
    out.rule_files.push_back(source->name());
  }
  if (options.keep) out.compiled = compiled;
  return out;
}

// Findings with equal keys are merged. A key has the code, the level, the file
// and byte offset of the place, and the message.
using Key = std::tuple<int, int, std::string, size_t, std::string>;

Key KeyOf(const Finding& finding) {
  return {finding.code->number, static_cast<int>(finding.level),
          finding.place.source == nullptr ? "" : finding.place.source->name(),
          finding.place.begin, finding.message};
}

struct Joined {
  Finding finding;
  std::vector<std::string> targets;
};

bool NeedsAllUsers(const Code& code) {
  return &code == &kDeadRule.code || &code == &kUnusedDefinition.code ||
         &code == &kUnusedIgnore.code || &code == &kShadowedRule.code ||
         &code == &kAxisOfSizeOne.code;
}

void AddTo(std::map<Key, size_t>& index, std::vector<Joined>& joined,
           Finding finding, const CheckedTarget& target) {
  const auto [at, fresh] = index.try_emplace(KeyOf(finding), joined.size());
  if (fresh) {
    finding.main_file = target.main_file;
    if (finding.place.source == nullptr && IsFile(target.main_file)) {
      finding.place = target.main_file;
    }
    joined.push_back({std::move(finding), {}});
  }
  Joined& one = joined[at->second];
  if (one.targets.empty() || one.targets.back() != target.name) {
    one.targets.push_back(target.name);
  }
}

}  // namespace

std::vector<CheckedTarget> CheckTargets(const std::vector<Target>& targets,
                                        const CheckOptions& options,
                                        const Selection& selection,
                                        const Common& common) {
  std::vector<CheckedTarget> out(targets.size());
  Common each = common;
  const int threads = ThreadsOr(common.threads);
  // With several targets, each target is checked by one thread. A single target
  // is checked by all threads.
  if (threads > 1 && targets.size() > 1) each.threads = 1;
  ParallelFor(static_cast<int64_t>(targets.size()), threads, [&](int64_t task) {
    const auto i = AsIndex(task);
    out[i] = CheckOne(targets[i], options, selection, each);
  });
  return out;
}

JoinedFindings Join(std::vector<CheckedTarget>& targets) {
  std::map<Key, size_t> index;
  std::vector<Joined> joined;
  std::map<std::string, size_t> users;
  JoinedFindings out;
  for (CheckedTarget& target : targets) {
    for (const Finding& finding : target.errors.all()) {
      out.unreadable = out.unreadable || finding.level == Level::kError;
      AddTo(index, joined, finding, target);
    }
    for (const std::string& file : target.rule_files) ++users[file];
    for (Finding& finding : target.result.findings) {
      AddTo(index, joined, std::move(finding), target);
    }
  }
  for (Joined& one : joined) {
    Finding& finding = one.finding;
    const auto file = finding.place.source == nullptr
                          ? users.end()
                          : users.find(finding.place.source->name());
    if (file != users.end() && NeedsAllUsers(*finding.code) &&
        one.targets.size() < file->second) {
      continue;
    }
    // A run without a project has one target, which has no name.
    if (!one.targets.front().empty()) finding.targets = std::move(one.targets);
    out.findings.Add(std::move(finding));
  }
  out.findings.Sort();
  return out;
}

}  // namespace shardc::cli
