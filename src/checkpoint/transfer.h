// Room: checkpoint. Splits, merges and reshards checkpoints: safetensors files,
// and trees of the room stored.
// Includes: source, model, floats, stored, importers, plan.
//
// A transfer copies tensors from pieces in some files to other pieces in other
// files. Split, merge and reshard differ only in how they plan their transfer.
#ifndef SHARDC_CHECKPOINT_TRANSFER_H_
#define SHARDC_CHECKPOINT_TRANSFER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/box.h"
#include "model/dtype.h"
#include "model/manifest.h"
#include "stored/tree.h"

namespace shardc {

// Returns the dtype to which a tensor of this name should be cast, if the cast
// is supported; nullopt means no cast.
using DtypeOf = std::function<std::optional<Dtype>(const std::string& name)>;

struct SourceFile {
  std::string path;
  int64_t size = 0;
  int64_t modified_ns = 0;  // size and times are as when the header was read
  // The time (ctime) at which the file system last recorded a change of the
  // file. Programs cannot set it, unlike modified_ns, but it also changes when
  // the file is renamed or copied to another machine.
  int64_t changed_ns = 0;
  int64_t header_bytes = 0;
  uint32_t header_crc = 0;
};

// A part of a tensor in a source file.
struct SourcePiece {
  uint32_t file = 0;   // index into Transfer::sources
  int64_t offset = 0;  // offset of the first byte in the file
  Box box;
  std::optional<uint32_t> checksum;  // set if an index records it
};

// The keys of a tensor in a tree. If `keys` is empty, the keys are the parts of
// the tensor's name between `/`.
struct TreePlace {
  std::vector<std::string> keys;
  std::vector<bool> in_sequence;  // as stored::Array::in_sequence
  std::string random_key;         // as stored::Array::random_key
};

struct TransferTensor {
  std::string name;
  Shape shape;
  Dtype from = Dtype::kF32;
  Dtype to = Dtype::kF32;            // differs from `from` only if CanConvert
  std::vector<SourcePiece> sources;  // disjoint; together they cover the tensor
  std::vector<Box> parts;            // distinct parts that outputs hold
  // For a tensor of a stored tree `sources` is empty, and the array is read
  // through the tree. `places` is a digest of the positions of its chunks.
  std::optional<size_t> array;  // index into Transfer::tree's arrays
  std::string places;
  TreePlace in_tree;
};

// A part in an output file.
struct OutputPiece {
  uint32_t tensor = 0;
  uint32_t part = 0;   // index into the tensor's parts
  int64_t offset = 0;  // offset of the first byte in the file
  int64_t bytes = 0;
};

struct OutputFile {
  std::string name;    // file name in the transfer's directory
  std::string header;  // length, JSON and padding: the bytes before the data
  int64_t size = 0;    // bytes of the complete file
  std::vector<OutputPiece> pieces;
};

struct Transfer {
  // The first part of the journal's name: `shards`, `merge`, or the name of the
  // file if the transfer writes one file without an index.
  std::string tag;
  std::string directory;  // directory of the outputs
  std::vector<SourceFile> sources;
  std::shared_ptr<const stored::Tree> tree;  // null: tensors have `sources`
  std::vector<TransferTensor> tensors;
  std::vector<OutputFile> outputs;
  // Prefixes of file names. The names of files in a set like this transfer's
  // begin with one of the prefixes, followed by a number. Other files with such
  // names could be mistaken for parts of the set.
  std::vector<std::string> series;
  // The index that marks the set as complete. It is written last. Before the
  // first earlier output is replaced, an earlier index is replaced by an index
  // that marks an unfinished run (kResumeIndex). Empty if there is no index.
  std::string index_name;

  std::string PathOf(const std::string& name) const {
    return directory == "." ? name : directory + "/" + name;
  }
};

// The checksum of each piece, indexed by output and piece. It is set when the
// piece is written, or when the piece of an earlier run is kept.
using Checksums = std::vector<std::vector<std::optional<uint32_t>>>;

// Returns the bytes of a part in the output's dtype.
int64_t PartBytes(const TransferTensor& tensor, const Box& box);

// Returns an error message if a source piece or a part of the tensor starts or
// ends inside a byte, as is possible with packed dtypes. The message names the
// tensor. Returns nullopt if none does.
std::optional<std::string> CheckByteBoundaries(const TransferTensor& tensor);

// The bytes that a transfer moves, computed without moving them.
struct TransferSize {
  int64_t files = 0;
  int64_t pieces = 0;
  int64_t bytes_read = 0;     // each source byte that is needed counts once
  int64_t bytes_written = 0;  // bytes of the outputs, including headers
};
// Measures the transfer of the outputs that are marked in `outputs`.
TransferSize MeasureTransfer(const Transfer& transfer,
                             const std::vector<bool>& outputs);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_TRANSFER_H_
