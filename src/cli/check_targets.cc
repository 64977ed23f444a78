// Checks targets separately, several at a time, and merges their findings: a
// finding of several targets is reported once, with their names, also if a
// number in its message differs. Some findings state that a part of a rules
// file is unused. They are reported only if the part is unused in every target
// that reads the file:
//
//   a rule that applies to no parameter in target `v5e`, but to one in target
//   `cpu`  ->  not reported
#include "cli/check_targets.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "cli/committed_plan.h"
#include "cli/committed_step.h"
#include "cli/compared_program.h"
#include "cli/cost_flags.h"
#include "cli/output.h"
#include "cli/runtime_verdict.h"
#include "cli/target_audit.h"
#include "cli/verify_request.h"
#include "emit/emit.h"
#include "emit/findings/formats.h"
#include "emit/verify/step_json.h"
#include "exec/operations/operation.h"
#include "lint/analysis/facts.h"
#include "lint/baseline.h"
#include "lint/rules/all.h"
#include "parse/config_name.h"
#include "source/config_codes.h"
#include "source/finding.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/process.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "systems/deployment.h"
#include "target/choose.h"
#include "target/from_config.h"
#include "target/open.h"

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

// Adds what a system finds in the configuration that a target follows, and
// errors of files that could not be read. Returns whether inputs follow from
// the configuration. Targets without one have all inputs.
bool AddConfigFindings(const Target& target, const Selection& selection,
                       FindingSink& sink, Findings& errors) {
  const auto origin = ParseConfigName(target.mesh.file);
  if (!origin) return true;
  Findings own;
  const auto deployment = DeployFile(*origin, false, own);
  if (deployment && !own.HasErrors()) {
    if (deployment->manifest) systems::RulesOf(*deployment, own);
  }
  errors.NoteReadsOf(own);
  for (const Finding& finding : own.all()) {
    if (!IsAmong(finding.code, ConfigCodes()) &&
        finding.code != &code::kInexpressible) {
      errors.Add(finding);
    } else if (selection.Selects(*finding.code)) {
      sink.emplace_back(finding).level = selection.LevelOf(finding);
    }
  }
  return deployment && !own.HasErrors();
}

CheckedTarget CheckOne(const Target& target, const CheckOptions& options,
                       const Selection& selection, const Common& common) {
  CheckedTarget out;
  out.name = target.name;
  out.main_file = MainFileOf(target);
  FindingSink extra;
  if (!AddConfigFindings(target, selection, extra, out.errors)) {
    out.result.findings.assign(extra.begin(), extra.end());
    return out;
  }
  StagedTarget staged =
      CompileStaged({}, options.inputs, target, common, out.errors);
  const std::shared_ptr<const Compiled>& compiled = staged.compiled;
  if (compiled == nullptr) return out;
  CheckOperations(target.verify, out.errors);
  if (options.locked && selection.Selects(kPlanOutOfDate.code)) {
    FindingSink locked = Locked(target, *compiled, staged.model, out.errors);
    std::move(locked.begin(), locked.end(), std::back_inserter(extra));
  }
  const bool has_step = std::any_of(
      target.step_options.begin(), target.step_options.end(),
      [](const StepOption& one) { return one.name != kRuntimeOption; });
  if (has_step || !target.budget.IsEmpty()) {
    FindingSink over =
        CheckStepBudget(target, staged, options.locked, selection, out.errors);
    std::move(over.begin(), over.end(), std::back_inserter(extra));
  }
  const Mesh& mesh = compiled->plan.mesh;
  const auto audit =
      ReadAuditInput(target, options.inputs.asked.allow_outside, out.errors);
  if (audit) CheckBudgetAxes(*audit, mesh, out.errors);
  if (audit && options.programs != nullptr) {
    const auto sums = options.programs->Of(target, *audit, mesh);
    if (sums != nullptr) {
      FindingSink more = BudgetFindings(*audit, *sums, selection);
      std::move(more.begin(), more.end(), std::back_inserter(extra));
    }
  } else if (audit) {
    FindingSink more = CheckProgram(target, *audit, mesh, options.locked,
                                    selection, out.errors);
    std::move(more.begin(), more.end(), std::back_inserter(extra));
  }
  for (const std::string& name : RuntimesOf(target, options.runtimes)) {
    for (Finding& finding :
         RuntimeVerdict(name, target, *compiled, staged.model, out.errors)) {
      if (!selection.Selects(*finding.code)) continue;
      finding.level = selection.LevelOf(finding);
      extra.emplace_back(std::move(finding));
    }
  }
  FindingSink refused = RefusedStages(*compiled, selection, out.errors);
  std::move(refused.begin(), refused.end(), std::back_inserter(extra));
  out.result = LintTarget(target, *compiled, std::move(staged.model),
                          options.lint, selection, std::move(extra),
                          options.fix ? &out.fixes : nullptr);
  for (const SourceRef& source : compiled->rules.sources) {
    out.rule_files.push_back(source->name());
  }
  if (options.keep) out.compiled = compiled;
  return out;
}

