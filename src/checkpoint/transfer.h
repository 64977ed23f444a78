// Room: checkpoint. safetensors in and out: split, merge, reshard. Knows
// source, model, floats, importers, legalize and plan.
//
// A transfer: tensors that lie in pieces in some files go to other pieces in
// other files. Split, merge and reshard only differ in who makes one.
#ifndef SHARDC_CHECKPOINT_TRANSFER_H_
#define SHARDC_CHECKPOINT_TRANSFER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/box.h"
#include "model/dtype.h"
#include "model/manifest.h"

namespace shardc {

// The type that a tensor of this name is cast to, where it can be.
using DtypeOf = std::function<std::optional<Dtype>(const std::string& name)>;

struct SourceFile {
  std::string path;
  int64_t size = 0;
  int64_t modified_ns = 0;  // all as they were when the header was read
  // When the system saw it change: unlike the other no program can set it, but
  // renaming the file and copies on other machines change it too.
  int64_t changed_ns = 0;
  int64_t header_bytes = 0;
  uint32_t header_crc = 0;
};

// A part of a tensor in a source file.
struct SourcePiece {
  uint32_t file = 0;   // index into Transfer::sources
  int64_t offset = 0;  // of its first byte in the file
  Box box;
  std::optional<uint32_t> checksum;  // where an index records one
};

struct TransferTensor {
  std::string name;
  Shape shape;
  Dtype from = Dtype::kF32;
  Dtype to = Dtype::kF32;            // differs only where CanConvert
  std::vector<SourcePiece> sources;  // apart, together the whole tensor
  std::vector<Box> parts;            // distinct; what outputs hold
};

// A part in an output file.
struct OutputPiece {
  uint32_t tensor = 0;
  uint32_t part = 0;   // index into the tensor's parts
  int64_t offset = 0;  // of its first byte in the file
  int64_t bytes = 0;
};

struct OutputFile {
  std::string name;    // in the transfer's directory
  std::string header;  // length, JSON and padding: the bytes before the data
  int64_t size = 0;    // of the whole file
  std::vector<OutputPiece> pieces;
};

struct Transfer {
  // Names its journals; two transfers of one directory differ in it.
  std::string tag;
  std::string directory;  // of the outputs
  std::vector<SourceFile> sources;
  std::vector<TransferTensor> tensors;
  std::vector<OutputFile> outputs;
  // What names of such sets begin with, before a number: files of these names
  // that are no outputs would pass for part of the set.
  std::vector<std::string> series;
  // The index that says the set is whole: gone before the first output is
  // replaced, written last. Empty: there is none.
  std::string index_name;

  std::string PathOf(const std::string& name) const {
    return directory == "." ? name : directory + "/" + name;
  }
};

// By output and piece; known once the piece is written.
using Checksums = std::vector<std::vector<std::optional<uint32_t>>>;

// Bytes of a part in its output's data type.
int64_t PartBytes(const TransferTensor& tensor, const Box& box);

// Whether every cut falls between bytes; packed types may be cut inside one.
// Otherwise the number of the first part that does not, as a message.
std::optional<std::string> CheckByteCuts(const TransferTensor& tensor);

// What a transfer moves, without moving it.
struct TransferSize {
  int64_t files = 0;
  int64_t pieces = 0;
  int64_t bytes_read = 0;     // each needed source byte once
  int64_t bytes_written = 0;  // headers included
};
// For the outputs that are marked.
TransferSize MeasureTransfer(const Transfer& transfer,
                             const std::vector<bool>& outputs);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_TRANSFER_H_
