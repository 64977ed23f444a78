// Writes an OCDBT database (ocdbt.h): one file of values and B-tree nodes, and
// the manifest.
#ifndef SHARDC_STORED_WRITE_OCDBT_H_
#define SHARDC_STORED_WRITE_OCDBT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/finding.h"
#include "stored/new_folder.h"

namespace shardc::stored {

class OcdbtWriter {
 public:
  // Creates the files in `folder`, which must outlive the writer. Nodes are
  // divided at `node_bytes`. Returns nullopt after the finding `write`.
  static std::optional<OcdbtWriter> Create(const NewFolder& folder,
                                           Findings& findings,
                                           size_t node_bytes = size_t{1} << 24);

  // Both return false after the finding `write`. Keys come in any order and are
  // distinct.
  bool Add(std::string key, std::string_view value, Findings& findings);
  bool Finish(Findings& findings);

 private:
  struct Entry {
    std::string key;
    int64_t offset = 0;
    int64_t bytes = 0;
    bool held = false;  // in `value`, else in the file
    std::string value;
  };
  // A node that was written, and what is below it.
  struct Node {
    std::string first_key;
    int64_t offset = 0;
    int64_t bytes = 0;
    uint64_t keys = 0;
    uint64_t tree_bytes = 0;
    uint64_t value_bytes = 0;
  };

  OcdbtWriter(const NewFolder& folder, NewFile file, size_t node_bytes)
      : folder_(folder), file_(std::move(file)), node_bytes_(node_bytes) {}
  static std::string LeafBody(const std::vector<Entry>& entries, size_t begin,
                              size_t end);
  static std::string InnerBody(const std::vector<Node>& children, size_t begin,
                               size_t end, int height);
  // Writes nodes until one is left; nullopt after a finding.
  std::optional<Node> WriteTree(int* height, Findings& findings);
  bool WriteNode(std::string_view body, Node& node, Findings& findings);

  const NewFolder& folder_;
  NewFile file_;
  size_t node_bytes_;
  std::vector<Entry> entries_;
};

}  // namespace shardc::stored

#endif  // SHARDC_STORED_WRITE_OCDBT_H_
