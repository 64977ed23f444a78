// Writes the project of a search. Rules files that the search did not change
// are named and not copied:
//
//   shardc search --devices 64 ... -o out
//     ->  out/mesh.yaml, out/rules.yaml, out/shardc.yaml, a manifest
#include "cli/search_project.h"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "cli/output.h"
#include "cli/suggested.h"
#include "cli/verify_step.h"
#include "cost/memory.h"
#include "emit/plans/input_text.h"
#include "emit/plans/rules_file.h"
#include "plan/kv_layout.h"
#include "plan/mesh_purposes.h"
#include "source/file.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> FromFolder(const std::vector<std::string>& files,
                                    const std::string& folder) {
  std::vector<std::string> out;
  for (const std::string& one : files) {
    const bool pack = one.starts_with("builtin:");
    // fs::proximate must get the folder's absolute path. For a relative folder
    // that does not exist yet, it would return an absolute path.
    out.push_back(
        pack ? one : fs::proximate(one, fs::absolute(folder)).generic_string());
  }
  return out;
}

// Returns the beginning of the file names of the model's files. It is the
// target's name. If there is no target, or its name has a slash or backslash,
// it is "searched".
std::string FileStem(const SearchInputs& inputs) {
  const bool plain = inputs.target.find_first_of("/\\") == std::string::npos;
  return plain && !inputs.target.empty() ? inputs.target : "searched";
}

void TakePolicy(const Policy& from, Policy& to) {
  if (from.unmatched) to.unmatched = from.unmatched;
  if (from.illegal) to.illegal = from.illegal;
  if (from.min_size) to.min_size = from.min_size;
  if (from.compat) to.compat = from.compat;
  if (from.kv_replicate) to.kv_replicate = from.kv_replicate;
}

}  // namespace

std::optional<int64_t> OwnMemory(const SearchInputs& inputs) {
  const cost::Settings& given = inputs.request.settings;
  if (given.memory) return given.memory;
  const auto memory = cost::CapacityOf(inputs.request.device, given);
  return memory == given.profile->DeviceMemory() ? std::nullopt : memory;
}

std::string SearchedRulesText(search::RulesFile rules,
                              const SearchInputs& inputs) {
  TakePolicy(inputs.request.options.policy, rules.own.policy);
  return SearchedRulesYaml(rules);
}

SearchProject::SearchProject(const SearchInputs& inputs, std::string folder)
    : inputs_(inputs), folder_(std::move(folder)) {
  const std::string stem = FileStem(inputs);
  manifest_ = stem + ".manifest.json";
  if (!inputs.model_path.empty()) config_ = stem + ".config.json";
}

void SearchProject::AddTarget(const std::string& name,
                              const std::string& prefix, const Mesh& mesh,
                              search::RulesFile rules, bool own,
                              const std::string& settings) {
  AddFile({prefix + "mesh.yaml", MeshFileYaml(mesh)});
  rules.extends = FromFolder(rules.extends, folder_);
  std::string named = Join(rules.extends, ", ", JsonString);
  const Policy& policy = inputs_.request.options.policy;
  if (own || !PolicyMembers(policy).empty() || policy.kv_replicate) {
    named = prefix + std::string(kSearchedRules);
    AddFile({named, SearchedRulesText(std::move(rules), inputs_)});
  }
  targets_ += "  " + JsonString(name) + ":\n    mesh: " + prefix +
              "mesh.yaml\n    rules: [" + named +
              "]\n    manifest: " + JsonString(manifest_) + "\n";
  if (!config_.empty()) targets_ += "    model: " + JsonString(config_) + "\n";
  targets_ += settings;
}

std::string SearchProject::SourceName(const std::string& prefix,
                                      const std::string& file) const {
  return file == kSearchedRules ? prefix + file
                                : FromFolder({file}, folder_).front();
}