// A message without its numbers, and its numbers. Numbers inside of backquotes
// are parts of names and remain in the text. The unit of bytes is a part of a
// number:
//
//   `w` takes 14.5 GiB on 8 devices  ->  `w` takes # on # devices; 14.5 GiB, 8
struct Numberless {
  std::string text;
  std::vector<std::string> numbers;
};

Numberless WithoutNumbers(std::string_view message) {
  constexpr std::string_view kUnits[] = {" B",   " KiB", " MiB",
                                         " GiB", " TiB", " %"};
  const auto is_digit = [&](size_t i) {
    return i < message.size() && IsDigit(message[i]);
  };
  Numberless out;
  bool quoted = false;
  for (size_t i = 0; i < message.size();) {
    quoted = quoted != (message[i] == '`');
    if (quoted || !is_digit(i)) {
      out.text += message[i++];
      continue;
    }
    const size_t begin = i;
    while (is_digit(i) ||
           (is_digit(i + 1) && (message[i] == '.' || message[i] == ','))) {
      ++i;
    }
    for (const std::string_view unit : kUnits) {
      const std::string_view rest = message.substr(i);
      const bool ends = !rest.starts_with(unit) || rest.size() == unit.size() ||
                        !IsLetter(rest[unit.size()]);
      if (rest.starts_with(unit) && ends) {
        i += unit.size();
        break;
      }
    }
    out.numbers.emplace_back(message.substr(begin, i - begin));
    out.text += '#';
  }
  return out;
}

// Findings with equal keys are merged. A key has the code, the level, the file
// and byte offset of the place, and the message without its numbers.
using Key = std::tuple<int, int, std::string, size_t, std::string>;

Key KeyOf(const Finding& finding, const Numberless& message) {
  return {finding.code->number, static_cast<int>(finding.level),
          finding.place.source == nullptr ? "" : finding.place.source->name(),
          finding.place.begin, message.text};
}

struct Joined {
  Finding finding;
  std::vector<std::string> targets;
  std::vector<std::string> numbers;  // those of the finding's message
  // The numbers of other targets where they differ, by the text of these
  // numbers: {"16": {"v5e", "v5p"}}.
  std::vector<std::pair<std::string, std::vector<std::string>>> others = {};
};

// Returns the numbers of `other` that differ from those of `own`: "16, 4 GiB".
std::string Differing(const std::vector<std::string>& own,
                      const std::vector<std::string>& other) {
  std::string out;
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i] != other[i]) AppendItem(out, ", ", other[i]);
  }
  return out;
}

// Returns the numbers of the other targets, to follow the message:
// " (16 in `v5e`, `v5p`; 32 in `cpu`)".
std::string OthersText(const Joined& joined) {
  std::string out;
  for (const auto& [numbers, targets] : joined.others) {
    AppendItem(out, "; ", numbers + " in " + Join(targets, ", ", Quote));
  }
  return out.empty() ? out : " (" + out + ")";
}

bool NeedsAllUsers(const Code& code) {
  return &code == &kDeadRule.code || &code == &kUnusedDefinition.code ||
         &code == &kUnusedIgnore.code || &code == &kShadowedRule.code ||
         &code == &kAxisOfSizeOne.code;
}

// Adds a finding of a target. It is merged with an equal finding of another
// target, or else with one whose message differs in numbers alone. Findings of
// one target are never merged with each other.
void AddTo(std::map<Key, std::vector<size_t>>& index,
           std::vector<Joined>& joined, Finding finding,
           const CheckedTarget& target) {
  Numberless message = WithoutNumbers(finding.message);
  std::vector<size_t>& of_key = index[KeyOf(finding, message)];
  for (const size_t at : of_key) {
    Joined& one = joined[at];
    if (one.numbers != message.numbers) continue;
    if (one.targets.back() != target.name) one.targets.push_back(target.name);
    return;
  }
  for (const size_t at : of_key) {
    Joined& one = joined[at];
    if (one.targets.back() == target.name) continue;
    one.targets.push_back(target.name);
    std::string numbers = Differing(one.numbers, message.numbers);
    const auto known =
        std::find_if(one.others.begin(), one.others.end(),
                     [&](const auto& other) { return other.first == numbers; });
    if (known != one.others.end()) {
      known->second.push_back(target.name);
    } else {
      one.others.emplace_back(std::move(numbers),
                              std::vector<std::string>{target.name});
    }
    return;
  }
  of_key.push_back(joined.size());
  finding.main_file = target.main_file;
  if (finding.place.source == nullptr && IsFile(target.main_file)) {
    finding.place = target.main_file;
  }
  joined.push_back(
      {std::move(finding), {target.name}, std::move(message.numbers)});
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

JoinedFindings JoinFindings(std::vector<CheckedTarget>& targets) {
  std::map<Key, std::vector<size_t>> index;
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
    finding.message += OthersText(one);
    // A run without a project has one target, which has no name.
    if (!one.targets.front().empty()) finding.targets = std::move(one.targets);
    out.findings.Add(std::move(finding));
  }
  out.findings.Sort();
  return out;
}

