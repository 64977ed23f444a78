#include "shardc/inside.h"
// inside.h comes first, because it defines SHARDC_V1 for the headers below.
#include "emit/findings/explain_code.h"
#include "lint/run.h"
#include "lint/select.h"
#include "model/project.h"
#include "parse/project.h"
#include "shardc/check.h"

namespace shardc::v1 {

std::optional<CheckResult> Check(const Plan& plan, const CheckOptions& options,
                                 Findings& findings) {
  shardc::Findings& all = findings.inside().all;
  LintSettings settings;
  settings.select = options.select;
  settings.ignore = options.ignore;
  for (const auto& [code, level] : options.severity) {
    settings.severity[code] = LevelOf(level);
  }
  const auto selection = Selection::Make(settings, false, all);
  if (!selection) return std::nullopt;
  std::optional<ModelConfig> model;
  if (!options.model.empty()) {
    model = ReadModelConfig(options.model, all);
    if (!model) return std::nullopt;
  }
  LintInputs inputs;
  inputs.compiled = plan.inside().compiled.get();
  if (model) inputs.model = &*model;
  inputs.mesh_place = plan.inside().mesh_place;
  inputs.batch = options.batch;
  inputs.kv_len = options.kv_len;
  inputs.memory_bytes = options.bytes_of_device;
  LintResult result = RunLints(Facts(inputs), *selection);
  CheckResult out;
  for (shardc::Finding& finding : result.findings) {
    out.findings.inside().all.Add(std::move(finding));
  }
  out.findings.inside().all.Sort();
  for (const SkippedLint& skipped : result.skipped) {
    out.skipped.push_back({skipped.lint->code.Id(), skipped.missing});
  }
  return out;
}

std::optional<std::string> Explain(std::string_view code) {
  return ExplainCode(code);
}

}  // namespace shardc::v1
