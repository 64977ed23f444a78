// Runs lints with the target's options and the project's settings. Only `check`
// reports errors in the project's settings. Commands that only count findings
// do not report them. Every command records the files of the settings as read,
// so that it does not overwrite these files.
#include "cli/lint_target.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "cli/settings_flags.h"
#include "exec/operations/operation.h"
#include "lint/analysis/rings.h"
#include "lint/baseline.h"
#include "source/stage_code.h"
#include "target/choose.h"
#include "target/open.h"

namespace shardc::cli {
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
    if (std::find(codes.begin(), codes.end(), finding.code) == codes.end()) {
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
  const auto first = [](auto one, auto other) { return one ? one : other; };
  inputs.batch = first(flags.batch, first(attention.batch, target.batch));
  inputs.length = flags.length;
  inputs.kv_len =
      first(flags.kv_length, first(attention.kv_len, target.kv_len));
  inputs.memory_bytes = flags.memory ? flags.memory : target.memory_bytes;
  inputs.rings = RingsOf(target.verify);
  inputs.lists_names = flags.lists_names;
  const Facts facts(inputs);
  LintResult out = RunLints(facts, selection, std::move(extra));
  if (fixes != nullptr) *fixes = FixesOf(facts, out.findings);
  return out;
}

LintSettings ProjectLintSettings(const TargetRequest& asked,
                                 Findings& findings) {
  Findings ignored;
  const auto project = OpenProject(asked, ignored);
  findings.NoteReadsOf(ignored);
  return project ? project->lint : LintSettings{};
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
