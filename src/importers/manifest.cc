// Determines the format of a manifest from its first bytes, or from the file
// name if the bytes are ambiguous. Standard input and gzip files are read
// completely. Of other binary files only the headers are read. The time
// therefore depends on the number of tensors and not on their bytes. The
// formats are recognised as follows:
//
//   "GGUF"                        a GGUF file
//   4 bytes, 4 zero bytes, `{`    a safetensors file; not JSON, which has no
//                                 zero bytes
//   "\x1f\x8b"                    gzip: decompressed, then determined again
//   JSON with a map `weight_map`  a Hugging Face index, and its files
//   a folder                      a checkpoint that src/stored reads, or
//                                 safetensors files
#include "importers/manifest.h"

#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "importers/safetensors.h"
#include "importers/safetensors_set.h"
#include "importers/set_folder.h"
#include "source/file.h"
#include "source/input_file.h"
#include "stored/tree.h"

namespace shardc {
namespace {

enum class Kind { kSafetensors, kGguf, kText };

// A file name without `.gz`, and the formats that its ending suggests.
struct Name {
  std::string_view base;
  bool safetensors = false;
  bool header_only = false;
  bool gguf = false;
  bool index = false;

  explicit Name(std::string_view path) : base(path) {
    if (base.ends_with(".gz")) base.remove_suffix(3);
    header_only = base.ends_with(".safetensors.header");
    safetensors = header_only || base.ends_with(".safetensors");
    gguf = base.ends_with(".gguf");
    index = base.ends_with(".safetensors.index.json");
  }
};

// Returns the format of a file that begins with `first`. A safetensors file
// begins with the length of its header in 8 bytes. The length is less than
// 2^32, so bytes 4 to 7 are zero. JSON has no zero bytes.
Kind KindOf(std::string_view first, const Name& name) {
  if (IsGguf(first)) return Kind::kGguf;
  constexpr std::string_view kZeros("\0\0\0\0", 4);
  if (first.size() > 8 && first.substr(4, 4) == kZeros && first[8] == '{') {
    return Kind::kSafetensors;
  }
  if (name.safetensors) return Kind::kSafetensors;
  if (name.gguf) return Kind::kGguf;
  return Kind::kText;
}

// Returns whether a text file is read in parts. Only files of at least 1 MiB
// and at most kTextLimitBytes are read in parts. A Hugging Face index is read
// at once.
bool IsStreamed(const InputFile& file, const Name& name) {
  constexpr int64_t kLeastBytes = int64_t{1} << 20;
  return !name.index && file.size() >= kLeastBytes &&
         file.size() <= kTextLimitBytes;
}

Manifest FromHeader(const SafetensorsHeader& header, SourceRef source) {
  ManifestBuilder builder;
  for (const SafetensorsEntry& entry : header.entries) {
    builder.Add(entry.name, {entry.shape, entry.dtype});
  }
  Manifest manifest = builder.Take();
  manifest.source = std::move(source);
  manifest.by_name = header.by_name;
  return manifest;
}

std::optional<Manifest> FromSet(std::optional<SafetensorsSet> set,
                                const std::string& path) {
  if (!set) return std::nullopt;
  ManifestBuilder builder;
  for (const SafetensorsSet::Tensor& tensor : set->tensors) {
    TensorType type;
    if (tensor.file >= 0) {
      const SafetensorsEntry& entry = set->EntryOf(tensor);
      type = {entry.shape, entry.dtype};
    }
    builder.Add(tensor.name, std::move(type));
  }
  Manifest manifest = builder.Take();
  manifest.source = MakeSource(path, {});
  manifest.notes = std::move(set->notes);
  return manifest;
}

// Returns the separator with which the format joined the keys of an array's
// path: `/` or, in DCP (torch.distributed.checkpoint), `.`. Returns 0 if the
// path has a single key.
char JoinedBy(const stored::Array& array) {
  if (array.path.size() < 2) return 0;
  for (const char separator : {'/', '.'}) {
    if (array.name.starts_with(array.path[0] + separator)) return separator;
  }
  return 0;
}

std::optional<Manifest> FromTree(std::optional<stored::Tree> tree,
                                 const std::string& path) {
  if (!tree) return std::nullopt;
  ManifestBuilder builder;
  char separator = 0;
  for (const stored::Array& array : tree->arrays) {
    builder.Add(array.name, {array.shape, array.dtype});
    if (separator == 0) separator = JoinedBy(array);
  }
  Manifest manifest = builder.Take();
  if (separator != 0) manifest.separator = separator;
  manifest.source = MakeSource(path, {});
  manifest.notes = std::move(tree->notes);
  return manifest;
}

std::optional<Manifest> FromJson(const SourceRef& source,
                                 const std::string& path, const Name& name,
                                 const JsonManifestParser& json,
                                 const ManifestOptions& options,
                                 Findings& findings) {
  if (options.plain && !name.index) {
    if (auto manifest = options.plain(source)) return manifest;
  }
  if (const auto index = ReadPlainIndex(source->text(), path)) {
    return FromSet(ReadIndexedSet(*index, path, options.header_only, findings),
                   path);
  }
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return std::nullopt;
  const auto map = document->root().Find("weight_map");
  if (name.index || (map && map->IsObject())) {
    const auto index = ParseHfIndex(*document, path, findings);
    if (!index) return std::nullopt;
    return FromSet(ReadIndexedSet(*index, path, options.header_only, findings),
                   path);
  }
  auto manifest = json(*document, findings);
  if (manifest && manifest->source == nullptr) manifest->source = source;
  return manifest;
}

std::optional<Manifest> FromSource(const SourceRef& source,
                                   const std::string& path,
                                   const JsonManifestParser& json,
                                   const ManifestOptions& options,
                                   Findings& findings) {
  const Name name(source->name());
  const bool header_only = options.header_only || name.header_only;
  switch (KindOf(source->text(), name)) {
    case Kind::kSafetensors: {
      std::optional<int64_t> size;
      if (!header_only) size = static_cast<int64_t>(source->text().size());
      const auto header = ParseSafetensorsHeader(source, size, findings);
      if (!header) return std::nullopt;
      return FromHeader(*header, MakeSource(source->name(), {}));
    }
    case Kind::kGguf:
      return ParseGguf(source, header_only, findings);
    case Kind::kText:
      break;
  }
  return FromJson(source, path, name, json, options, findings);
}

}  // namespace

std::optional<Manifest> ReadManifest(const std::string& path,
                                     const JsonManifestParser& json,
                                     const ManifestOptions& options,
                                     Findings& findings) {
  if (path == "-") {
    const SourceRef read = ReadSource(path, findings);
    if (read == nullptr) return std::nullopt;
    return FromSource(MakeSource(options.stdin_name, std::string(read->text())),
                      "", json, options, findings);
  }
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    const auto folder = stored::ReadFolder(path);
    const auto* format = folder ? stored::FormatOf(*folder) : nullptr;
    if (format != nullptr) {
      return FromTree(stored::OpenAs(*format, *folder, findings), path);
    }
    return FromSet(ReadSafetensorsSet(path, options.header_only, findings),
                   path);
  }
  std::optional<InputFile> file = InputFile::Open(path, findings);
  if (!file) return std::nullopt;
  const auto first = file->Head(16, findings);
  if (!first) return std::nullopt;
  const bool gzip = IsGzip(*first);
  const Kind kind = gzip ? Kind::kText : KindOf(*first, Name(path));
  if (kind == Kind::kText && !gzip && options.streamed &&
      IsStreamed(*file, Name(path))) {
    if (auto manifest = options.streamed(*file)) return manifest;
  }
  file.reset();
  if (kind == Kind::kSafetensors) {
    if (RefuseMember(path, findings)) return std::nullopt;
    const auto header =
        ReadSafetensorsHeader(path, options.header_only, findings);
    if (!header) return std::nullopt;
    return FromHeader(*header, MakeSource(path, {}));
  }
  if (kind == Kind::kGguf) {
    return ReadGguf(path, options.header_only, findings);
  }
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return std::nullopt;
  return FromSource(source, path, json, options, findings);
}

}  // namespace shardc
