// A stored checkpoint. It consists of full tensors in safetensors files, of the
// pieces that an earlier split has written, or of a tree in the format of
// another system.
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
  // If a split divided each of several parts of a dimension, the boxes of the
  // pieces are positions in SplitShape(shape, dim_parts).
  DimParts dim_parts = {};
  // If `array` is set, the tensor is the array with this index in Stored::tree.
  // `pieces` is then empty, and `places` is a digest of the chunks' positions.
  std::optional<size_t> array = {};
  std::string places = {};
  TreePlace in_tree = {};
};

struct Stored {
  std::string path;  // as the caller wrote it
  std::vector<SourceFile> files;
  // The tree that contains the arrays of the tensors. Null if the tensors are
  // in safetensors files; StoredTensor::pieces then lists the places of their
  // bytes.
  std::shared_ptr<const stored::Tree> tree;
  std::vector<std::string> notes;
  // The values that are not arrays and are written to an output tree. They are
  // read from `tree`, or from a record in the metadata of safetensors files.
  // Empty if safetensors files are written, because `metadata` then contains
  // these values.
  std::vector<stored::Leaf> leaves;
  std::vector<StoredTensor> tensors;  // in the order of the checkpoint
  // The merged metadata of all files. If files have different values for a key,
  // the value of the first file is used.
  Metadata metadata;
};

// Reads a `.safetensors` file, a Hugging Face index, or a directory that
// contains one of these. All files must exist. Returns nullopt after a finding.
std::optional<Stored> ReadStored(const std::string& path, Findings& findings);

// Reads a directory with a `shards.json`. Compares the header of every file
// with the index, and checks that the pieces of every tensor are complete.
// Returns nullopt after a finding.
std::optional<Stored> ReadStoredPieces(const std::string& directory,
                                       Findings& findings);

// Checks the bytes of each piece for which the index records a checksum. If
// there are several processes, each one checks its share. Adds the number of
// checked pieces to `*verified`. Returns false after a finding: a file cannot
// be read, or a checksum differs. Returns true for a tree, which has no index
// with checksums.
bool VerifyStored(const Stored& stored, const ProcessShare& share,
                  int64_t* verified, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_STORED_H_
