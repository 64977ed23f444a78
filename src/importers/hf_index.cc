// Reads a Hugging Face index, `model.safetensors.index.json`, which lists the
// file of each tensor. The index may come from an untrusted download, so every
// file must be in the index's folder. For example, the file of `a` is refused
// in `{"weight_map": {"a": "../x"}}`.
#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "importers/safetensors.h"
#include "importers/set_folder.h"
#include "model/name_fault.h"
#include "source/file.h"
#include "source/json.h"
#include "source/plain_json.h"
#include "source/text_order.h"
#include "source/wording.h"

namespace shardc {
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
