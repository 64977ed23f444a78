#include "stored/ocdbt_bytes.h"

#include "stored/checksum.h"

namespace shardc::stored::test {
namespace {

// Returns the lengths of shared prefixes, which are all 0, and the lengths of
// the texts.
std::string Lengths(const std::vector<std::string>& texts) {
  std::string out;
  for (size_t i = 1; i < texts.size(); ++i) out += Varint(0);
  for (const std::string& text : texts) out += Varint(text.size());
  return out;
}

}  // namespace

std::string Varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) {
    out += static_cast<char>((value & 0x7F) | 0x80);
  }
  return out + static_cast<char>(value);
}

std::string Fixed(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) {
    out += static_cast<char>((value >> (8 * i)) & 0xFF);
  }
  return out;
}

std::string Block(uint32_t magic, std::string_view body, uint64_t compression) {
  const std::string head = Varint(0) + Varint(compression);
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) {
    out += static_cast<char>((magic >> shift) & 0xFF);
  }
  out += Fixed(4 + 8 + head.size() + body.size() + 4, 8);
  out += head;
  out += body;
  return out + Fixed(Crc32c(out), 4);
}

std::string Files(const std::vector<std::string>& paths) {
  std::string out = Varint(paths.size());
  if (paths.empty()) return out;
  out += Lengths(paths);
  for (size_t i = 0; i < paths.size(); ++i) out += Varint(0);
  for (const std::string& path : paths) out += path;
  return out;
}

std::string ManifestBody(const Reference& root, uint64_t keys,
                         uint64_t height) {
  std::string out(16, 'u');
  out += Varint(0) + Varint(1024) + Varint(100'000'000);
  out += Fixed(4, 1) + Varint(0) + Files({root.path});
  out += Varint(1) + Varint(1) + Fixed(height, 1) + Varint(0);
  out += Varint(root.offset) + Varint(root.bytes) + Varint(keys);
  return out + Varint(0) + Varint(0) + Fixed(0, 8) + Varint(0);
}

std::string LeafBody(
    const std::vector<std::pair<std::string, std::string>>& values) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : values) keys.push_back(key);
  std::string out = Fixed(0, 1) + Varint(0) + Varint(keys.size());
  out += Lengths(keys);
  for (const std::string& key : keys) out += key;
  for (const auto& [key, value] : values) out += Varint(value.size());
  out.append(values.size(), '\0');
  for (const auto& [key, value] : values) out += value;
  return out;
}

std::string LeafBody(const std::string& key, const Reference& value) {
  return Fixed(0, 1) + Files({value.path}) + Varint(1) + Varint(key.size()) +
         key + Varint(value.bytes) + Fixed(1, 1) + Varint(0) +
         Varint(value.offset);
}

std::string InnerBody(uint64_t height, const Reference& child) {
  return Fixed(height, 1) + Files({child.path}) + Varint(1) + Varint(1) +
         Varint(0) + "a" + Varint(0) + Varint(child.offset) +
         Varint(child.bytes) + Varint(1) + Varint(0) + Varint(0);
}

std::string Zarray(std::string_view shape, std::string_view chunks,
                   std::string_view compressor) {
  return "{\"zarr_format\":2,\"shape\":" + std::string(shape) +
         ",\"chunks\":" + std::string(chunks) +
         ",\"dtype\":\"<f4\",\"compressor\":" + std::string(compressor) +
         ",\"fill_value\":null,\"filters\":null,\"order\":\"C\"}";
}

}  // namespace shardc::stored::test
