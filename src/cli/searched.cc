// Proves and writes the sharding that a search found. Its rules are written and
// read again as other commands read them, so that what is proved and written is
// what `cost` and `plan` will compile:
//
//   shardc search --devices 64 ... -o out
//     ->  out/mesh.yaml, out/rules.yaml, out/shardc.yaml, a manifest
#include "cli/searched.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/new_files.h"
#include "cli/output.h"
#include "cli/picked_mesh.h"
#include "cli/verify_step.h"
#include "emit/emit.h"
#include "emit/plans/manifest_text.h"
#include "emit/plans/rules_file.h"
#include "plan/compile.h"
#include "source/file.h"
#include "source/json_writer.h"
#include "source/wording.h"
#include "verify/step/step_report.h"

namespace shardc::cli {
namespace {

namespace fs = std::filesystem;

// Of a step that is proved. Axes of up to 16 devices show the same mistakes as
// longer ones, in a fraction of the time.
constexpr int64_t kMostMicrobatches = 64, kMostProofDevices = 16;

bool IsGivenAsIs(const search::Sharding& one) {
  return one.base == search::Base::kGiven &&
         one.changes == search::RuleChanges{};
}

// Returns the number of micro-batches for the proof: the largest up to a limit
// that divides the number of the step.
int64_t ProvedMicrobatches(int64_t parts) {
  int64_t out = std::min(parts, kMostMicrobatches);
  while (parts % out != 0) --out;
  return out;
}

std::string ReducedText(const verify::StepReport& report) {
  return "passes `verify step` at reduced sizes on " +
         MeshWords(report.reduced_mesh) + ": " +
         Counted(report.gradients, "gradient") + ", " +
         Counted(report.updates, "updated parameter") +
         ", every value equal to the dense model's";
}

std::vector<std::string> FromFolder(const std::vector<std::string>& files,
                                    const std::string& folder) {
  std::vector<std::string> out;
  for (const std::string& one : files) {
    const bool pack = one.starts_with("builtin:");
    out.push_back(pack ? one : fs::proximate(one, folder).generic_string());
  }
  return out;
}

std::string ProjectText(const search::Sharding& one, const std::string& name,
                        const std::string& model, bool own_rules,
                        const std::vector<std::string>& given) {
  const cost::Settings& settings = one.report.settings;
  std::string rules;
  for (const std::string& file : given) {
    rules += (rules.empty() ? "" : ", ") + JsonString(file);
  }
  std::string out =
      "# Found by `shardc search`: " + SearchSettingsText(settings) +
      ".\nversion: 1\ntargets:\n  " + JsonString(name) +
      ":\n    mesh: mesh.yaml\n    rules: [" +
      (own_rules ? "rules.yaml" : rules) +
      "]\n    manifest: " + JsonString(name + ".manifest.json") + "\n";
  if (!model.empty()) out += "    model: " + JsonString(model) + "\n";
  out += "    modes: [train]\n    batch: " +
         std::to_string(settings.batch.value_or(1)) + "\n";
  if (settings.memory) {
    out += "    memory: " + std::to_string(*settings.memory) + "\n";
  }
  return out;
}

}  // namespace

SearchProof ProofOf(const search::Sharding& one, const SearchInputs& inputs) {
  SearchProof out;
  out.status = SearchProof::Status::kUnsupported;
  const search::Request& request = inputs.request;
  const cost::Settings& settings = one.report.settings;
  Findings findings;
  auto rules = request.read(one.file);
  std::unique_ptr<const Compiled> compiled;
  if (rules) {
    compiled = Compile(one.mesh, std::move(*rules), request.manifest,
                       request.options, findings);
  }
  if (compiled == nullptr) {
    out.status = SearchProof::Status::kFail;
    out.text = "fails, which is a defect of shardc: the rules do not compile";
    return out;
  }
  if (compiled->rules.model == nullptr) {
    out.text = "not proved: no rules file describes the model's step";
    return out;
  }
  verify::StepRequest step =
      UsualStep(*compiled, request.model, settings.batch);
  step.length = *settings.length;
  step.remat = settings.remat;
  step.microbatches = ProvedMicrobatches(settings.microbatches);
  step.dtype = Dtype::kF64;
  step.threads = request.threads;
  step.most_devices = kMostProofDevices;
  const auto report = verify::VerifyStep(step, findings);
  if (!report) {
    out.text = "not proved: " + (findings.all().empty()
                                     ? std::string("no step can be built")
                                     : findings.all().front().message);
  } else if (report->status == verify::StepStatus::kPass) {
    out.status = SearchProof::Status::kPass;
    out.text = ReducedText(*report);
    if (settings.zero > 0) {
      out.text += "; ZeRO " + std::to_string(settings.zero) +
                  " is not part of the proof";
    }
  } else if (report->status == verify::StepStatus::kFail) {
    out.status = SearchProof::Status::kFail;
    out.text = "fails, which is a defect of shardc: " +
               (report->problems.empty() ? std::string("a value differs")
                                         : report->problems.front());
  } else {
    out.text = "not proved: " + report->reason;
  }
  return out;
}

bool WriteSearched(const search::Sharding& one, const SearchInputs& inputs,
                   const std::string& folder, const Common& common,
                   Findings& findings) {
  const std::string name = inputs.target.empty() ? "searched" : inputs.target;
  std::vector<NewFile> files;
  files.push_back({"mesh.yaml", MeshFileYaml(one.mesh)});
  search::RulesFile rules = one.file;
  rules.extends = FromFolder(rules.extends, folder);
  const bool own_rules = !IsGivenAsIs(one);
  if (own_rules) files.push_back({"rules.yaml", SearchedRulesYaml(rules)});
  files.push_back({name + ".manifest.json", TextOf([&](Sink& sink) {
                     WriteManifestJson(inputs.request.manifest, sink);
                   })});
  std::string model;
  if (!inputs.model_path.empty()) {
    const SourceRef text = ReadSource(inputs.model_path, findings);
    if (text == nullptr) return false;
    model = name + ".config.json";
    files.push_back({model, std::string(text->text())});
  }
  // Written last, so that a project exists only with all its files.
  files.push_back(
      {"shardc.yaml", ProjectText(one, name, model, own_rules, rules.extends)});
  if (!AllAreNew(folder, files, findings)) return false;
  NewFileWriter writer(folder);
  if (!writer.Write(files, findings)) return false;
  writer.Keep();
  std::string text;
  for (const NewFile& file : files) {
    const fs::path path = fs::path(folder) / file.path;
    text += "wrote       " + Printable(path.lexically_normal().string()) + "\n";
  }
  PrintMessage(common, text);
  return true;
}

std::string CostCommandOf(const search::Sharding& one,
                          const SearchInputs& inputs,
                          const std::string& folder) {
  const cost::Settings& settings = one.report.settings;
  std::string out = "shardc cost";
  if (!folder.empty()) {
    out += " --project " +
           Printable((fs::path(folder) / "shardc.yaml").generic_string());
  } else if (!IsGivenAsIs(one)) {
    return "";
  } else {
    out += " --mesh " + MeshWords(one.mesh);
    for (const std::string& rules : one.file.extends) {
      out += " --rules " + Printable(rules);
    }
    if (!inputs.model_path.empty()) {
      out += " --model " + Printable(inputs.model_path);
    }
  }
  out += " --batch " + std::to_string(*settings.batch) + " --seq " +
         std::to_string(*settings.length) + " --microbatches " +
         std::to_string(settings.microbatches) + " --zero " +
         std::to_string(settings.zero) + " --remat '" + settings.remat.text +
         "'";
  return out + " --profile " + std::string(settings.profile->name);
}

}  // namespace shardc::cli