// Writes the totals of a check: the number of findings by level or by code, and
// the lints that were skipped because an input is missing:
//
//   1 target: 1 error, 0 warnings, 3 notes (--notes shows them)
//   21 lints not run: pass --batch N, --manifest FILE (--notes lists them)

namespace {

// The words for what a lint misses (lint/run.cc), and the option that gives it.
constexpr std::pair<std::string_view, std::string_view> kInputsOfLints[] = {
    {"shapes", "a `--manifest` with shapes"},
    {"config.json", "--model config.json"},
    {"a batch", "--batch N"},
    {"a KV length", "--kv-len N"},
    {"memory", "--memory SIZE"},
    {"attention's sizes", "--attention heads=N,..."}};

struct CodeCount {
  const Code* code = nullptr;
  int64_t findings = 0;
  int64_t params = 0;
};

std::map<int, CodeCount> CountByCode(std::span<const Finding> findings) {
  std::map<int, CodeCount> counts;
  for (const Finding& finding : findings) {
    CodeCount& count = counts[finding.code->number];
    count.code = finding.code;
    ++count.findings;
    count.params += static_cast<int64_t>(finding.params.size());
  }
  return counts;
}

}  // namespace

void WriteStatistics(std::span<const Finding> findings, bool as_json,
                     Sink& out) {
  const auto counts = CountByCode(findings);
  if (!as_json) {
    for (const auto& [number, count] : counts) {
      out.Append(
          count.code->Id() + " " + std::string(count.code->name) + ": " +
          Counted(count.findings, "finding") +
          (count.params > 0 ? ", " + Counted(count.params, "parameter") : "") +
          "\n");
    }
    return;
  }
  JsonWriter json(out);
  json.BeginArray(JsonLayout::kLines);
  for (const auto& [number, count] : counts) {
    json.Object("code", count.code->Id(), "name", count.code->name, "findings",
                count.findings, "params", count.params);
  }
  json.EndArray();
  out.Put('\n');
}

std::string SummaryText(const Findings& findings,
                        const std::vector<CheckedTarget>& targets,
                        int64_t known, bool hides_notes) {
  int64_t counts[3] = {0, 0, 0};
  for (const Finding& finding : findings.all()) {
    ++counts[static_cast<size_t>(finding.level)];
  }
  std::string out = Counted(static_cast<int64_t>(targets.size()), "target") +
                    ": " + Counted(counts[0], "error") + ", " +
                    Counted(counts[1], "warning") + ", " +
                    Counted(counts[2], "note");
  if (hides_notes && counts[2] > 0) out += " (--notes shows them)";
  int64_t ignored = 0;
  // The codes of the lints that were skipped, keyed by the missing input, and
  // the targets in which each was skipped.
  std::map<std::string, std::set<std::string>> skipped;
  std::map<std::string, Strings> targets_of;
  for (const CheckedTarget& target : targets) {
    ignored += target.result.ignored;
    for (const SkippedLint& lint : target.result.skipped) {
      const std::string id = lint.lint->code.Id();
      skipped[lint.missing].insert(id);
      targets_of[id].push_back(target.name);
    }
  }
  // A lint that ran in other targets is listed with those in which it did not.
  const auto ran_in_some = [&](const Strings& names) {
    return names.size() < targets.size();
  };
  const int64_t partly = std::ranges::count_if(
      targets_of, [&](const auto& one) { return ran_in_some(one.second); });
  const int64_t never = static_cast<int64_t>(targets_of.size()) - partly;
  if (ignored > 0) out += ", " + CountText(ignored) + " ignored by comments";
  if (known > 0) out += ", " + CountText(known) + " in the baseline";
  out += "\n";
  if (skipped.empty()) return out;
  // What is missing may be several inputs; each is named once.
  std::string inputs;
  for (const auto& input : kInputsOfLints) {
    const bool missing =
        std::any_of(skipped.begin(), skipped.end(), [&](const auto& one) {
          return one.first.find(input.first) != std::string::npos;
        });
    if (missing) AppendItem(inputs, ", ", input.second);
  }
  if (never > 0) out += Counted(never, "lint") + " not run";
  if (partly > 0) {
    out += (never > 0 ? ", " : "") + Counted(partly, "lint") +
           " not run in some targets";
  }
  out += ": pass " + inputs;
  if (hides_notes) return out + " (--notes lists them)\n";
  out += ":\n";
  for (const auto& [missing, codes] : skipped) {
    out += "  without " + missing + ":";
    for (const std::string& id : codes) {
      const Strings& names = targets_of[id];
      out += " " + id;
      if (ran_in_some(names)) out += " (in " + Join(names, ", ", Quote) + ")";
    }
    out += "\n";
  }
  return out;
}

