// Reads the headers of all files of a checkpoint. If the checkpoint has an
// index, the headers are compared with the index in both directions: each
// listed tensor must be in its file, and each tensor of a file must be listed.
// If the folder has none of the files, only the names in the index are used.
// For example:
//
//   the index lists a and b in the file f1, and f1 holds only a
//     ->  reported: b is not in f1
#include "importers/safetensors_set.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "importers/safetensors.h"
#include "importers/set_folder.h"
#include "model/name.h"
#include "source/file.h"
#include "source/json.h"
#include "source/plain_json.h"
#include "source/text_order.h"
#include "source/wording.h"

namespace shardc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexSuffix = ".safetensors.index.json";

std::string QuotedFile(std::string_view name) {
  return "`" + std::string(name.substr(0, 200)) + "`";
}

std::string JoinPath(const std::string& directory, const std::string& name) {
  return directory == "." ? name : directory + "/" + name;
}

// Returns the sorted names in a directory. Returns nullopt after a finding if
// the directory cannot be read.
std::optional<std::vector<std::string>> AllNames(const std::string& directory,
                                                 Findings& findings) {
  std::error_code error;
  auto names = NamesIn(directory, error);
  if (!names) {
    findings.Add(code::kUnreadable, Place{MakeSource(directory, {})},
                 "cannot list `" + directory + "`: " + error.message());
  }
  return names;
}

// Returns the names that end in `suffix`, except the names of hidden files.
std::vector<std::string> WithSuffix(std::vector<std::string> names,
                                    std::string_view suffix) {
  std::erase_if(names, [&](const std::string& name) {
    return !name.ends_with(suffix) || name.starts_with('.');
  });
  return names;
}

bool IsUnder(const fs::path& folder, const fs::path& file) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end())
             .first == folder.end();
}

class IndexedReader {
 public:
  IndexedReader(const HfIndex& index, const std::string& path,
                Findings& findings)
      : index_(index),
        path_(path),
        place_{MakeSource(path, {})},
        findings_(findings) {}

  std::optional<SafetensorsSet> Read(bool header_only) {
    const size_t before = findings_.errors();
    // shardc marks an index as unfinished while it replaces files of the set.
    // The index is compared before and after reading. If the index is the same
    // and is not marked at either time, no run of shardc has changed the files
    // in between.
    const SetWatch watch({path_});
    if (IsUnfinishedIndex(path_)) return RefuseReplaced();
    ListFiles();
    if (!Present()) return NamesOnly();
    if (findings_.errors() > before) return std::nullopt;
    for (const std::string& name : names_) {
      const std::string path = JoinPath(index_.directory, name);
      // The path is checked before the header is read, because a message about
      // a header may quote the file's content.
      if (!IsInFolder(index_.directory, path, findings_)) return std::nullopt;
      Findings found;
      auto header = ReadSafetensorsHeader(path, header_only, found);
      findings_.NoteReadsOf(found);
      ReportIndex(found);
      if (!header) return std::nullopt;
      set_.files.push_back({path, std::move(*header)});
    }
    for (size_t file = 0; file < set_.files.size(); ++file) IndexFile(file);
    for (const auto& [tensor, file] : index_.weight_map) {
      if (findings_.Full()) break;
      Locate(tensor, file_ids_.at(file));
    }
    if (findings_.errors() == before) {
      CheckExtra();
      CheckUnlistedFiles();
    }
    if (findings_.errors() == before) RefuseGaps(place_, names_, findings_);
    if (findings_.errors() > before || watch.RefuseChanged(findings_)) {
      return std::nullopt;
    }
    return std::move(set_);
  }

 private:
  // Reports that the index was replaced after its text had been read.
  std::optional<SafetensorsSet> RefuseReplaced() {
    findings_.Add(code::kUnreadable, place_,
                  "`" + path_ + "` has changed while its set was read",
                  "run again when nothing writes to the set");
    return std::nullopt;
  }

  void ListFiles() {
    for (const auto& [tensor, file] : index_.weight_map) {
      if (file_ids_.try_emplace(file, names_.size()).second) {
        names_.push_back(file);
      }
    }
  }

