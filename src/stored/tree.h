// Directory: stored. Reads and writes checkpoints of other systems as trees of
// arrays, one file per format.
// Its files include headers of these directories: source, model, floats.
//
// OpenTree recognises a folder's format by its contents (table.h) and returns
// the arrays that the folder contains. ReadBox reads a part of an array.
// Opening a tree reads only metadata, and small chunks that OCDBT nodes
// contain. ReadBox reads all other chunks.
#ifndef SHARDC_STORED_TREE_H_
#define SHARDC_STORED_TREE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "source/finding.h"
#include "stored/box.h"

namespace shardc::stored {

// The sharding of an array at the time when the array was saved.
struct Sharding {
  Mesh mesh;
  Spec spec;
};

struct Array {
  // The array's name, which is its parameter's name in manifests. It consists
  // of the keys of `path` joined by `/`, or the format itself states it.
  std::string name;
  std::vector<std::string> path;  // keys from the root of the tree
  // Whether each key of `path` is the index of an element of a list or a tuple.
  // Empty if the format does not state this.
  std::vector<bool> in_sequence;
  std::string key;  // name in the storage, such as `a.b`; need not be unique
  Shape shape;
  std::optional<Dtype> dtype;  // nullopt: shardc has no such data type
  // The number of bytes of one element, in the storage and in the result of
  // ReadBox. For a packed type (int4), a format may use one byte for each
  // element.
  int64_t element_bytes = 0;
  // The array is divided into chunks. If `pieces` is empty, the chunks are a
  // regular grid of boxes of the shape `chunk`, whose sizes are at least 1. The
  // last chunks are then padded beyond the array's end. If `pieces` is not
  // empty, it lists the chunks' boxes, which are disjoint and together cover
  // the array.
  Shape chunk;
  std::vector<Box> pieces;
  std::optional<Sharding> sharding;
  // The implementation of JAX's random keys, such as `threefry2x32`, if the
  // array holds such keys; empty for other arrays. The elements of such an
  // array are the integers of which the keys consist.
  std::string random_key;
  // The message of the error that is reported if the bytes are read, for
  // example because shardc lacks a codec. Empty if the bytes can be read. The
  // shape is known in both cases.
  std::string unreadable;

  // Returns the number of chunks, which is 0 if the array has no elements.
  int64_t Chunks() const;
  // Returns the box of a chunk, without its padding. The chunks of a grid are
  // numbered in the grid's row-major order.
  Box BoxOf(int64_t chunk_index) const;
};

// The place of a chunk's bytes.
struct ChunkPlace {
  // The path of the file. Empty if the chunk is absent or a node of OCDBT
  // contains it.
  std::string file;
  int64_t offset = 0;
  int64_t bytes = 0;
  // Whether the bytes are the chunk's elements in row-major order, with padding
  // but without compression or another encoding. False for a chunk in a node of
  // OCDBT.
  bool raw = false;
};

// A value of a tree that is not an array.
struct Leaf {
  enum class Kind : uint8_t { kString, kEmpty, kNumber, kOpaque };
  std::string name;
  Kind kind = Kind::kOpaque;
  // For kString: the string. For kNumber: its bytes as one element of `dtype`.
  // For the other kinds: a description of the leaf.
  std::string text;
  std::vector<std::string> path = {};  // keys from the root; empty: not known
  // Whether each key of `path` is the index of an element of a list or a tuple.
  std::vector<bool> in_sequence = {};
  // For kOpaque: the place of the value, which is an archive of `torch.save`.
  std::optional<ChunkPlace> place = {};
  Dtype dtype = Dtype::kI64;  // type of a kNumber: I64, F64 or BOOL
};

// The interface that a format implements for an open tree. Several threads may
// call both functions at once. Both return nullopt after a finding.
class ChunkReader {
 public:
  virtual ~ChunkReader() = default;
  // Returns the elements of a chunk in row-major order. For a chunk of a grid,
  // they are all elements of the shape `Array::chunk`, including padding. For a
  // chunk of `Array::pieces`, they are all elements of its box.
  virtual std::optional<std::string> Read(size_t array, int64_t chunk,
                                          Findings& findings) const = 0;
  virtual std::optional<ChunkPlace> Find(size_t array, int64_t chunk,
                                         Findings& findings) const = 0;
};

struct Tree {
  std::string path;  // the folder, as the caller wrote it
  std::string form;  // for messages, such as "orbax (OCDBT)"
  std::vector<Array> arrays;
  std::vector<Leaf> leaves;
  std::vector<std::string> notes;  // messages, e.g. which step was chosen
  std::shared_ptr<const ChunkReader> reader;
};

// A folder with the names in it, which are read once for all formats.
struct Folder {
  std::string path;
  std::vector<std::string> names;  // sorted

