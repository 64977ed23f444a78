// Writes the header of a safetensors file: eight bytes with the length of the
// rest, JSON text, and spaces up to the alignment of the data. The length
// includes the spaces. The offsets of tensors in the JSON follow from the
// tensors' sizes. For example, with 61 bytes of JSON and an alignment of 8:
//
//   8 + 61 = 69, so 3 spaces follow, and the length is 61 + 3 = 64
#include "model/safetensors_header.h"

#include "source/json_writer.h"

namespace shardc {
namespace {

void WriteHeader(
    const std::vector<HeaderEntry>& entries,
    const std::vector<std::pair<std::string, std::string>>& metadata,
    Sink& out) {
  JsonWriter json(out, JsonStyle::kCompact);
  json.BeginObject();
  if (!metadata.empty()) {
    json.Key("__metadata__");
    json.BeginObject();
    for (const auto& [key, value] : metadata) json.Member(key, value);
    json.EndObject();
  }
  int64_t offset = 0;
  for (const HeaderEntry& entry : entries) {
    json.Key(entry.name);
    json.BeginObject();
    json.Member("dtype", DtypeName(entry.dtype));
    json.Member("shape", entry.shape);
    json.Member("data_offsets", Shape{offset, offset + entry.bytes});
    json.EndObject();
    offset += entry.bytes;
  }
  json.EndObject();
}

}  // namespace

std::string SafetensorsHeaderText(
    const std::vector<HeaderEntry>& entries,
    const std::vector<std::pair<std::string, std::string>>& metadata,
    size_t alignment) {
  std::string out(8, '\0');
  StringSink sink(out);
  WriteHeader(entries, metadata, sink);
  sink.Flush();
  out.append((alignment - out.size() % alignment) % alignment, ' ');
  const uint64_t size = out.size() - 8;
  for (size_t i = 0; i < 8; ++i) {
    out[i] = static_cast<char>(size >> (8 * i) & 0xFF);
  }
  return out;
}

}  // namespace shardc