bool SearchProject::Write(const std::string& comment, const Common& common,
                          Findings& findings) {
  AddFile({manifest_, TextOf([&](Sink& sink) {
             WriteManifestJson(inputs_.request.manifest, sink);
           })});
  if (!config_.empty()) {
    const SourceRef text = ReadSource(inputs_.model_path, findings);
    if (text == nullptr) return false;
    AddFile({config_, std::string(text->text())});
  }
  // The project file is written last, so that it exists only if all other files
  // exist.
  AddFile(
      {"shardc.yaml", "# " + comment + "\nversion: 1\ntargets:\n" + targets_});
  if (!AllAreNew(folder_, files_, findings)) return false;
  NewFileWriter writer(folder_);
  if (!writer.Write(files_, findings)) return false;
  writer.Keep();
  std::string text;
  for (const NewFile& file : files_) {
    const fs::path path = fs::path(folder_) / file.path;
    text += "wrote       " + Printable(path.lexically_normal().string()) + "\n";
  }
  PrintMessage(common, text);
  return true;
}

namespace {

// Proves shardings that a search found. The rules of the sharding are first
// written as text, and read again in the same way as by other commands. The
// proof therefore uses the rules that `cost` and `plan` will compile.

// The most devices of a step that is proved. A mesh of up to 16 devices shows
// the same mistakes as a larger mesh, in a fraction of the time.
constexpr int64_t kMostProofDevices = 16;

std::string ReducedText(const verify::StepReport& report) {
  const bool trains = report.mode == Mode::kTrain;
  return "passes `verify step" +
         (trains ? "" : " --mode " + std::string(ModeName(report.mode))) +
         "` at reduced sizes on " + MeshWords(report.reduced_mesh) +
         (report.stages ? ", in stages: " : ": ") +
         (trains ? Counted(report.gradients, "gradient") + ", " +
                       Counted(report.updates, "updated parameter")
                 : Counted(report.caches, "cache")) +
         ", every value equal to the dense model's";
}

std::string UnprovedText(const Findings& findings) {
  return "not proved: " + (findings.all().empty()
                               ? std::string("no step can be built")
                               : findings.all().front().message);
}

SearchProof VerdictOf(const std::optional<verify::StepReport>& report, int zero,
                      const Findings& findings) {
  SearchProof out;
  out.status = SearchProof::Status::kUnsupported;
  if (!report) {
    out.text = UnprovedText(findings);
  } else if (report->status == verify::StepStatus::kPass) {
    out.status = SearchProof::Status::kPass;
    out.text = ReducedText(*report);
    if (zero > 0) {
      out.text +=
          "; ZeRO " + std::to_string(zero) + " is not part of the proof";
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

}  // namespace

std::unique_ptr<const Compiled> CompileSearched(
    const Mesh& mesh, const search::RulesFile& file, const SearchInputs& inputs,
    const CompileOptions& options,
    const std::function<std::string(const std::string&)>& source_name,
    Findings& findings) {
  const search::Request& request = inputs.request;
  const ModelConfig* const model = request.model ? &*request.model : nullptr;
  auto rules = request.read(file);
  if (!rules) return nullptr;
  ChoosePackAxes(*rules, model, mesh);
  for (Rule& rule : rules->rules) {
    if (source_name && rule.place.source != nullptr) {
      rule.source_name = source_name(rule.place.source->name());
    }
  }
  auto out =
      Compile(mesh, std::move(*rules), request.manifest, options, findings);
  if (out != nullptr) SetKv(model, *out);
  return out;
}

SearchProof ProveStep(const Mesh& mesh, const search::RulesFile& file,
                      const SearchInputs& inputs, int zero,
                      const SetStep& set) {
  SearchProof out;
  out.status = SearchProof::Status::kUnsupported;
  const search::Request& request = inputs.request;
  Findings findings;
  const auto compiled =
      CompileSearched(mesh, file, inputs, request.options, {}, findings);
  if (compiled == nullptr) {
    out.status = SearchProof::Status::kFail;
    out.text = "fails, which is a defect of shardc: the rules do not compile";
    return out;
  }
  if (compiled->rules.model == nullptr) {
    out.text = "not proved: no rules file describes the model's step";
    return out;
  }
  verify::StepRequest step = UsualStep(*compiled, request.model, std::nullopt);
  step.dtype = Dtype::kF64;
  step.threads = request.threads;
  step.most_devices = kMostProofDevices;
  if (!set(*compiled, step, findings)) {
    out.text = UnprovedText(findings);
    return out;
  }
  return VerdictOf(verify::VerifyStep(step, findings), zero, findings);
}

}  // namespace shardc::cli
