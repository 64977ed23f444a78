#include "lint/target.h"

#include <algorithm>

#include "doctest/doctest.h"
#include "emit/emit.h"
#include "exec/operations/operation.h"
#include "lint/analysis/facts.h"
#include "lint/baseline.h"
#include "parse/manifest.h"
#include "parse/mesh.h"
#include "parse/operations.h"
#include "parse/project.h"
#include "parse/rules.h"
#include "plan/planned_stages.h"
#include "temporary_folder.h"

namespace shardc {
namespace {

std::optional<Mesh> MeshOf(std::string_view text, Findings& findings) {
  auto source = MakeSource("--mesh", std::string(text));
  if (text.find('\n') == std::string_view::npos) {
    return ParseMeshString(source, std::nullopt, findings);
  }
  return ParseMesh(source, std::nullopt, findings);
}

// Returns the zig-zag rings that the keys declare, read as those of a target in
// a project file.
std::vector<ZigZagRing> RingsIn(std::string_view keys,
                                const TemporaryFolder& folder,
                                Findings& findings) {
  std::string text =
      "version: 1\ntargets:\n  t:\n    mesh: dp:1\n    rules: [r.yaml]\n"
      "    manifest: m.json\n";
  for (size_t at = 0; at < keys.size();) {
    const size_t end = std::min(keys.find('\n', at), keys.size());
    text += "    " + std::string(keys.substr(at, end - at)) + "\n";
    at = end + 1;
  }
  const auto project = ReadProject(folder.Write("shardc.yaml", text), findings);
  if (!project) return {};
  const VerifyInput& verify = project->targets.front().verify;
  const auto operations = exec::KnownOperations();
  const auto settings =
      ReadOperationsAt(verify.inline_settings.value(), operations, findings);
  return settings ? RingsOf(verify, *settings, operations)
                  : std::vector<ZigZagRing>{};
}

}  // namespace

const LintExamples& ExamplesOf(std::string_view lint) {
  for (const LintExamples& examples : AllExamples()) {
    if (examples.lint == lint) return examples;
  }
  FAIL("no lint has this name: ", lint);
  return AllExamples().front();
}

LintExample Filled(const LintExample& bad, const LintExample& good) {
  LintExample out = good;
  if (out.mesh.empty()) out.mesh = bad.mesh;
  if (out.rules.empty()) out.rules = bad.rules;
  if (out.manifest.empty()) out.manifest = bad.manifest;
  if (out.model.empty()) out.model = bad.model;
  if (out.locked.empty()) out.locked = bad.locked;
  if (out.target.empty()) out.target = bad.target;
  if (out.batch == 0) out.batch = bad.batch;
  if (out.kv_len == 0) out.kv_len = bad.kv_len;
  if (out.memory_bytes == 0) out.memory_bytes = bad.memory_bytes;
  return out;
}

TestTarget Build(const LintExample& example) {
  const TemporaryFolder folder;
  Findings findings;
  TestTarget out;
  auto mesh = MeshOf(example.mesh, findings);
  const std::string file = folder.Write("rules.yaml", example.rules);
  auto rules = ReadRules(
      std::span(&file, 1), [](std::string_view) { return SourceRef(); },
      findings);
  if (rules) {
    for (Rule& rule : rules->rules) rule.source_name = "rules.yaml";
  }
  const auto document = JsonDocument::Parse(
      MakeSource("manifest.json", std::string(example.manifest)), findings);
  std::optional<Manifest> manifest;
  if (document != nullptr) manifest = ParseManifest(*document, findings);
  if (manifest) SettleSeparator(*manifest, findings);
  if (!example.model.empty()) {
    out.model =
        ReadModelConfig(folder.Write("config.json", example.model), findings);
  }
  if (mesh && rules && manifest && !findings.HasErrors()) {
    const auto stages = DeclaredStages({}, *rules, {}, findings);
    CompileOptions options;
    options.config = SharedConfig(out.model);
    auto compiled = Compile(std::move(*mesh), std::move(*rules),
                            std::move(*manifest), options, findings);
    if (stages && compiled != nullptr) {
      DivideByStages(*stages, nullptr, *compiled, findings);
    }
    out.compiled = std::move(compiled);
  }
  if (!example.target.empty()) {
    out.inputs.rings = RingsIn(example.target, folder, findings);
  }
  for (const Finding& finding : findings.all()) {
    out.errors += FindingText(finding, {});
  }
  out.inputs.compiled = out.compiled.get();
  if (example.batch > 0) out.inputs.batch = example.batch;
  if (example.kv_len > 0) out.inputs.kv_len = example.kv_len;
  if (example.memory_bytes > 0) {
    out.inputs.memory_bytes = example.memory_bytes;
  }
  return out;
}

LintResult LintExampleText(const LintExample& example, std::string* errors) {
  TestTarget target = Build(example);
  *errors = target.errors;
  if (target.compiled == nullptr) return {};
  if (target.model) target.inputs.model = &*target.model;
  FindingSink locked;
  if (!example.locked.empty()) {
    Findings reading;
    locked = CompareLocked(
        [&](Sink& out) { WritePlanJson(target.compiled->plan, {}, out); },
        MakeSource("plan.json", std::string(example.locked)), reading);
    for (const Finding& finding : reading.all()) {
      *errors += FindingText(finding, {});
    }
  }
  Findings usage;
  const auto selection = Selection::Make({}, /*preview=*/true, usage);
  Facts facts(target.inputs);
  return RunLints(facts, *selection, std::move(locked));
}

std::vector<Finding> FindingsOf(const LintExample& example) {
  std::string errors;
  auto found = LintExampleText(example, &errors).findings;
  CAPTURE(errors);
  REQUIRE(errors.empty());
  return found;
}

std::multiset<std::string> CodesOf(const LintExample& example) {
  std::multiset<std::string> out;
  for (const Finding& finding : FindingsOf(example)) {
    out.insert(finding.code->Id());
  }
  return out;
}

}  // namespace shardc