  // Returns whether the folder has at least one of the files. If it has some of
  // them, each absent file is reported.
  bool Present() {
    std::vector<std::string> missing;
    for (const std::string& name : names_) {
      std::error_code error;
      const auto status =
          fs::symlink_status(JoinPath(index_.directory, name), error);
      if (status.type() == fs::file_type::not_found) missing.push_back(name);
    }
    if (missing.size() == names_.size()) return false;
    for (const std::string& name : missing) {
      if (findings_.Full()) break;
      findings_.Add(code::kMissing, place_,
                    "the index names `" + name + "`, and there is no such file",
                    Counted(static_cast<int64_t>(missing.size()), "file") +
                        " of " + std::to_string(names_.size()) +
                        " missing; with none of them present the names are"
                        " read from the index alone");
    }
    return true;
  }

  std::optional<SafetensorsSet> NamesOnly() {
    for (const auto& [tensor, file] : index_.weight_map) {
      set_.tensors.push_back({tensor, -1, -1});
    }
    if (!set_.tensors.empty()) {
      set_.notes.push_back(
          "names only: none of the index's " +
          Counted(static_cast<int64_t>(names_.size()), "file") + " is present");
    }
    return std::move(set_);
  }

  // Adds the findings about a file, each with a label that points to the index.
  void ReportIndex(const Findings& found) {
    for (Finding finding : found.all()) {
      finding.labels.push_back({place_, "the index that names it"});
      findings_.Add(std::move(finding));
    }
  }

  void IndexFile(size_t file) {
    const auto& entries = set_.files[file].header.entries;
    for (size_t entry = 0; entry < entries.size(); ++entry) {
      held_[entries[entry].name].emplace_back(file, entry);
    }
  }

  void Locate(const std::string& tensor, size_t file) {
    const auto held = held_.find(tensor);
    if (held != held_.end()) {
      for (const auto& [other, entry] : held->second) {
        if (other != file) continue;
        set_.tensors.push_back(
            {tensor, static_cast<int32_t>(file), static_cast<int32_t>(entry)});
        return;
      }
    }
    findings_.Add(code::kTensorMissing, place_,
                  QuotedFile(tensor) + " is not in `" + names_[file] +
                      "`, where the index has it",
                  held == held_.end()
                      ? std::string()
                      : "it is in `" + names_[held->second[0].first] + "`");
  }

  void CheckExtra() {
    std::unordered_map<std::string_view, size_t> listed;
    for (const auto& [tensor, file] : index_.weight_map) {
      listed[tensor] = file_ids_.at(file);
    }
    for (const SafetensorsFile& file : set_.files) {
      for (const SafetensorsEntry& entry : file.header.entries) {
        if (findings_.Full()) return;
        const auto& copies = held_.at(entry.name);
        const auto found = listed.find(entry.name);
        if (found == listed.end()) {
          findings_.Add(code::kTensorExtra, place_,
                        "`" + file.path + "` holds " + QuotedFile(entry.name) +
                            ", which the index does not list");
        } else if (copies.size() > 1 && &file == &set_.files[found->second]) {
          findings_.Add(
              code::kDuplicateKey, place_,
              QuotedFile(entry.name) + " is in " +
                  Counted(static_cast<int64_t>(copies.size()), "file") +
                  " of the index");
        }
      }
    }
  }

  // Reports files that the index does not list, although their names are in the
  // same numbered series as the listed files (`-00001-of-00003`).
  void CheckUnlistedFiles() {
    std::set<std::tuple<std::string_view, int64_t, std::string_view>> series;
    for (const std::string& name : names_) {
      if (const auto own = ParseNumberedName(name)) {
        series.emplace(own->prefix, own->count, own->suffix);
      }
    }
    const auto listing = AllNames(index_.directory, findings_);
    if (!listing) return;
    for (const std::string& name : WithSuffix(*listing, kTensorsSuffix)) {
      const auto own = ParseNumberedName(name);
      if (file_ids_.contains(name) || !own ||
          !series.contains({own->prefix, own->count, own->suffix})) {
        continue;
      }
      findings_.Add(code::kTensorExtra, place_,
                    "`" + JoinPath(index_.directory, name) +
                        "` belongs to the same series, and the index does not"
                        " list it");
    }
  }

  const HfIndex& index_;
  const std::string& path_;
  Place place_;
  Findings& findings_;
  SafetensorsSet set_;
  // Names of distinct files, in the index's order.
  std::vector<std::string> names_;
  std::unordered_map<std::string, size_t> file_ids_;
  // For each tensor's name, the files that contain the tensor. Each pair has
  // the index of a file and the index of the tensor's entry in that file.
  std::unordered_map<std::string_view, std::vector<std::pair<size_t, size_t>>>
      held_;
};

