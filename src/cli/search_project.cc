// Writes the project of a search. Rules files that the search did not change
// are named and not copied:
//
//   shardc search --devices 64 ... -o out
//     ->  out/mesh.yaml, out/rules.yaml, out/shardc.yaml, a manifest
#include "cli/search_project.h"

#include <filesystem>
#include <utility>

#include "cli/output.h"
#include "cost/memory.h"
#include "emit/plans/input_text.h"
#include "emit/plans/rules_file.h"
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

}  // namespace shardc::cli
