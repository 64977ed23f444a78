#include "checkpoint/header_text.h"

#include "source/wording.h"

namespace shardc {

std::string HeaderText(
    const std::vector<HeaderEntry>& entries,
    const std::vector<std::pair<std::string, std::string>>& metadata,
    size_t alignment) {
  std::string json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      if (json.back() != '{') json += ',';
      AppendJsonString(json, key);
      json += ':';
      AppendJsonString(json, value);
    }
    json += '}';
  }
  int64_t offset = 0;
  for (const HeaderEntry& entry : entries) {
    if (json.size() > 1) json += ',';
    AppendJsonString(json, entry.name);
    json += ":{\"dtype\":\"";
    json += DtypeName(entry.dtype);
    json += "\",\"shape\":[";
    for (size_t i = 0; i < entry.shape.size(); ++i) {
      if (i > 0) json += ',';
      json += std::to_string(entry.shape[i]);
    }
    json += "],\"data_offsets\":[" + std::to_string(offset) + ",";
    offset += entry.bytes;
    json += std::to_string(offset) + "]}";
  }
  json += '}';
  const size_t used = 8 + json.size();
  json.append((alignment - used % alignment) % alignment, ' ');
  std::string out;
  for (int i = 0; i < 8; ++i) {
    out += static_cast<char>(json.size() >> (8 * i) & 0xFF);
  }
  return out + json;
}

}  // namespace shardc
