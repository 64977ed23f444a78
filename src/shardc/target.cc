// Opens a target with the functions of src/target, which find and read its
// files, and converts the result to public objects. A target may list
// parameters that have no weight decay. This list then replaces the list in the
// rules. For example, a request names a target, whose files and options become
// the public objects:
//
//   {.project = "shardc.yaml", .target = "v5e-64"}  ->  mesh v5e-64.yaml, the
//   pack builtin:llama/hf, the manifest, modes [train, decode], batch 16
#include "shardc/inside.h"
// inside.h comes first, because it defines SHARDC_V1 for the headers below.
#include "parse/project.h"
#include "shardc/target.h"
#include "target/choose.h"
#include "target/open.h"
#include "target/packs.h"

namespace shardc::v1 {
namespace {

shardc::TargetRequest RequestOf(const TargetRequest& asked) {
  shardc::TargetRequest out;
  out.project = asked.project;
  out.target = asked.target;
  out.mesh = asked.mesh;
  out.rules = asked.rules;
  out.manifest = asked.manifest;
  out.model = asked.model;
  out.allow_outside = asked.allow_outside;
  return out;
}

CheckOptions ChecksOf(const shardc::Target& target,
                      const LintSettings& settings) {
  CheckOptions out;
  out.model = target.model;
  out.batch = target.batch;
  out.kv_len = target.kv_len;
  out.bytes_of_device = target.memory_bytes;
  out.select = settings.select;
  out.ignore = settings.ignore;
  for (const auto& [code, level] : settings.severity) {
    out.severity.emplace_back(code, LevelOf(level));
  }
  return out;
}

}  // namespace

std::optional<std::vector<std::string>> TargetNames(const std::string& project,
                                                    Findings& findings) {
  const auto read = ReadProject(project, findings.inside().all);
  if (!read) return std::nullopt;
  std::vector<std::string> names;
  for (const shardc::Target& target : read->targets) {
    names.push_back(target.name);
  }
  return names;
}

std::optional<Target> OpenTarget(const TargetRequest& request,
                                 Findings& findings) {
  shardc::Findings& all = findings.inside().all;
  const shardc::TargetRequest asked = RequestOf(request);
  const auto chosen = ChooseTarget(asked, all);
  if (!chosen) return std::nullopt;
  LintSettings settings;
  if (!chosen->project_dir.empty()) {
    const auto project = OpenProject(asked, all);
    if (project) settings = project->lint;
  }
  OpenOptions options;
  options.devices = request.devices;
  options.rules_boundary = RulesBoundary(*chosen, asked);
  auto opened = shardc::OpenTarget(*chosen, options, all);
  if (!opened) return std::nullopt;
  if (opened->options.weight_decay_exclude) {
    opened->rules.weight_decay_exclude = opened->options.weight_decay_exclude;
  }
  PlanOptions plan;
  for (const shardc::Mode mode : opened->options.modes) {
    plan.modes.push_back(ModeOf(mode));
  }
  return Target{chosen->name,
                Mesh(std::make_shared<const Mesh::Inside>(Mesh::Inside{
                    std::move(opened->mesh), MeshPlace(chosen->mesh)})),
                Rules(std::make_shared<const Rules::Inside>(Rules::Inside{
                    std::move(opened->rules), std::move(opened->stages),
                    std::move(opened->model)})),
                Manifest(std::make_shared<const Manifest::Inside>(
                    Manifest::Inside{std::move(opened->manifest)})),
                std::move(plan),
                ChecksOf(*chosen, settings),
                chosen->plan};
}

std::vector<std::string> PackNames() { return shardc::PackNames(); }

}  // namespace shardc::v1
