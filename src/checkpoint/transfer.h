// Directory: checkpoint. Splits, merges and reshards checkpoints: safetensors
// files, and trees of the directory `stored`.
// Its files include headers of these directories: source, model, floats,
// stored, importers, plan.
//
// A transfer copies tensors from pieces in some files to other pieces in other
// files. Split, merge and reshard all run a transfer, and differ only in how
// they plan it.
#ifndef SHARDC_CHECKPOINT_TRANSFER_H_
#define SHARDC_CHECKPOINT_TRANSFER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/dtype.h"
#include "model/legal_sizes.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/mesh_layout.h"
#include "source/finding.h"
#include "source/process.h"
#include "source/sink.h"
#include "stored/box.h"
#include "stored/tree.h"
#include "stored/write.h"

namespace shardc {

// Returns the position of a box in SplitShape(shape, to), if it is given as a
// position in SplitShape(shape, from). Returns nullopt if it is not a box
// there: a range of rows of each of two parts is no range of all rows. For
// example, with the shape [8]:
//
//   from [2], to []: {offset [1, 0], shape [1, 4]} -> {offset [4], shape [4]}
//   from [2], to []: {offset [0, 0], shape [2, 2]} -> nullopt
std::optional<Box> BoxInParts(const Box& box, const Shape& shape,
                              const EqualParts& from, const EqualParts& to);

// Returns the position of a box as the share of each part that it has, in
// dimensions that have equal parts in `from` and parts with stated sizes in
// `to`. Returns nullopt if the box does not have all parts.
std::optional<Box> BoxInShares(const Box& box, const Shape& shape,
                               const DimParts& from, const DimParts& to);

// The parts of dimensions whose sizes are stated, by the index of the dimension
// in the shape in which boxes are positions. A box has the same share of each
// part, stored in the order of the parts: of 8 elements in parts of 4, 2 and 2,
// the box {offset [4], shape [4]} has the second half of each, which is
// elements 2, 3, 5 and 7.
using SizedParts = std::map<size_t, std::vector<int64_t>>;

// Returns the parts with stated sizes, in the dimensions of
// SplitShape(shape, EqualAmong(parts)).
SizedParts SizedPartsOf(const DimParts& parts);
// Returns the ranges that a share of each part has: of the elements from
// `offset` of a dimension that is the sum of the sizes. Ranges that touch are
// one. Returns nullopt if a range would begin or end inside of an element.
std::optional<std::vector<ShardRange>> RangesOfShare(
    const std::vector<int64_t>& sizes, int64_t offset, int64_t size);

// The distinct parts into which a spec divides a tensor, and the devices that
// hold them. Parts are numbered in row-major order. For example, an axis `a` of
// size 2 shards the first dimension and `b` of size 3 the second. The devices
// at a=1 b=2 then hold part 1 * 3 + 2 = 5.
class Partition {
 public:
  // Returns nullopt if the spec is illegal for the shape. A spec is illegal if
  // an axis occurs twice or is not in the mesh, if it has more entries than the
  // tensor has dimensions, or if its axes do not divide a size, unless `uneven`
  // permits parts that are shorter than others or empty.
  static std::optional<Partition> Make(const Spec& spec, const Shape& shape,
                                       const Mesh& mesh, bool uneven = false);

  int64_t parts() const { return parts_; }
  // Returns the number of the part that a device with these coordinates holds.
  int64_t PartOf(const std::vector<int64_t>& coordinates) const;
  Box BoxOf(int64_t part) const;

