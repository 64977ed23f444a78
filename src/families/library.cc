// Finds the description of a family by its name, which is that of the file: the
// file `acme.yaml` describes the model type `acme`. A folder is listed once,
// and names are looked up in this list. The text of a config.json, which names
// a model type, therefore never becomes a path.
#include "families/library.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "families/embedded.h"
#include "source/file.h"
#include "source/wording.h"

namespace shardc::families {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".yaml";
// The bundled descriptions have at most 3 KiB.
constexpr int64_t kLongestFile = int64_t{1} << 20;

std::string_view NameOf(std::string_view file) {
  return file.substr(0, file.size() - kEnding.size());
}

}  // namespace

std::optional<Library> Library::Open(const std::string& folder,
                                     Findings& findings) {
  Library out;
  if (folder.empty()) return out;
  const Place place{MakeSource(folder, {})};
  std::error_code error;
  fs::directory_iterator files(folder, error);
  std::set<std::string> names;
  for (; !error && files != fs::directory_iterator(); files.increment(error)) {
    std::string name = files->path().filename().string();
    if (name.ends_with(".yml")) {
      findings.Add(code::kSchema, Place{MakeSource(files->path().string(), {})},
                   "the name of a family's description ends in `.yaml`",
                   "rename the file to " +
                       Quote(name.substr(0, name.size() - 4) + ".yaml"));
      return std::nullopt;
    }
    if (name.ends_with(kEnding)) names.insert(std::move(name));
  }
  if (error) {
    findings.Add(code::kMissing, place,
                 "the folder of families cannot be read: " + error.message(),
                 "give a folder with a file `MODEL_TYPE.yaml` for each family");
    return std::nullopt;
  }
  if (names.empty()) {
    findings.Add(code::kMissing, place,
                 "the folder has no description of a family",
                 "a description is a file `MODEL_TYPE.yaml`");
    return std::nullopt;
  }
  for (const std::string& name : names) {
    SourceRef text =
        ReadSource((fs::path(folder) / name).string(), findings, kLongestFile);
    if (text == nullptr) return std::nullopt;
    out.own_.emplace(NameOf(name), std::move(text));
  }
  return out;
}

SourceRef Library::Find(std::string_view name, bool bundled) const {
  const auto own = own_.find(name);
  if (!bundled && own != own_.end()) return own->second;
  for (const EmbeddedFile& file : EmbeddedFamilies()) {
    if (NameOf(file.name) == name) {
      return MakeSource("family:" + std::string(name), std::string(file.text));
    }
  }
  return nullptr;
}

std::vector<std::string_view> Library::OwnNames() const {
  std::vector<std::string_view> names;
  for (const auto& [name, text] : own_) names.emplace_back(name);
  return names;
}

std::vector<std::string_view> Library::Names() const {
  std::vector<std::string_view> names = OwnNames();
  for (const EmbeddedFile& file : EmbeddedFamilies()) {
    names.push_back(NameOf(file.name));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace shardc::families
