// Writes an OCDBT database (ocdbt.h). The database consists of a file with
// values and B-tree nodes, a manifest, and further files of values if several
// processes have written values.
#ifndef SHARDC_STORED_WRITE_OCDBT_H_
#define SHARDC_STORED_WRITE_OCDBT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/finding.h"
#include "stored/write.h"

namespace shardc::stored {

class OcdbtWriter {
 public:
  // `folder` must outlive the writer. `files` are the names of the data files
  // in the folder. `first` is the open file `files[0]`, to which nodes are
  // appended. A node has at most about `node_bytes` bytes, unless it has a
  // single entry that is larger.
  OcdbtWriter(const NewFolder& folder, std::vector<std::string> files,
              NewFile first, size_t node_bytes = size_t{1} << 24)
      : folder_(folder),
        files_(std::move(files)),
        file_(std::move(first)),
        node_bytes_(node_bytes) {}

  // The limit in bytes on values that are stored in nodes of the B-tree. Larger
  // values are stored in data files.
  static constexpr int64_t kHeldBytes = 1024;

  // Keys may be added in any order but must be distinct. AddPlaced adds a value
  // that is already in a data file. Add and Finish return false after the
  // finding `write`.
  bool Add(std::string key, std::string_view value, Findings& findings);
  void AddPlaced(std::string key, size_t file, int64_t offset, int64_t bytes);
  bool Finish(Findings& findings);

 private:
  struct Entry {
    std::string key;
    size_t file = 0;  // index into the data files
    int64_t offset = 0;
    int64_t bytes = 0;
    bool held = false;  // whether the bytes are in `value`, not in the file
    std::string value;
  };
  // A node that has been written. `offset` and `bytes` are the place of the
  // node itself. `keys`, `tree_bytes` (bytes of nodes) and `value_bytes` (bytes
  // of values in data files) are totals of its subtree, which includes the
  // node.
  struct Node {
    std::string first_key;
    int64_t offset = 0;
    int64_t bytes = 0;
    uint64_t keys = 0;
    uint64_t tree_bytes = 0;
    uint64_t value_bytes = 0;
  };

  std::string LeafBody(size_t begin, size_t end) const;
  std::string InnerBody(const std::vector<Node>& children, size_t begin,
                        size_t end, int height) const;
  // Writes the leaves of the B-tree, and then the levels above them until a
  // level has only one node. Returns this node, the root, and sets `*height` to
  // its level. Returns a Node without bytes if there are no entries, and
  // nullopt after a finding.
  std::optional<Node> WriteTree(int* height, Findings& findings);
  bool WriteNode(std::string_view body, Node& node, Findings& findings);

  const NewFolder& folder_;
  std::vector<std::string> files_;
  NewFile file_;
  size_t node_bytes_;
  std::vector<Entry> entries_;
};

// Appends the lowest `bytes` bytes of the value in little-endian order.
inline void AppendLittle(std::string& out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    out += static_cast<char>(value >> (8 * i) & 0xFF);
  }
}

// Appends the value as a varint: seven bits in each byte, low bits first. Every
// byte except the last one has its highest bit set.
inline void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    out += static_cast<char>((value & 0x7F) | 0x80);
  }
  out += static_cast<char>(value);
}

}  // namespace shardc::stored

#endif  // SHARDC_STORED_WRITE_OCDBT_H_
