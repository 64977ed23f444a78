// A stored checkpoint: full tensors in safetensors files, the pieces that an
// earlier split has written, or a tree of another system.
#ifndef SHARDC_CHECKPOINT_STORED_H_
#define SHARDC_CHECKPOINT_STORED_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/ownership.h"
#include "checkpoint/transfer.h"
#include "importers/safetensors_set.h"
#include "source/finding.h"
#include "stored/tree.h"

namespace shardc {

using Metadata = std::vector<std::pair<std::string, std::string>>;

struct StoredTensor {
  std::string name;
  Shape shape;
  Dtype dtype = Dtype::kF32;
  std::vector<SourcePiece> pieces;  // disjoint; together they cover the tensor
  // The same as the members of TransferTensor with these names. If `array` is
  // set, `pieces` is empty.
  std::optional<size_t> array = {};
  std::string places = {};
  TreePlace in_tree = {};
};

struct Stored {
  std::string path;  // as the caller wrote it
  std::vector<SourceFile> files;
  // The tree that has the arrays of the tensors. Null if the tensors are in
  // safetensors files, where StoredTensor::pieces lists their bytes.
  std::shared_ptr<const stored::Tree> tree;
  std::vector<std::string> notes;
  // The leaves to write, if a tree is written: leaves of `tree`, or leaves that
  // the metadata of safetensors files records. Empty if safetensors files are
  // written; `metadata` then has the leaves.
  std::vector<stored::Leaf> leaves;
  std::vector<StoredTensor> tensors;  // in the order of the checkpoint
  // The metadata of all files. If files have different values for a key, the
  // value of the first file.
  Metadata metadata;
};

// Reads a `.safetensors` file, a Hugging Face index, or a directory with
// either. All files must exist.
std::optional<Stored> ReadStored(const std::string& path, Findings& findings);

// Reads a directory with a `shards.json`. The header of every file is compared
// with the index, and the pieces of every tensor must be complete.
std::optional<Stored> ReadStoredPieces(const std::string& directory,
                                       Findings& findings);

// Checks the bytes of each piece for which the index records a checksum. Of
// several processes, each checks its share. Adds the number of checked pieces
// to `*verified`. Returns false after a finding: a file cannot be read, or a
// checksum differs. For a tree, which has no index with checksums, returns
// true.
bool VerifyStored(const Stored& stored, const ProcessShare& share,
                  int64_t* verified, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_STORED_H_
