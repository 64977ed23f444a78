// Writes OCDBT databases, valid and hostile.
#ifndef SHARDC_TESTS_STORED_OCDBT_BYTES_H_
#define SHARDC_TESTS_STORED_OCDBT_BYTES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardc::stored::test {

inline constexpr uint32_t kManifestMagic = 0x0cdb3a2a;
inline constexpr uint32_t kNodeMagic = 0x0cdb20de;

std::string Varint(uint64_t value);
// Little-endian.
std::string Fixed(uint64_t value, int bytes);
// Returns a complete block around a body. With compression 1, the body must be
// a zstd frame.
std::string Block(uint32_t magic, std::string_view body,
                  uint64_t compression = 0);
// Returns a table of files with these paths, without base paths.
std::string Files(const std::vector<std::string>& paths);

struct Reference {
  std::string path = "d/n";
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
// Returns the body of a manifest with one version.
std::string ManifestBody(const Reference& root, uint64_t keys,
                         uint64_t height = 0);
// Returns the body of a leaf that holds its values.
std::string LeafBody(
    const std::vector<std::pair<std::string, std::string>>& values);
// Returns the body of a leaf with one value, which is in a file.
std::string LeafBody(const std::string& key, const Reference& value);
// Returns the body of a node above the leaves, with one child.
std::string InnerBody(uint64_t height, const Reference& child);

// Returns the `.zarray` of a float32 array, by default uncompressed.
std::string Zarray(std::string_view shape, std::string_view chunks,
                   std::string_view compressor = "null");

}  // namespace shardc::stored::test

#endif  // SHARDC_TESTS_STORED_OCDBT_BYTES_H_