std::optional<SafetensorsSet> ReadFiles(const std::vector<std::string>& paths,
                                        bool header_only, Findings& findings) {
  SafetensorsSet set;
  const size_t before = findings.errors();
  std::unordered_map<std::string, size_t> seen;
  for (const std::string& path : paths) {
    auto header = ReadSafetensorsHeader(path, header_only, findings);
    if (!header) return std::nullopt;
    const auto file = static_cast<int32_t>(set.files.size());
    for (size_t i = 0; i < header->entries.size(); ++i) {
      const std::string& name = header->entries[i].name;
      const auto [other, added] = seen.try_emplace(name, file);
      if (added) {
        set.tensors.push_back({name, file, static_cast<int32_t>(i)});
      } else if (!findings.Full()) {
        findings.Add(code::kDuplicateKey, Place{MakeSource(path, {})},
                     QuotedFile(name) + " is also in `" +
                         set.files[other->second].path + "`");
      }
    }
    set.files.push_back({path, std::move(*header)});
  }
  if (findings.errors() > before) return std::nullopt;
  return set;
}

// Reports that a folder has neither safetensors files nor files of a format of
// stored/table.h. If file names suggest another format, such as pickled PyTorch
// tensors, the finding states this format.
void AddNoCheckpoint(const std::string& folder,
                     const std::vector<std::string>& names,
                     Findings& findings) {
  struct Form {
    std::string_view begin;
    // The text with which a file name must end, such as ".bin". If this text
    // ends with `-`, it may be anywhere in the name: ".data-00000-of-".
    std::string_view part;
    std::string_view name;
    std::string_view help;
  };
  static constexpr std::array<Form, 5> kForms = {{
      {"pytorch_model", ".bin", "pickled tensors of PyTorch",
       "save the model with `safe_serialization=True`"},
      {"", ".pth", "pickled tensors of PyTorch",
       "save the tensors as safetensors"},
      {"", ".pt", "pickled tensors of PyTorch",
       "save the tensors as safetensors"},
      {"", ".msgpack", "serialised arrays of Flax",
       "save the tree by orbax, or as safetensors"},
      {"", ".data-00000-of-", "a checkpoint of TensorFlow",
       "save the variables as safetensors"},
  }};
  const Place place{MakeSource(folder, {})};
  for (const Form& form : kForms) {
    for (const std::string& name : names) {
      const bool has_part = form.part.ends_with('-')
                                ? name.find(form.part) != std::string::npos
                                : name.ends_with(form.part);
      if (name.starts_with(form.begin) && has_part) {
        findings.Add(code::kMissing, place,
                     "the folder holds " + std::string(form.name) + " (" +
                         ShortQuote(name) + "), which shardc does not read",
                     std::string(form.help));
        return;
      }
    }
  }
  findings.Add(code::kMissing, place,
               "`" + folder +
                   "` holds no `.safetensors` file and no checkpoint of "
                   "orbax, zarr or PyTorch DCP",
               "give the folder in which the checkpoint's files are");
}

// Reads all safetensors files of a folder that has no index. A missing file is
// detected by the numbers in the files' names. A folder that a run of shardc is
// still writing is detected by the run's journal and hidden part files.
std::optional<SafetensorsSet> ReadUnindexed(
    const std::string& folder, const std::vector<std::string>& names,
    bool header_only, Findings& findings) {
  const size_t before = findings.errors();
  const auto files = WithSuffix(names, kTensorsSuffix);
  RefuseUnfinishedRun(folder, names, findings);
  RefuseGaps(Place{MakeSource(folder, {})}, files, findings);
  if (findings.errors() > before || RefuseShards(folder, names, findings)) {
    return std::nullopt;
  }
  if (files.empty()) {
    AddNoCheckpoint(folder, names, findings);
    return std::nullopt;
  }
  std::vector<std::string> paths;
  for (const std::string& name : files) {
    paths.push_back(JoinPath(folder, name));
    if (!IsInFolder(folder, paths.back(), findings)) return std::nullopt;
  }
  const SetWatch watch(paths);
  auto set = ReadFiles(paths, header_only, findings);
  if (!set || watch.RefuseChanged(findings)) return std::nullopt;
  // A run may have started after the first check, and may have replaced some
  // files before `watch` recorded their states. Therefore the check for
  // unfinished runs is repeated.
  const auto now = AllNames(folder, findings);
  if (!now || RefuseUnfinishedRun(folder, *now, findings)) return std::nullopt;
  return set;
}

