// Writes an OCDBT database (ocdbt.h): a file of values and B-tree nodes,
// further files of values if several processes have written them, and the
// manifest.
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
#include "stored/new_folder.h"

namespace shardc::stored {

class OcdbtWriter {
 public:
  // `folder` must outlive the writer. `files` are the names of the data files
  // in the folder. `first` is the open file `files[0]`, to which nodes are
  // appended. A node has at most about `node_bytes`, unless a single entry is
  // larger.
  OcdbtWriter(const NewFolder& folder, std::vector<std::string> files,
              NewFile first, size_t node_bytes = size_t{1} << 24)
      : folder_(folder),
        files_(std::move(files)),
        file_(std::move(first)),
        node_bytes_(node_bytes) {}

  // Values of at most this many bytes are held in nodes.
  static constexpr int64_t kHeldBytes = 1024;

  // Keys may come in any order but must be distinct. AddPlaced adds a value
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
    bool held = false;  // whether `value` has the bytes, not the file
    std::string value;
  };
  // A node that has been written, with totals of its subtree, which include the
  // node itself.
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
  // Writes the leaves, and then each level of nodes above them until a level
  // has one node. Returns this root and sets `*height` to its level. Returns a
  // Node without bytes if there are no entries, and nullopt after a finding.
  std::optional<Node> WriteTree(int* height, Findings& findings);
  bool WriteNode(std::string_view body, Node& node, Findings& findings);

  const NewFolder& folder_;
  std::vector<std::string> files_;
  NewFile file_;
  size_t node_bytes_;
  std::vector<Entry> entries_;
};

}  // namespace shardc::stored

#endif  // SHARDC_STORED_WRITE_OCDBT_H_