 private:
  struct Step {
    Mesh::Digit digit;   // the axis or sub-axis
    int64_t weight = 0;  // weight of the digit in a part's number
  };
  std::vector<Step> steps_;
  Shape shape_;  // shape of the tensor
  // The sizes of the axes that divide each dimension, first to last.
  std::vector<std::vector<int64_t>> divisions_;
  int64_t parts_ = 1;
};

// The dtype to which a tensor should be cast. `by_name` is true if the request
// is for the name of the tensor. Otherwise it is for all floating-point
// tensors, and other tensors keep their dtype.
struct WantedDtype {
  Dtype dtype = Dtype::kF32;
  bool by_name = false;
};

// A function that returns the dtype to which a tensor of this name should be
// cast. It returns nullopt if the tensor is not cast.
using DtypeOf =
    std::function<std::optional<WantedDtype>(const std::string& name)>;

struct SourceFile {
  std::string path;
  int64_t size = 0;
  // The time of the last modification (mtime). The size and both times were
  // read at the same time as the header.
  int64_t modified_ns = 0;
  // The time (ctime) at which the file system last recorded a change of the
  // file. Unlike `modified_ns`, programs cannot set this time. However, the
  // time also changes when the file is renamed or copied to another machine.
  int64_t changed_ns = 0;
  int64_t header_bytes = 0;
  uint32_t header_crc = 0;
};

// A part of a tensor in a source file.
struct SourcePiece {
  uint32_t file = 0;   // index into Transfer::sources
  int64_t offset = 0;  // offset of the first byte in the file
  Box box;
  std::optional<uint32_t> checksum;  // set if a `shards.json` records it
};

// The keys that lead to a tensor in a tree. If `keys` is empty, the keys are
// obtained by splitting the tensor's name at `/`.
struct TreePlace {
  std::vector<std::string> keys;
  std::vector<bool> in_sequence;  // for each key, whether it is a list index
  // The PRNG, such as `threefry2x32`, if the tensor holds JAX random keys.
  // Empty for other tensors.
  std::string random_key;
};

struct TransferTensor {
  std::string name;
  // The shape in which boxes are positions: that of the tensor, with two
  // dimensions for each that has several parts (SplitShape).
  Shape shape;
  EqualParts dim_parts = {};
  // The parts with stated sizes of which a source piece, or a part, has a
  // share. RangesOfShare() of each box has a value.
  SizedParts sized_sources = {}, sized_parts = {};
  Dtype from = Dtype::kF32;
  // The dtype of the outputs. If it differs from `from`, the tensor is cast,
  // and CanConvert(from, to) is true.
  Dtype to = Dtype::kF32;
  std::vector<SourcePiece> sources;  // disjoint; together they cover the tensor
  std::vector<Box> parts;            // distinct parts that outputs contain
  // If the tensor belongs to a stored tree, `sources` is empty, and the array
  // is read through the tree. `places` is then a digest of the positions of the
  // array's chunks.
  std::optional<size_t> array;  // index into Transfer::tree's arrays
  std::string places;
  TreePlace in_tree;
};

// A part in an output file.
struct OutputPiece {
  uint32_t tensor = 0;
  uint32_t part = 0;   // index into TransferTensor::parts
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
  // The first part of the journal's name. It is `shards` or `merge`, or the
  // name of the file if the transfer writes one file without an index.
  std::string tag;
  std::string directory;  // directory of the outputs
  std::vector<SourceFile> sources;
  std::shared_ptr<const stored::Tree> tree;  // null for safetensors sources
  std::vector<TransferTensor> tensors;
  std::vector<OutputFile> outputs;
  // The prefixes of the file names in a set, such as `model-`. A name in the
  // set consists of a prefix, a number and an ending. Another file with such a
  // name could be mistaken for a file of the set.
  std::vector<std::string> series;
  // The name of the index that marks the set as complete; empty if there is no
  // index. The index is written last. Before the first earlier output is
  // replaced, an earlier index is replaced by kResumeIndex, which marks an
  // unfinished run.
  std::string index_name;