std::optional<SafetensorsSet> ReadDirectory(const std::string& directory,
                                            bool header_only,
                                            Findings& findings) {
  const auto names = AllNames(directory, findings);
  if (!names) return std::nullopt;
  const auto indices = WithSuffix(*names, kIndexSuffix);
  const std::string base = directory.ends_with('/') && directory.size() > 1
                               ? directory.substr(0, directory.size() - 1)
                               : directory;
  if (indices.size() > 1) {
    findings.Add(
        code::kUsage, Place{MakeSource(directory, {})},
        "`" + directory + "` holds " + std::to_string(indices.size()) +
            " indices",
        "name one of them, such as `" + JoinPath(base, indices.front()) + "`");
    return std::nullopt;
  }
  if (indices.size() == 1) {
    const std::string path = JoinPath(base, indices.front());
    if (!IsInFolder(base, path, findings)) return std::nullopt;
    const auto index = ReadHfIndex(path, findings);
    if (!index) return std::nullopt;
    return ReadIndexedSet(*index, path, header_only, findings);
  }
  return ReadUnindexed(base, *names, header_only, findings);
}

}  // namespace

bool IsInFolder(const std::string& folder, const std::string& path,
                Findings& findings) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return true;
  const fs::path root = fs::canonical(folder, error);
  const fs::path file = error ? fs::path() : fs::canonical(path, error);
  // Broken links, and links to anything but a regular file, are accepted here.
  // Opening them later fails with a finding.
  if (error || IsUnder(root, file) || !fs::is_regular_file(file, error)) {
    return true;
  }
  for (fs::path at = root; at.has_relative_path(); at = at.parent_path()) {
    if (at.parent_path().filename() == "snapshots" &&
        IsUnder(at.parent_path().parent_path() / "blobs", file)) {
      return true;
    }
  }
  findings.Add(code::kPath, Place{MakeSource(path, {})},
               "`" + path + "` is a link that leads out of `" + folder +
                   "`, to `" + file.string() + "`",
               "name the folder that it leads to, or put the file there");
  return false;
}

std::optional<SafetensorsSet> ReadIndexedSet(const HfIndex& index,
                                             const std::string& index_path,
                                             bool header_only,
                                             Findings& findings) {
  return IndexedReader(index, index_path, findings).Read(header_only);
}

std::optional<SafetensorsSet> ReadSafetensorsSet(const std::string& path,
                                                 bool header_only,
                                                 Findings& findings) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    return ReadDirectory(path, header_only, findings);
  }
  if (path.ends_with(".json") || path.ends_with(".json.gz")) {
    const auto index = ReadHfIndex(path, findings);
    if (!index) return std::nullopt;
    return ReadIndexedSet(*index, path, header_only, findings);
  }
  if (RefuseMember(path, findings)) return std::nullopt;
  return ReadFiles({path}, header_only, findings);
}

// Reads a Hugging Face index, `model.safetensors.index.json`, which lists the
// file of each tensor. The index may come from an untrusted download, so every
// file must be in the index's folder. For example, the file of `a` is refused
// in `{"weight_map": {"a": "../x"}}`.

namespace {

constexpr size_t kLongestName = 255;

// Returns whether the name ends in `.safetensors`. Case is ignored, because
// some file systems ignore case.
bool HasSuffix(std::string_view name) {
  constexpr std::string_view kSuffix = ".safetensors";
  if (name.size() < kSuffix.size()) return false;
  const std::string_view tail = name.substr(name.size() - kSuffix.size());
  return std::equal(tail.begin(), tail.end(), kSuffix.begin(),
                    [](char a, char b) {
                      return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b;
                    });
}

// Returns the reason why a file name is refused, or an empty text if the name
// is accepted.
std::string_view Fault(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.size() > kLongestName) return "is longer than file names may be";
  if (name == "." || name == "..") return "is a directory";
  if (name.find_first_of("/\\") != std::string_view::npos) {
    return "leads out of the index's own directory";
  }
  if (name.find(':') != std::string_view::npos) {
    return "names a drive or an address";
  }
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      return "holds control characters";
    }
  }
  if (!HasSuffix(name)) return "is no safetensors file";
  return {};
}