  bool Has(std::string_view name) const;
  std::string PathOf(std::string_view name) const;
};
// Reads the names in a folder. Returns nullopt if the folder cannot be read.
std::optional<Folder> ReadFolder(const std::string& path);

// Joins the keys, with `separator` between them.
std::string JoinKeys(std::span<const std::string> keys, char separator);
// Returns the keys joined by `.`, which is the name of an array in the storage
// of orbax and of DCP.
std::string StorageName(std::span<const std::string> path);

// Returns whether the path is a folder in one of the formats of table.h.
bool IsTree(const std::string& path);

// Opens a folder in any format of table.h. Returns nullopt after a finding, for
// example if the name of an array is not allowed as the name of a parameter.
std::optional<Tree> OpenTree(const std::string& path, Findings& findings);

// Returns the region of the array whose elements ChunkReader::Read returns for
// a chunk. The region includes the chunk's padding.
Region StoredRegionOf(const Array& array, int64_t chunk);

// Copies those elements of a chunk that are in the region `held`, which must
// overlap the chunk. `bytes` is the result of ChunkReader::Read for the chunk.
// `out` is a buffer for the elements of `held` in row-major order. Returns the
// number of elements that were copied.
int64_t CopyOfChunk(const Array& array, int64_t chunk, const char* bytes,
                    const Region& held, char* out);

// Calls `visit` with the number of each chunk that overlaps the box. The box
// must be inside the array and have elements. If `visit` returns false, stops
// and returns false.
bool ForEachChunk(const Array& array, const Box& box,
                  const std::function<bool(int64_t chunk)>& visit);

// Reads the elements of `box`, which must be inside the array, to `out` in
// row-major order. `out` must have space for box.Elements() * element_bytes
// bytes. Every chunk that overlaps the box is read once. Returns false after a
// finding.
bool ReadBox(const Tree& tree, size_t array, const Box& box, char* out,
             Findings& findings);

struct Format {
  std::string_view name;  // for messages, such as "PyTorch DCP"
  // Returns whether the folder has this format. The format is recognised by the
  // names of files and subfolders, and by the first bytes of some files. An
  // incomplete or damaged folder may be recognised too.
  bool (*detect)(const Folder& folder);
  // Opens a folder that `detect` recognised. Returns nullopt after a finding.
  std::optional<Tree> (*open)(const Folder& folder, Findings& findings);
};

// Returns the first format that recognises the folder, or nullptr if there is
// none.
const Format* FormatOf(const Folder& folder);

// Returns whether `name` is the name of a folder in which orbax or shardc has
// not finished a checkpoint.
bool IsUnfinishedName(std::string_view name);

// Opens a folder of this format. Refuses a folder with the name of an
// unfinished checkpoint. Such a folder may lack the file that identifies its
// format, and would then be opened in another format.
std::optional<Tree> OpenAs(const Format& format, const Folder& folder,
                           Findings& findings);

bool HasEnding(const Folder& folder, std::string_view ending);

// Returns all formats, in the order in which they are tried.
std::span<const Format* const> Formats();

}  // namespace shardc::stored

#endif  // SHARDC_STORED_TREE_H_
