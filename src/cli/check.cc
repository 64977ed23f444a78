// `shardc check`: every lint that the inputs allow, over files or targets.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>

#include "cli/check_targets.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/version.h"
#include "emit/finding_formats.h"
#include "lint/baseline.h"
#include "source/file.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

struct CheckFlags {
  CheckOptions options;
  std::string attention, memory;
  std::vector<std::string> select, ignore, severity;
  std::string fail_on;
  bool preview = false;
  std::string baseline, write_baseline, output;
  bool statistics = false;
  bool diff = false;
  bool fix = false;
};

// The targets asked for, and the project's lint settings.
struct Work {
  std::vector<Target> targets;
  LintSettings settings;
};

std::string Folder(const std::string& file) {
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? "." : file.substr(0, slash);
}

std::optional<Work> FindWork(const InputFlags& flags, Findings& findings) {
  Work work;
  const size_t before = findings.errors();
  const auto project = LoadProject(flags, findings);
  if (findings.errors() > before) return std::nullopt;
  if (project) work.settings = project->lint;
  const bool inputs =
      !flags.mesh.empty() || !flags.rules.empty() || !flags.manifest.empty();
  if (project && !inputs && flags.target.empty()) {
    work.targets = project->targets;
    for (Target& target : work.targets) {
      target.project_dir = Folder(project->path);
    }
    if (!work.targets.empty()) return work;
  }
  const auto target = ChooseTarget(flags, findings);
  if (!target) return std::nullopt;
  work.targets.push_back(*target);
  return work;
}

