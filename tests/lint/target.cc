#include "lint/target.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "emit/emit.h"
#include "lint/locked.h"
#include "parse/manifest.h"
#include "parse/mesh.h"
#include "parse/project.h"
#include "parse/rules.h"

namespace shardc {
namespace {

// A folder that goes with the object.
class Folder {
 public:
  Folder() {
    static std::atomic<int> count{0};
    path_ = std::filesystem::temp_directory_path() /
            ("shardc-lint-" + std::to_string(getpid()) + "-" +
             std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string Write(const std::string& name, std::string_view text) const {
    const auto path = path_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }

 private:
  std::filesystem::path path_;
};

std::optional<Mesh> MeshOf(std::string_view text, Findings& findings) {
  auto source = MakeSource("--mesh", std::string(text));
  if (text.find('\n') == std::string_view::npos) {
    return ParseMeshString(source, std::nullopt, findings);
  }
  return ParseMesh(source, std::nullopt, findings);
}

}  // namespace

LintExample Filled(const LintExample& bad, const LintExample& good) {
  LintExample out = good;
  if (out.mesh.empty()) out.mesh = bad.mesh;
  if (out.rules.empty()) out.rules = bad.rules;
  if (out.manifest.empty()) out.manifest = bad.manifest;
  if (out.model.empty()) out.model = bad.model;
  if (out.locked.empty()) out.locked = bad.locked;
  if (out.batch == 0) out.batch = bad.batch;
  if (out.kv_len == 0) out.kv_len = bad.kv_len;
  if (out.memory_bytes == 0) out.memory_bytes = bad.memory_bytes;
  return out;
}

TestTarget Build(const LintExample& example) {
  const Folder folder;
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
    out.compiled = Compile(std::move(*mesh), std::move(*rules),
                           std::move(*manifest), CompileOptions{}, findings);
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
  const Facts facts(target.inputs);
  return RunLints(facts, *selection, std::move(locked));
}

}  // namespace shardc
