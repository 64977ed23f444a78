// Converts zarr arrays that are in a store to the arrays of a tree.
#ifndef SHARDC_STORED_ZARR_TREE_H_
#define SHARDC_STORED_ZARR_TREE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "source/finding.h"
#include "stored/store.h"
#include "stored/tree.h"

namespace shardc::stored {

// What it means that the store has no value for a chunk. kLost: the writer
// stores every chunk, so this chunk was lost. kFilled: all elements of the
// chunk are the fill value.
enum class AbsentChunks : uint8_t { kLost, kFilled };

// Adds zarr arrays to a tree, and creates the reader of their chunks.
class ZarrTree {
 public:
  // `root` is the folder that is named in findings.
  ZarrTree(std::string root, std::shared_ptr<const Store> store,
           AbsentChunks absent);
  ~ZarrTree();

  // Returns the array that is stored under a name, with its shape, dtype,
  // chunks and key. Its metadata is the value of the key `NAME/.zarray` or
  // `NAME/zarr.json`. If neither key exists, or if `zarr.json` describes a
  // group, returns nullopt without a finding. If the metadata cannot be read,
  // returns nullopt after a finding. Sets `*found` to whether an array is
  // returned.
  std::optional<Array> Add(const std::string& name, bool* found,
                           Findings& findings);
  // Adds all arrays of the store. An array is named by its key; an array at the
  // root of the store is named `.`. Returns false after a finding.
  bool AddAll(Tree& tree, Findings& findings);
  std::shared_ptr<const ChunkReader> Reader() const;

 private:
  class Chunks;
  std::string root_;
  std::shared_ptr<const Store> store_;
  std::shared_ptr<Chunks> chunks_;
};

}  // namespace shardc::stored

#endif  // SHARDC_STORED_ZARR_TREE_H_
