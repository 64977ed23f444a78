// Reads the headers of safetensors files. Such a file consists of the header's
// length N as an unsigned 64-bit little-endian integer, N bytes of JSON, and
// the data.
//
// The reader checks the header's size (at most 100 MB, and inside the file) and
// its JSON, which may be padded with white space. It checks each dtype and
// shape against the offsets, and refuses overlaps, gaps and duplicate names.
// The data must end at the end of the file, unless the caller accepts a file
// without its data.
#ifndef SHARDC_IMPORTERS_SAFETENSORS_H_
#define SHARDC_IMPORTERS_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/manifest.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

struct SafetensorsEntry {
  std::string name;
  Shape shape;
  Dtype dtype = Dtype::kF32;
  int64_t begin = 0;  // first byte, counted from data_offset
  int64_t end = 0;
  bool operator==(const SafetensorsEntry&) const = default;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the header's order
  std::vector<std::pair<std::string, std::string>> metadata;
  int64_t data_offset = 0;  // where the data begins: 8 + header length
  // Indices of the entries, sorted by the bytes of their names. Empty if the
  // header was parsed as a JsonDocument, because that parser does not sort the
  // entries.
  std::vector<uint32_t> by_name;
};

// Reads and checks the header of a file. The file may lack its data if
// `header_only` is true, or if its name ends in `.safetensors.header`. Returns
// nullopt after a finding.
std::optional<SafetensorsHeader> ReadSafetensorsHeader(const std::string& path,
                                                       bool header_only,
                                                       Findings& findings);

// Reads and checks a header in memory, which the caller has already
// decompressed. If `file_size` is nullopt, the data may be absent, and its size
// is not checked. If `plain` is true, common headers are parsed without a
// JsonDocument, which is faster. The result is the same, and `by_name` is set.
// Returns nullopt after a finding.
std::optional<SafetensorsHeader> ParseSafetensorsHeader(
    SourceRef source, std::optional<int64_t> file_size, Findings& findings,
    bool plain = true);

// A Hugging Face index. `weight_map` lists the tensors in the order of the
// index. Each tensor has a name and the name of a file in the index's folder.
struct HfIndex {
  std::vector<std::pair<std::string, std::string>> weight_map;
  std::string directory;  // the index's folder, without a trailing slash
};
std::optional<HfIndex> ReadHfIndex(const std::string& path, Findings& findings);
// Parses an index faster than ParseHfIndex, because it builds no JsonDocument.
// Supports only the usual form: the members `weight_map` and `metadata`, and
// strings of ASCII without escapes. For such an index the result equals that of
// ParseHfIndex. Returns nullopt for any other text, valid or invalid, and the
// caller must use ParseHfIndex.
std::optional<HfIndex> ReadPlainIndex(std::string_view text,
                                      const std::string& path);
std::optional<HfIndex> ParseHfIndex(const JsonDocument& document,
                                    const std::string& path,
                                    Findings& findings);

struct PlainHeader {
  struct Entry {
    std::string_view name;  // a view into the header's text
    uint32_t type = 0;      // index into PlainHeader::types
    int64_t begin = 0, end = 0;
  };
  std::vector<Entry> entries;
  std::vector<TensorType> types;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  std::vector<uint32_t> by_name;  // indices of the entries, sorted by name
};

// Returns the contents of a header that is written as usual, which is the same
// as what the full reader (safetensors.h) returns. Returns nullopt for any
// other text, even if it is a valid header: the full reader then reads it.
// `data_size` is the number of bytes after the header, or nullopt if the file
// lacks its data.
std::optional<PlainHeader> ReadPlainHeader(std::string_view json,
                                           std::optional<int64_t> data_size);

}  // namespace shardc

#endif  // SHARDC_IMPORTERS_SAFETENSORS_H_