// "a,b" and repeated flags to one list.
std::vector<std::string> Split(const std::vector<std::string>& given) {
  std::vector<std::string> out;
  for (const std::string& text : given) {
    size_t begin = 0;
    while (begin <= text.size()) {
      const size_t end = std::min(text.find(',', begin), text.size());
      if (end > begin) out.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return out;
}

bool ParseSeverity(const std::vector<std::string>& given,
                   LintSettings& settings, Findings& findings) {
  constexpr std::pair<std::string_view, Level> kLevels[] = {
      {"error", Level::kError},
      {"warning", Level::kWarning},
      {"note", Level::kNote}};
  for (const std::string& text : Split(given)) {
    const size_t equals = text.find('=');
    const std::string level =
        equals == std::string::npos ? "" : text.substr(equals + 1);
    const auto* at =
        std::find_if(std::begin(kLevels), std::end(kLevels),
                     [&](const auto& entry) { return entry.first == level; });
    if (at == std::end(kLevels)) {
      findings.Add(code::kUsage, {},
                   "`" + text + "` in `--severity` gives no level",
                   "write CODE=error, CODE=warning or CODE=note");
      return false;
    }
    settings.severity[text.substr(0, equals)] = at->second;
  }
  return true;
}

bool LayFlagsOver(const CheckFlags& flags, LintSettings& settings,
                  Findings& findings) {
  const auto select = Split(flags.select);
  if (!select.empty()) settings.select = select;
  for (const std::string& code : Split(flags.ignore)) {
    settings.ignore.push_back(code);
  }
  if (!flags.fail_on.empty()) settings.fail_on = flags.fail_on;
  return ParseSeverity(flags.severity, settings, findings);
}

std::string StatisticsText(std::span<const Finding> findings,
                           const std::string& format) {
  std::map<int, std::pair<const Code*, std::pair<int64_t, int64_t>>> counts;
  for (const Finding& finding : findings) {
    auto& entry = counts[finding.code->number];
    entry.first = finding.code;
    ++entry.second.first;
    entry.second.second += static_cast<int64_t>(finding.params.size());
  }
  std::string out = format == "json" ? "[" : "";
  for (const auto& [number, entry] : counts) {
    const auto& [code, count] = entry;
    if (format == "json") {
      out += out.size() == 1 ? "\n  " : ",\n  ";
      out += "{\"code\": \"" + code->Id() + "\", \"name\": \"" +
             std::string(code->name) +
             "\", \"findings\": " + std::to_string(count.first) +
             ", \"params\": " + std::to_string(count.second) + "}";
    } else {
      out +=
          code->Id() + " " + std::string(code->name) + ": " +
          Counted(count.first, "finding") +
          (count.second > 0 ? ", " + Counted(count.second, "parameter") : "") +
          "\n";
    }
  }
  if (format == "json") out += counts.empty() ? "]\n" : "\n]\n";
  return out;
}

std::string SummaryText(const Findings& findings,
                        const std::vector<CheckedTarget>& targets,
                        int64_t known) {
  int64_t counts[3] = {0, 0, 0};
  for (const Finding& finding : findings.all()) {
    ++counts[static_cast<size_t>(finding.level)];
  }
  std::string out = Counted(static_cast<int64_t>(targets.size()), "target") +
                    ": " + Counted(counts[0], "error") + ", " +
                    Counted(counts[1], "warning") + ", " +
                    Counted(counts[2], "note");
  int64_t ignored = 0;
  std::map<std::string, std::string> skipped;  // by what is missing
  for (const CheckedTarget& target : targets) {
    ignored += target.result.ignored;
    for (const SkippedLint& lint : target.result.skipped) {
      std::string& codes = skipped[lint.missing];
      const std::string id = lint.lint->code.Id();
      if (codes.find(id) == std::string::npos) {
        codes += (codes.empty() ? "" : " ") + id;
      }
    }
  }
  if (ignored > 0) out += ", " + CountText(ignored) + " ignored by comments";
  if (known > 0) out += ", " + CountText(known) + " in the baseline";
  out += "\n";
  for (const auto& [missing, codes] : skipped) {
    out += "skipped without " + missing + ": " + codes + "\n";
  }
  return out;
}

// Mends what can be mended; each file once, as its first target has it.
int64_t WriteFixes(const std::vector<CheckedTarget>& targets,
                   Findings& findings) {
  std::map<std::string, const FixedFile*> files;
  for (const CheckedTarget& target : targets) {
    for (const FixedFile& file : target.fixed) {
      files.try_emplace(file.source->name(), &file);
    }
  }
  int64_t fixes = 0;
  for (const auto& [name, file] : files) {
    if (!IsFile(Place{file->source, 0, 0})) continue;
    if (WriteWhole(name, file->text, findings)) fixes += file->fixes;
  }
  return fixes;
}

std::string Diffs(const std::vector<CheckedTarget>& targets) {
  std::map<std::string, std::string> files;
  for (const CheckedTarget& target : targets) {
    for (const FixedFile& file : target.fixed) {
      if (!IsFile(Place{file.source, 0, 0})) continue;
      files.try_emplace(file.source->name(),
                        DiffText(file.source->name(),
                                 std::string(file.source->text()), file.text));
    }
  }
  std::string out;
  for (const auto& [name, diff] : files) out += diff;
  return out;
}

bool CheckLocked(const std::vector<Target>& targets, Findings& findings) {
  for (const Target& target : targets) {
    if (!target.plan.empty()) return true;
  }
  findings.Add(code::kUsage, {}, "no target has a committed plan to compare",
               "give the target one: `plan: plans/NAME.plan.json`, and write it"
               " with `shardc plan --write-locked`");
  return false;
}

std::string Emit(const CheckFlags& flags, const Common& common,
                 const Findings& findings) {
  if (flags.statistics) return StatisticsText(findings.all(), common.format);
  const FindingFormat* format = FindFindingFormat(common.format);
  FindingReport report{findings.all(), kVersion, {}};
  report.style.color = flags.output.empty() && WantsColor(common, 1);
  return format == nullptr ? FindingsText(report) : format->emit(report);
}

int RunCheck(const CheckFlags& given, const Common& common,
             Findings& findings) {
  CheckFlags flags = given;
  auto work = FindWork(flags.options.inputs, findings);
  if (!work || !LayFlagsOver(flags, work->settings, findings)) return kFailed;
  const auto selection =
      Selection::Make(work->settings, flags.preview, findings);
  if (!selection) return kFailed;
  if (!ParseAttention(flags.attention, flags.options.lint, findings)) {
    return kFailed;
  }
  if (!flags.memory.empty()) {
    flags.options.lint.memory = ParseBytes("--memory", flags.memory, findings);
    if (!flags.options.lint.memory) return kFailed;
  }
  std::optional<Baseline> baseline;
  if (!flags.baseline.empty()) {
    baseline = ReadBaseline(flags.baseline, findings);
    if (!baseline) return kFailed;
  }
  if (flags.options.locked && !CheckLocked(work->targets, findings)) {
    return kFailed;
  }
  flags.options.fix = flags.fix || flags.diff;
  auto targets = CheckTargets(work->targets, flags.options, *selection, common);
  if (flags.diff) {
    const std::string diff = Diffs(targets);
    JoinedFindings joined = Join(targets);
    if (joined.unreadable) {
      findings.Append(std::move(joined.findings));
      return kFailed;
    }
    if (!PutResult(diff, flags.output, findings)) return kFailed;
    return diff.empty() ? kDone : kFound;
  }
  if (flags.fix) {
    const int64_t fixes = WriteFixes(targets, findings);
    if (findings.HasErrors()) return kFailed;
    if (fixes > 0) {
      Tell(common, Counted(fixes, "finding") + " mended\n");
      targets = CheckTargets(work->targets, flags.options, *selection, common);
    }
  }
  int64_t known = 0;
  if (baseline) {
    for (CheckedTarget& target : targets) {
      known += baseline->Apply(target.result.findings);
    }
  }
  JoinedFindings joined = Join(targets);
  if (!flags.write_baseline.empty() && !joined.unreadable) {
    Baseline fresh;
    for (const Finding& finding : joined.findings.all()) fresh.Add(finding);
    if (!WriteWhole(flags.write_baseline, fresh.Json(), findings)) {
      return kFailed;
    }
    Tell(common, Counted(static_cast<int64_t>(joined.findings.all().size()),
                         "finding") +
                     " written to the baseline\n");
    return kDone;
  }
  if (!PutResult(Emit(flags, common, joined.findings), flags.output,
                 findings)) {
    return kFailed;
  }
  Tell(common, SummaryText(joined.findings, targets, known));
  if (joined.unreadable) return kFailed;
  for (const Finding& finding : joined.findings.all()) {
    if (selection->Fails(finding.level)) return kFound;
  }
  return kDone;
}

}  // namespace

Run DeclareCheck(CLI::App& app) {
  auto flags = std::make_shared<CheckFlags>();
  AddInputFlags(app, flags->options.inputs);
  app.add_option("--attention", flags->attention,
                 "heads=32,kv_heads=8,head_dim=128,batch=4,kv_len=4096: stands "
                 "in for a config.json")
      ->type_name("SETTINGS");
  app.add_option("--memory", flags->memory, "a device's memory, such as 80GiB")
      ->type_name("SIZE");
  app.add_option("--select", flags->select,
                 "run these only: codes, names or families such as SHD1")
      ->type_name("CODES")
      ->allow_extra_args(false);
  app.add_option("--ignore", flags->ignore, "run all but these")
      ->type_name("CODES")
      ->allow_extra_args(false);
  app.add_option("--severity", flags->severity, "change a diagnostic's level")
      ->type_name("CODE=LEVEL")
      ->allow_extra_args(false);
  app.add_option("--fail-on", flags->fail_on,
                 "exit 1 from this level on (default: error)")
      ->type_name("error|warning|note|never");
  app.add_flag("--preview", flags->preview, "run lints in preview too");
  app.add_option("--baseline", flags->baseline,
                 "leave out the findings of this baseline")
      ->type_name("FILE");
  app.add_option("--write-baseline", flags->write_baseline,
                 "write the findings to a baseline")
      ->type_name("FILE");
  app.add_flag("--statistics", flags->statistics, "count findings by code");
  app.add_flag("--locked", flags->options.locked,
               "the committed plan is what the inputs give");
  app.add_flag("--diff", flags->diff, "show what --fix would change");
  app.add_flag("--fix", flags->fix, "make the mechanical mends");
  app.add_option("-o,--output", flags->output,
                 "where the result goes (default: stdout)")
      ->type_name("FILE");
  return [flags](const Common& common, Findings& findings) {
    return RunCheck(*flags, common, findings);
  };
}

}  // namespace shardc::cli
