// A stored checkpoint. It consists of full tensors in safetensors files, of the
// pieces that an earlier split has written, or of a tree in the format of
// another system.
#ifndef SHARDC_CHECKPOINT_STORED_H_
#define SHARDC_CHECKPOINT_STORED_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/transfer.h"
#include "importers/safetensors_set.h"
#include "source/finding.h"
#include "stored/tree.h"
#include "stored/write.h"

namespace shardc {

using Metadata = std::vector<std::pair<std::string, std::string>>;

struct StoredTensor {
  std::string name;
  Shape shape;
  Dtype dtype = Dtype::kF32;
  std::vector<SourcePiece> pieces;  // disjoint; together they cover the tensor
  // If a split divided each of several parts of a dimension, the boxes of the
  // pieces are positions in SplitShape(shape, EqualAmong(dim_parts)), and
  // shares of the parts with stated sizes (SizedPartsOf).
  DimParts dim_parts = {};
  // If `array` is set, the tensor is the array with this index in Stored::tree.
  // `pieces` is then empty, and `places` is a digest of the chunks' positions.
  std::optional<size_t> array = {};
  std::string places = {};
  TreePlace in_tree = {};
};

// A value of a tree that is no tensor, or an array that cannot be read.
struct OtherValue {
  std::string name;
  std::string what;  // "pickled value", "array [2, 3] of another library"
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
  std::vector<OtherValue> others;     // only with InputOptions::listing
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

struct InputOptions {
  // Selects arrays by name; null selects all.
  std::function<bool(const std::string&)> select;
  // The format of the tree to be written; nullopt if safetensors files are
  // written. Safetensors files cannot store some data types that trees have,
  // such as int4.
  std::optional<stored::WriteForm> form;
  // Whether values that are not arrays are omitted. If false, a value that the
  // output cannot store is an error. If true, a value that the output cannot
  // store is omitted, and so are all numbers. Strings are omitted as well if
  // the input or the output is safetensors files.
  bool arrays_only = false;
  // Whether the checkpoint is listed and not copied. Values and data types that
  // no output can store are then no errors, and Stored::others has the values.
  bool listing = false;
  // The limit on the memory that a chunk may need; nullopt means half of the
  // free memory. The reader refuses larger chunks.
  std::optional<int64_t> memory_bytes;
};

// Opens a tree and finds every chunk of the selected arrays, so that a missing
// chunk is reported before anything is written. Stored::tensors lists the
// selected arrays in the order of the tree. Stored::leaves lists the selected
// values that are not arrays (strings, numbers, pickled objects). If
// safetensors files are to be written, `leaves` is empty, and their metadata
// contains a record of these values. Returns nullopt after findings: dtype (the
// array's type is unknown, or safetensors has no such dtype), inexpressible (a
// codec that shardc lacks, or a value that the output format cannot store),
// name, limit, usage (nothing is selected), a file that is missing or too
// short, and all findings of OpenTree.
std::optional<Stored> ReadStoredTree(const std::string& path,
                                     const InputOptions& options,
                                     Findings& findings);

// Opens a stored tree (orbax, zarr, PyTorch DCP), or safetensors files at any
// other path. If a tree is written from safetensors files, their values that
// are not tensors are restored. These are read from a record in the metadata of
// the files (shards_index.h).
std::optional<Stored> ReadFullInput(const std::string& path,
                                    const InputOptions& options,
                                    Findings& findings);

// Opens the pieces of an earlier split if `path` is a folder that contains a
// `shards.json`. Otherwise calls ReadFullInput.
std::optional<Stored> ReadInput(const std::string& path,
                                const InputOptions& options,
                                Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_STORED_H_
