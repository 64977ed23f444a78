#include "emit/inputs.h"

#include <utility>

#include "devices/profiles.h"
#include "emit/emit.h"

namespace shardc {
namespace {

constexpr std::string_view kManifest =
    R"({"schema": "shardc.manifest/v1", "separator": ".", "params": {
  "embed.weight": {"shape": [512, 64], "dtype": "BF16"},
  "layers.0.up.weight": {"shape": [256, 64], "dtype": "BF16"},
  "layers.1.up.weight": {"shape": [256, 64], "dtype": "BF16"},
  "layers.2.up.weight": {"shape": [256, 64], "dtype": "BF16"},
  "layers.0.experts.0.w": {"shape": [64, 6], "dtype": "F32"},
  "layers.0.experts.1.w": {"shape": [64, 6], "dtype": "F32"},
  "odd|na`me<b>": {"shape": [3], "dtype": "I8"},
  "step": {"shape": [], "dtype": "I64"}}})";

}  // namespace

Inputs::Inputs(const TableCase& given, const std::string& prefix) {
  const auto part = [&](const char* name) {
    const TableCase::Part* own = given.Find(prefix + name);
    return own == nullptr ? given.Text(name) : own->text;
  };
  target.name = "small";
  target.project_dir = folder_.path();
  // A part in one line is a mesh string such as `fsdp:8,tp:4`; a part of
  // several lines is the text of a mesh file.
  if (const std::string mesh = part("mesh"); mesh.ends_with('\n')) {
    target.mesh.file = folder_.Write("mesh.yaml", mesh);
  } else {
    target.mesh.text = mesh;
  }
  target.rules = {folder_.Write("rules.yaml", part("rules"))};
  const std::string manifest = part("manifest");
  target.manifest = folder_.Write(
      "manifest.json", manifest.empty() ? std::string(kManifest) : manifest);
  if (const std::string model = part("model"); !model.empty()) {
    target.model = folder_.Write("config.json", model);
  }
  OpenOptions options;
  options.threads = 1;
  auto opened = OpenTarget(target, options, findings);
  if (!opened) return;
  config = opened->model;
  options_ = opened->options;
  rules_ = opened->rules;
  manifest_ = opened->manifest;
  compiled = CompileTarget(std::move(*opened), findings);
}

std::string Inputs::Plain(std::string text) const {
  const std::string path = folder_ / "";
  for (size_t at; (at = text.find(path)) != std::string::npos;) {
    text.erase(at, path.size());
  }
  return text;
}

std::string Inputs::Errors() const {
  std::string out;
  for (const Finding& finding : findings.all()) out += FindingText(finding, {});
  return out;
}

cost::FitInputs Inputs::Fit(const cost::Settings& settings, Mode mode) const {
  cost::FitInputs out;
  out.rules = rules_;
  out.manifest = manifest_;
  out.options = options_;
  out.model = config;
  out.mode = mode;
  out.settings = settings;
  return out;
}

std::string Titled(std::string_view title, const std::string& text) {
  return "### " + std::string(title) + "\n" + text +
         (text.ends_with("\n") ? "" : "\n### no line break\n");
}

std::optional<int64_t> NumberOf(const TableCase& given, std::string_view name) {
  const std::string text = given.Text(name);
  if (text.empty()) return std::nullopt;
  return std::stoll(text);
}

cost::Settings SettingsOf(const TableCase& given) {
  cost::Settings out;
  out.batch = NumberOf(given, "batch");
  out.length = out.kv_length = NumberOf(given, "length");
  out.memory = NumberOf(given, "memory");
  out.microbatches = NumberOf(given, "microbatches").value_or(1);
  out.profile = FindDeviceProfile(given.Text("device"));
  return out;
}

}  // namespace shardc
