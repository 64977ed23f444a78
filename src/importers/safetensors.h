// safetensors headers: u64 little-endian N, N bytes of JSON, data.
//
// Every rule of the format is checked: header size (at most 100 MB, inside
// the file), JSON, dtype against offsets, overlaps, gaps, duplicate names,
// only spaces as padding, data end equal to the file's.
#ifndef SHARDC_IMPORTERS_SAFETENSORS_H_
#define SHARDC_IMPORTERS_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/manifest.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

struct SafetensorsEntry {
  std::string name;
  Shape shape;
  Dtype dtype = Dtype::kF32;
  int64_t begin = 0;  // relative to data_offset
  int64_t end = 0;
  bool operator==(const SafetensorsEntry&) const = default;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the header's order
  std::vector<std::pair<std::string, std::string>> metadata;
  int64_t data_offset = 0;  // 8 + header length
  // Numbers of the entries in the order of their names' bytes; empty: not
  // sorted yet.
  std::vector<uint32_t> by_name;
};

// Reads and checks the header of a file. `header_only`: the data is absent
// and the file's size is not judged (also for `*.safetensors.header` names).
std::optional<SafetensorsHeader> ReadSafetensorsHeader(const std::string& path,
                                                       bool header_only,
                                                       Findings& findings);

// The same over bytes in memory (gzipped ones are inflated by the caller).
// `plain`: ordinary ones are read without a document, to the same header.
std::optional<SafetensorsHeader> ParseSafetensorsHeader(
    SourceRef source, std::optional<int64_t> file_size, Findings& findings,
    bool plain = true);

// A Hugging Face index: tensor name -> file name, checked to stay beside the
// index. Order is the file's.
struct HfIndex {
  std::vector<std::pair<std::string, std::string>> weight_map;
  std::string directory;  // of the index, with no trailing slash
};
std::optional<HfIndex> ReadHfIndex(const std::string& path, Findings& findings);
// What ParseHfIndex makes of an ordinary index, without a document; nothing
// where it is another, be it right or wrong.
std::optional<HfIndex> ReadPlainIndex(std::string_view text,
                                      const std::string& path);
std::optional<HfIndex> ParseHfIndex(const JsonDocument& document,
                                    const std::string& path,
                                    Findings& findings);

}  // namespace shardc

#endif  // SHARDC_IMPORTERS_SAFETENSORS_H_