  std::string PathOf(const std::string& name) const {
    return directory == "." ? name : directory + "/" + name;
  }
};

// The checksum of each piece, indexed by output and piece. It is set when the
// piece is written, or when a piece of an earlier run is kept. Until then it is
// nullopt.
using Checksums = std::vector<std::vector<std::optional<uint32_t>>>;

// Returns the number of bytes of a part in the output's dtype.
int64_t PartBytes(const TransferTensor& tensor, const Box& box);

// Returns an error message that names the tensor if a source piece or a part
// starts or ends inside a byte, which is possible with packed dtypes. Returns
// nullopt if all of them start and end at byte boundaries.
std::optional<std::string> CheckByteBoundaries(const TransferTensor& tensor);

// The bytes that a transfer moves, computed without moving them.
struct TransferSize {
  int64_t files = 0;
  int64_t pieces = 0;
  int64_t bytes_read = 0;     // each source byte that is needed is counted once
  int64_t bytes_written = 0;  // bytes of the outputs, including headers
};
// Computes the size of a transfer that writes only the outputs whose entry in
// `outputs` is true.
TransferSize MeasureTransfer(const Transfer& transfer,
                             const std::vector<bool>& outputs);

struct ProcessShare {
  int64_t index = 0;
  int64_t count = 1;
  // The environment variable from which `index` was read; empty if there was
  // none.
  std::string from;
};

// Returns for each output whether the process `share` owns it. A process owns
// consecutive outputs, or no output. The processes own about equal numbers of
// bytes if the outputs are small. Every output has exactly one owner.
std::vector<bool> OwnOutputs(std::span<const int64_t> bytes,
                             const ProcessShare& share);

// Returns the share of this process from the environment variables of SLURM (of
// a job step), Open MPI or torchrun. They are tried in this order. Returns
// process 0 of 1 if none of them is set. Returns nullopt after a finding
// (`usage`) if their values are invalid.
std::optional<ProcessShare> DetectProcess(const Variable& variable,
                                          Findings& findings);

// Records the pieces that a run has written, so that a run after an
// interruption can continue. The journal is a hidden file in the output
// directory with one line for each complete piece. The journal is not trusted:
// each piece is read and compared with its recorded checksum before it is kept.

// Returns the key of a transfer: a digest of everything that determines the
// bytes of the outputs. These are the sources (sizes, times, headers), tensors,
// parts and outputs. A journal with another key is discarded.
std::string TransferKey(const Transfer& transfer);

// Returns a digest of the times at which the file system recorded changes of
// the sources. If a source has been written since the journal was created, the
// journal's pieces are not kept, even if the size and the modification time are
// unchanged. The journals of other processes are not checked against this
// digest, because these processes may read their own copies of the sources.
std::string SourceState(const Transfer& transfer);

// Returns the start of a journal's first line, before the SourceState.
std::string JournalStart(const std::string& key);

class Journal : public stored::JournalFile {
 public:
  // Opens and locks the journal. If a journal with the same key and the same
  // sources exists, it is continued; otherwise a new one is created. Returns
  // nullopt after the finding `write`: the journal cannot be created, or
  // another run has locked it.
  static std::optional<Journal> Open(const std::string& path,
                                     const std::string& key,
                                     const Transfer& transfer,
                                     Findings& findings);
  // Reads a journal without opening it for writing. Does not compare the
  // journal's digest of the sources. Returns nullopt if the file is absent,
  // cannot be opened or has another key.
  static std::optional<Journal> Read(const std::string& path,
                                     const std::string& key,
                                     const Transfer& transfer);

  // Returns the checksums that the journal contained when it was opened.
  const Checksums& recorded() const { return recorded_; }
  bool resumed() const { return resumed_; }  // whether recorded() has pieces

  // Records a complete piece. Lines are buffered and written in groups. Returns
  // false, with errno set, if a group cannot be written.
  bool Add(size_t output, size_t piece, uint32_t crc);

 private:
  Journal() = default;
  // Sets `recorded_` to the pieces that the journal lists.
  void Parse(const Transfer& transfer);

  Checksums recorded_;
  bool resumed_ = false;
};

// Runs a transfer: opens or continues the journal, copies the outputs of this
// process, checks and renames them, and writes the index.

struct RunOptions {
  ProcessShare share;
  // If true, the run copies nothing. It checks the files of all processes and
  // writes the index.
  bool finalize = false;
  bool verify = false;  // read everything back after writing
  bool reuse = false;   // overwrite the files of an earlier set
  bool sync = true;     // call fsync before renaming
  int threads = 1;
  // The bytes of memory for buffers; nullopt selects the defaults of
  // CopyOptions.
  std::optional<int64_t> memory_bytes;
  // A function that is called with the bytes written so far and the bytes to
  // write in total. Calls are never concurrent.
  std::function<void(int64_t done, int64_t total)> progress;
};

struct RunReport {
  TransferSize size;        // size of the outputs of this process
  int64_t pieces_kept = 0;  // pieces of an earlier run that were correct
  bool indexed = false;     // whether all outputs and their index are complete
};

// A function that writes the index, with all checksums.
using WriteIndex = std::function<void(const Checksums& checksums, Sink& out)>;

// Adds a finding (usage) and returns true if a file that will be written is
// also an input. Both the final and the hidden names of outputs are checked.
// Files are compared by device and inode, so an input is recognised even if its
// path is written in another way or leads through a link.
bool RefuseInputs(const Transfer& transfer, Findings& findings);

// Calls RefuseInputs and runs the transfer. After a failure, earlier outputs
// are unchanged, unless `reuse` is set or some outputs have already been
// replaced. In these two cases, their index marks them as unfinished. If there
// were no earlier outputs, the new files are removed. If only the index could
// not be written, the new files and the journal are kept. The journal then
// marks the set as unfinished. Returns false after one finding with the reason:
// usage, write, unreadable, missing (with `finalize`), or an error in a chunk
// of a stored tree.
bool RunTransfer(const Transfer& transfer, const WriteIndex& write_index,
                 const RunOptions& options, RunReport* report,
                 Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_TRANSFER_H_