bool CheckName(const JsonMember& member, Findings& findings) {
  if (std::string fault = ParameterNameFault(member.name()); !fault.empty()) {
    findings.Add(code::kName, member.value.place(), std::move(fault));
    return false;
  }
  if (!member.value.IsString()) {
    findings.Add(code::kSchema, member.value.place(),
                 "the file of `" + std::string(member.name().substr(0, 200)) +
                     "` is not a text");
    return false;
  }
  const std::string_view name = member.value.string();
  const std::string_view fault = Fault(name);
  if (fault.empty()) return true;
  findings.Add(code::kPath, member.value.place(),
               "the file name `" + std::string(name.substr(0, 100)) +
                   (name.size() > 100 ? "...` " : "` ") + std::string(fault),
               "an index names files of its own directory");
  return false;
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "."
         : slash == 0               ? "/"
                                    : path.substr(0, slash);
}

// Skips the value of `metadata`, such as `{"total_size": 123, "format": "pt"}`.
// Returns false if the value has another form.
bool SkipMetadata(PlainJson& json) {
  std::vector<std::string_view> keys;
  if (!json.Take('{')) return false;
  if (json.Take('}')) return true;
  do {
    std::string_view text;
    int64_t number = 0;
    if (!json.String(text) || !json.Take(':')) return false;
    keys.push_back(text);
    if (json.Next('"') ? !json.String(text) : !json.Number(number)) {
      return false;
    }
  } while (json.Take(','));
  return json.Take('}') && AreDistinct(keys);
}

bool ReadMap(PlainJson& json, HfIndex& index) {
  std::vector<std::string_view> names;
  std::string_view known;
  if (!json.Take('{')) return false;
  if (json.Take('}')) return true;
  do {
    std::string_view name, file;
    if (!json.String(name) || !json.Take(':') || !json.String(file) ||
        ((names.empty() || file != known) && !Fault(file).empty())) {
      return false;
    }
    known = file;
    names.push_back(name);
    index.weight_map.emplace_back(name, file);
  } while (json.Take(','));
  return json.Take('}') && AreDistinct(names);
}

}  // namespace

std::optional<HfIndex> ReadPlainIndex(std::string_view text,
                                      const std::string& path) {
  HfIndex index;
  index.directory = FolderOf(path);
  PlainJson json(text);
  bool has_map = false, has_metadata = false;
  if (!json.Take('{')) return std::nullopt;
  do {
    std::string_view key;
    if (!json.String(key) || !json.Take(':')) return std::nullopt;
    bool& seen = key == "metadata" ? has_metadata : has_map;
    if (seen || (key != "metadata" && key != "weight_map")) {
      return std::nullopt;
    }
    seen = true;
    if (key == "metadata" ? !SkipMetadata(json) : !ReadMap(json, index)) {
      return std::nullopt;
    }
  } while (json.Take(','));
  if (!has_map || !json.Take('}') || !json.End()) return std::nullopt;
  return index;
}

std::optional<HfIndex> ParseHfIndex(const JsonDocument& document,
                                    const std::string& path,
                                    Findings& findings) {
  const JsonValue root = document.root();
  if (RefuseUnfinishedIndex(root, findings)) return std::nullopt;
  const std::optional<JsonValue> map = root.Find("weight_map");
  if (!map || !map->IsObject()) {
    findings.Add(
        code::kSchema, map ? map->place() : root.place(),
        map ? "`weight_map` is not an object" : "the index has no `weight_map`",
        "it maps tensor names to file names");
    return std::nullopt;
  }
  const size_t before = findings.errors();
  HfIndex index;
  index.directory = FolderOf(path);
  index.weight_map.reserve(map->size());
  for (const JsonMember member : map->members()) {
    if (findings.Full()) break;
    if (!CheckName(member, findings)) continue;
    index.weight_map.emplace_back(member.name(), member.value.string());
  }
  if (findings.errors() > before) return std::nullopt;
  return index;
}

std::optional<HfIndex> ReadHfIndex(const std::string& path,
                                   Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return std::nullopt;
  if (auto plain = ReadPlainIndex(source->text(), path)) return plain;
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return std::nullopt;
  return ParseHfIndex(*document, path, findings);
}

}  // namespace shardc