// Runs lints with the target's options and the project's settings. Only `check`
// reports errors in the project's settings. Commands that only count findings
// do not report them. Every command records the files of the settings as read,
// so that it does not overwrite these files.

namespace {

ModelConfig WithFlags(std::optional<ModelConfig> model,
                      const AttentionFlag& flags) {
  ModelConfig out = model ? std::move(*model) : ModelConfig();
  if (flags.heads) out.heads = flags.heads;
  if (flags.kv_heads) out.kv_heads = flags.kv_heads;
  if (flags.head_dim) out.head_dim = flags.head_dim;
  if (flags.window) out.sliding_window = flags.window;
  return out;
}

// Returns the rings of ring attention for which a target's settings file
// requests zig-zag order. Errors in that file are reported by `check` and
// `verify`, not here.
std::vector<ZigZagRing> RingsOf(const VerifyInput& input) {
  Findings ignored;
  const auto operations = exec::KnownOperations();
  const auto settings = TargetSettings(input, operations, ignored);
  return settings ? RingsOf(input, *settings, operations)
                  : std::vector<ZigZagRing>{};
}

}  // namespace

FindingSink RefusedStages(const Compiled& compiled, const Selection& selection,
                          Findings& findings) {
  FindingSink out;
  const auto codes = StageCodes();
  for (const Finding& finding : compiled.stage_findings) {
    if (!IsAmong(finding.code, codes)) {
      findings.Add(finding);
    } else if (selection.Selects(*finding.code)) {
      // No parameter uses the stage axis if the stages are refused. A lint
      // would then report this axis as unused. The finding about the stages
      // replaces the finding of that lint.
      out.emplace_back(finding).reports = {
          UnusedAxisTopic(compiled.stage_axis)};
    }
  }
  return out;
}

LintResult LintTarget(const Target& target, const Compiled& compiled,
                      std::optional<ModelConfig> config, const LintFlags& flags,
                      const Selection& selection, FindingSink extra,
                      std::vector<RuleFix>* fixes) {
  const AttentionFlag& attention = flags.attention;
  const bool has_model = config || attention.heads;
  const ModelConfig model = WithFlags(std::move(config), attention);
  LintInputs inputs;
  inputs.compiled = &compiled;
  if (has_model) inputs.model = &model;
  inputs.mesh_place = MeshPlace(target.mesh);
  inputs.batch = flags.batch ? flags.batch : target.batch;
  inputs.length = flags.length;
  inputs.kv_len = flags.kv_length ? flags.kv_length : target.kv_len;
  inputs.memory_bytes = flags.memory ? flags.memory : target.memory_bytes;
  inputs.rings = RingsOf(target.verify);
  inputs.traced = flags.traced;
  inputs.lists_names = flags.lists_names || flags.traced != nullptr;
  Facts facts(inputs);
  const auto of_program = [&](const Facts& with_axes) {
    return flags.traced == nullptr
               ? FindingSink()
               : ProgramFindings(*flags.traced, with_axes, selection);
  };
  LintResult out = RunLints(facts, selection, std::move(extra), of_program);
  if (fixes != nullptr) *fixes = FixesOf(facts, out.findings);
  return out;
}

std::optional<LintResult> LintBySettings(
    const Target& target, const Compiled& compiled,
    std::optional<ModelConfig> config, const LintFlags& flags,
    const LintSettings& settings, Findings& findings, FindingSink extra) {
  Findings wrong;
  const auto selection = Selection::Make(settings, false, wrong);
  if (!selection) return std::nullopt;
  FindingSink refused = RefusedStages(compiled, *selection, wrong);
  std::move(refused.begin(), refused.end(), std::back_inserter(extra));
  LintFlags with_names = flags;
  // A baseline lists known findings by code and parameter. To be compared with
  // it, findings must list their parameters.
  if (!settings.baseline.empty()) with_names.lists_names = true;
  LintResult out = LintTarget(target, compiled, std::move(config), with_names,
                              *selection, std::move(extra));
  if (!settings.baseline.empty()) {
    const auto baseline = ReadBaseline(settings.baseline, wrong);
    if (baseline) baseline->Apply(out.findings);
    findings.NoteReadsOf(wrong);
  }
  return out;
}

}  // namespace shardc::cli
