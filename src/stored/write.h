// Writes trees of arrays as checkpoints that orbax and
// torch.distributed.checkpoint (DCP) restore, on any number of devices.
//
// The writers read elements from a BoxSource, in batches of chunks that fit in
// memory. A checkpoint gets its final name only when it is complete. Until then
// its files are in a folder next to that name, and the last step renames this
// folder. OpenTree and orbax recognise an unfinished folder by its name.
// PyTorch refuses an unfinished folder because `.metadata` is written last. A
// run that was killed can be continued, and several processes may each write a
// share of the chunks.
#ifndef SHARDC_STORED_WRITE_H_
#define SHARDC_STORED_WRITE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"
#include "source/finding.h"
#include "source/input_file.h"
#include "stored/box.h"
#include "stored/tree.h"

namespace shardc::stored {

// Returns the number as a text of at least five digits, such as "00012".
std::string FiveDigits(int64_t number);

// Owns the descriptor of an open file. The descriptor is -1 if no file is open.
class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  // Opens a file, which is created for all users if `flags` have O_CREAT.
  // Closes the file that was open before. Returns false with errno set.
  bool Open(const std::string& path, int flags);
  int get() const { return fd_; }
  // Returns the descriptor, which the caller has to close.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Locks a file, and waits up to `longest` while another process holds the lock.
// Returns false with errno set. errno is EWOULDBLOCK if the other process still
// holds the lock.
bool LockFile(int fd, std::chrono::milliseconds longest);
// Closes a file, which is synced before if `sync` is true. Returns false with
// errno set.
bool CloseFile(int fd, bool sync);
// Returns the CRC-32C of `bytes` bytes of a file, or nullopt if they cannot be
// read.
std::optional<uint32_t> ChecksumAt(const InputFile& file, int64_t offset,
                                   int64_t bytes);

// Creates a folder of output files that gets its final name only when it is
// complete.

// States whether several processes write the folder at the same time, and which
// files remain after a failure.
enum class FolderUse : uint8_t {
  kAlone,     // one process; a failure removes the folder with all files
  kShared,    // one of several processes; a failure keeps the files
  kComplete,  // one process finishes what several wrote; a failure keeps files
};

class NewFolder {
 public:
  // Creates the folder PATH + `ending`, which Publish renames to PATH. If a
  // killed run has left a folder of that name, the folder is kept with its
  // files. Returns nullopt after the finding `write`, for example if PATH
  // exists and is not an empty folder, or if another run writes the same
  // folder.
  static std::optional<NewFolder> Create(const std::string& path,
                                         std::string_view ending,
                                         Findings& findings,
                                         FolderUse use = FolderUse::kAlone);
  NewFolder(NewFolder&& other) noexcept;
  NewFolder& operator=(NewFolder&& other) = delete;
  // Removes the folder unless Publish has succeeded or Leave was called. With
  // FolderUse::kAlone, all files in it are removed too. Otherwise the folder is
  // removed only if it contains no files.
  ~NewFolder();

  // Returns the path under which a file of the folder can be opened until
  // Publish is called.
  std::string PathOf(std::string_view name) const;
  // Creates a folder inside this folder if it does not exist. Returns false
  // after the finding `write`.
  bool MakeFolder(std::string_view name, Findings& findings) const;
  // Removes all files except those whose names are listed, such as "d/values".
  // Also removes inner folders that contain none of the listed files. Returns
  // false after the finding `write`.
  bool RemoveOthers(std::span<const std::string> names,
                    Findings& findings) const;
  // Keeps the unfinished folder for a later run.
  void Leave() { temporary_.clear(); }
  // Renames the folder to its final name. All files in it must have been
  // synced. Returns false after the finding `write`.
  bool Publish(Findings& findings);

 private:
  NewFolder() = default;
  // Locks the open folder. Returns false after a finding, for example if
  // another run holds the lock.
  bool Lock(Findings& findings);

  std::string path_;
  FolderUse use_ = FolderUse::kAlone;
  std::string temporary_;  // temporary path; empty after Publish or Leave
  Descriptor fd_;          // the open and locked folder
};

// A file in a NewFolder, which is written from start to end.
class NewFile {
 public:
  // Create fails if the file exists. Continue keeps only the first `bytes`
  // bytes of an existing file, and fails if the file is shorter. If `bytes` is
  // 0, Continue creates a missing file. Both functions return nullopt after the
  // finding `write`.
  static std::optional<NewFile> Create(std::string path, Findings& findings);
  static std::optional<NewFile> Continue(std::string path, int64_t bytes,
                                         Findings& findings);
  int64_t size() const { return size_; }
  // Append and Close return false after the finding `write`. Close also syncs
  // the file and its folder.
  bool Append(std::string_view bytes, Findings& findings);
  bool Close(Findings& findings);

 private:
  NewFile() = default;
  static std::optional<NewFile> Open(std::string path, int flags,
                                     Findings& findings);
  std::string path_;
  Descriptor fd_;
  int64_t size_ = 0;
};

// Journals record what the processes of a run have written to an incomplete
// checkpoint, so that a later run continues the work of a killed run. Each
// process has a journal, a hidden file in the checkpoint's folder. The process
// locks its journal until it ends.

// The parts of a journal's name. For example, ".merge-00002-of-00004.journal"
// is the journal of process 2 of 4 in the run "merge".
struct JournalParts {
  std::string name;
  std::string tag;
  int64_t index = 0;
  int64_t count = 0;
};
std::string JournalName(std::string_view tag, int64_t index, int64_t count);
// Returns nullopt if JournalName does not return `name` for any process.
std::optional<JournalParts> ParseJournalName(const std::string& name);
// Returns the journals in a folder, sorted by name. Returns only those of the
// run `tag`, unless it is empty. Returns none if the folder cannot be read.
std::vector<JournalParts> JournalsIn(const std::string& folder,
                                     std::string_view tag);
// Removes the journals of all `count` processes of the run `tag`.
void RemoveJournals(const std::string& folder, std::string_view tag,
                    int64_t count);
// Returns the number of processes that the names of the journals state. Returns
// 1 if there is no journal, and at most 1,000,000.
int64_t CountProcesses(const std::string& folder, std::string_view tag);
// Adds the finding `missing`, which lists the processes that have not written
// all their parts.
void AddUnfinished(const std::string& folder,
                   const std::vector<int64_t>& unfinished, int64_t processes,
                   std::string help, Findings& findings);

// The file of a journal. After a first line, which states to which run the
// journal belongs, it has one line for each piece that the process has written.
class JournalFile {
 public:
  // Returns whether a running process has locked the journal at `path`, and its
  // first line does not begin with `start`.
  static bool IsOfAnotherRun(const std::string& path, std::string_view start);

  // Returns whether the process has written all its pieces.
  bool done() const { return done_; }
  // Flush writes the lines that Append has buffered. MarkDone also writes a
  // last line, which states that all pieces are written. Both return false,
  // with errno set, if the file cannot be written.
  bool Flush();
  bool MarkDone();
  void Remove() const;  // deletes the file

 protected:
  // Two numbers that identify the piece, its CRC-32C, and a few bytes if the
  // journal contains the piece itself.
  struct Line {
    int64_t first = 0;
    int64_t second = 0;
    uint32_t crc = 0;
    std::optional<std::string> held = {};
  };
  // Opens and locks the journal of this process. Continues an existing journal
  // whose first line consists of `start` and `state`. Otherwise begins an empty
  // journal with this first line. Returns false with errno set; errno is
  // EWOULDBLOCK if another run holds the lock.
  bool OpenToWrite(const std::string& path, const std::string& start,
                   const std::string& state);
  // Opens the journal of a process for reading. Returns false if the file is
  // absent or its first line does not begin with `start`.
  bool OpenToRead(const std::string& path, std::string_view start);
  // Returns the next line of the file that was opened. Returns nullopt after
  // the last complete line, after MarkDone's line, and at a malformed line.
  std::optional<Line> Next();
  // Clear removes all lines after the first line. Append adds a line to a
  // buffer, and writes the buffer to the file when it is full. Both return
  // false, with errno set, if the file cannot be written.
  bool Clear();
  bool Append(const Line& line);

 private:
  std::string path_;
  std::string first_line_;
  Descriptor fd_;
  std::string text_;  // what the file contained when it was opened
  size_t next_ = 0;   // position of the next line in `text_`
  std::string buffered_;
  bool done_ = false;
};

// A journal of the chunks that one process has written, with one line for each
// chunk. A later run continues the journal if it has the same process number
// and the same key. It keeps the chunks before the first chunk whose bytes do
// not have the recorded checksum.

// A chunk that a process has written. Its bytes are in the process's data file,
// unless they are in `held`.
struct WrittenChunk {
  size_t process = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
  uint32_t crc = 0;  // CRC-32C of the chunk's stored bytes
  std::optional<std::string> held = {};
};

// The values that determine the bytes of the chunks. A run continues a journal
// only if the journal has the same two values as the run, and if `chunks` is
// not empty.
struct JournalKey {
  // A digest of the options and sources, which is the same in all processes. If
  // it is empty, no run continues the journal.
  std::string chunks;
  // A digest that may differ between processes, for example of the times at
  // which this process's copies of the sources were changed.
  std::string state;

  // Returns the start of the journal's first line, without `state`.
  std::string Start() const;
};

class ChunkJournal : public JournalFile {
 public:
  // Opens and locks the journal. Continues an existing journal that has the
  // same key. Otherwise begins an empty journal. Returns nullopt after the
  // finding `write`, for example if another run holds the lock.
  static std::optional<ChunkJournal> Open(const std::string& path,
                                          const JournalKey& key,
                                          Findings& findings);
  // Reads the journal of a process. Returns nullopt if the file is absent or
  // its JournalKey::chunks differs from `key.chunks`. JournalKey::state is not
  // compared.
  static std::optional<ChunkJournal> Read(const std::string& path,
                                          const JournalKey& key);

  // Returns the chunks of the process in the order in which they were written.
  const std::vector<WrittenChunk>& chunks() const { return chunks_; }

  // Keep removes all chunks after the first `count` chunks. It may be called
  // only before the first Add. Add writes lines in groups. Both return false,
  // with errno set, if the journal cannot be written.
  bool Keep(size_t count);
  bool Add(WrittenChunk chunk);

 private:
  ChunkJournal() = default;
  void Parse();

  int64_t unflushed_bytes_ = 0;  // bytes of the chunks since Add called Flush
  std::vector<WrittenChunk> chunks_;
};

// Returns the number of intact chunks, which are those before the first chunk
// whose bytes do not have the recorded checksum. The bytes are in the data file
// at `path` or in WrittenChunk::held. Returns 0 if the data file cannot be
// opened.
size_t CountIntact(const std::string& path,
                   std::span<const WrittenChunk> chunks);

struct ArrayToWrite {
  std::vector<std::string> path;  // keys from the root of the tree
  Shape shape;
  Dtype dtype = Dtype::kF32;
  // The shape of the largest box that is stored as one chunk. It has the
  // array's rank and sizes of at least 1, and may be larger than the array. If
  // `chunk` is empty, the full array is one chunk. A chunk is divided if it has
  // more than 1 GiB or if WriteOptions::memory_bytes is too small for it.
  Shape chunk;
  // The sharding of the array, which orbax records; nullopt if there is none.
  std::optional<Sharding> sharding;
  // Whether each key of the path is the index of an element of a list or a
  // tuple. If empty, all keys are keys of dictionaries. orbax compares the
  // kinds of keys with the tree into which it restores.
  std::vector<bool> in_sequence = {};
  // The implementation of JAX's random keys, such as `threefry2x32`, which
  // orbax records. Empty if the array holds no random keys.
  std::string random_key = {};
};

// Provides the elements of the arrays that are written. Several threads call
// Read at once, for disjoint boxes. Boxes that another process writes, or that
// an earlier run has written, are not read.
class BoxSource {
 public:
  virtual ~BoxSource() = default;
  // Writes the elements of `box` of the array with index `array` to `out` in
  // row-major order: box.Elements() * StoredBytes(dtype) bytes. Returns false
  // after a finding.
  virtual bool Read(size_t array, const Box& box, char* out,
                    Findings& findings) const = 0;
  // WriteOrbax and WriteDcp call Finish after the last Read. Returns false
  // after a finding if the elements must not be used, for example because a
  // file was changed between the calls of Read.
  virtual bool Finish(Findings&) const { return true; }
};

// The progress of one run of a writer.
struct WriteReport {
  int64_t chunks = 0;       // the number of chunks of this process
  int64_t chunks_kept = 0;  // the number of chunks kept from an earlier run
  bool complete = false;    // whether the checkpoint has its final name
};

struct WriteOptions {
  // The path of the checkpoint, which must be absent or an empty folder.
  std::string folder;
  // The limit in bytes on the writer's own buffers. It does not include the
  // memory of the BoxSource and of the list of chunks.
  int64_t memory_bytes = int64_t{256} << 20;
  int threads = 1;
  bool compress = true;  // whether WriteOrbax compresses chunks with zstd
  // The index of this process, and the number of processes. Each process writes
  // a part of the chunks. If there are several processes, one call with
  // `finalize` completes the checkpoint after all of them have ended. If
  // `processes` is 1 in this call, the number of processes is read from the
  // names of the journals.
  int64_t process = 0;
  int64_t processes = 1;
  bool finalize = false;
  // Whether the writer reads all chunks back and compares their checksums.
  bool verify = false;
  // Two texts that identify the files from which the elements are read.
  // `sources` is the same in all processes. `state` may differ between
  // processes; it is for example a digest of the times at which the files were
  // changed. A run that was killed is continued only if both texts are
  // unchanged and `sources` is not empty.
  std::string sources;
  std::string state;
  WriteReport* report = nullptr;  // null: no report
};

// Returns the number of bytes of one element in checkpoints. An element of a
// packed type takes one byte.
int64_t StoredBytes(Dtype dtype);

enum class WriteForm : uint8_t { kOrbax, kDcp };
// Returns whether this format stores the leaf, a value that is not an array.
bool IsWritten(const Leaf& leaf, WriteForm form);
// Returns the ending of the folder's name while the checkpoint is incomplete.
std::string_view UnfinishedEnding(WriteForm form);

// WriteOrbax and WriteDcp write the arrays and some of the leaves, which are
// values that are not arrays. Both write strings and empty nodes. WriteOrbax
// also writes numbers. WriteDcp also copies pickled values (kOpaque) that have
// a place. All other leaves are omitted, and the caller has to report them
// (IsWritten). Both functions return false after a finding, and then do not
// create the checkpoint under its name. Findings: duplicate-key (two paths have
// one name in the format, or an array's or a leaf's path is the start of
// another), name (a key that the format cannot store), overflow, dtype (the
// format has no such type), write, missing (with `finalize`: a process has not
// ended), and the findings of the source.
//
// WriteOrbax writes zarr arrays in an OCDBT database, as orbax does by default.
bool WriteOrbax(std::span<const ArrayToWrite> arrays,
                std::span<const Leaf> leaves, const BoxSource& source,
                const WriteOptions& options, Findings& findings);
// WriteDcp writes one data file for each process, as torch does. The name of an
// array is its path joined by dots.
bool WriteDcp(std::span<const ArrayToWrite> arrays,
              std::span<const Leaf> leaves, const BoxSource& source,
              const WriteOptions& options, Findings& findings);

// Returns the keys of a leaf's path. If the leaf has no path, returns the parts
// of its name between `/`.
std::vector<std::string> PathOf(const Leaf& leaf);

// Finds the complete lists of a tree. A list is complete if all its elements
// are written. Libraries fill a list in the order of its elements. A missing
// element would shift the elements after it or make the list unreadable. An
// incomplete list is therefore written as a dictionary.
class CompleteLists {
 public:
  // Adds the path of an array or a leaf. `in_sequence` states for each key
  // whether it is an index in a list. Missing entries are false.
  void Add(const std::vector<std::string>& path,
           const std::vector<bool>& in_sequence);
  // Returns whether `path[key]` is an index in a complete list. The path must
  // have been passed to Add.
  bool IsIndex(const std::vector<std::string>& path,
               const std::vector<bool>& in_sequence, size_t key) const;

 private:
  // The indices of the elements of each list, keyed by the path of the list.
  std::map<std::vector<std::string>, std::set<int64_t>> numbers_;
};

// Returns the number that the key represents, or nullopt if the key is not a
// number.
std::optional<int64_t> NumberOf(const std::string& key);

// Divides the arrays into the grids of chunks in which they are stored. The
// chunks are small enough that a few of them fit in options.memory_bytes. On
// failure, returns nullopt and adds a finding with the code duplicate-key, name
// or overflow.
std::optional<std::vector<Array>> DivideArrays(
    std::span<const ArrayToWrite> arrays, std::span<const Leaf> leaves,
    WriteForm form, const WriteOptions& options, Findings& findings);

// A function that returns the bytes that are stored for a chunk. Several
// threads call it at once.
using EncodeChunk = std::function<std::string(
    const Array& array, const Box& box, std::string elements)>;
// A function that stores a chunk. It is called in the order of arrays and
// chunks. It returns false after a finding.
using StoreChunk =
    std::function<bool(size_t array, int64_t chunk, std::string_view encoded)>;
// A half-open range of chunks. The chunks of all arrays are numbered
// consecutively, beginning with those of the first array.
struct ChunkRange {
  int64_t begin = 0;
  int64_t end = 0;
};
// Returns the range of chunks that a process writes. The ranges of all
// processes have about equal bytes.
ChunkRange ShareOf(std::span<const Array> arrays, int64_t process,
                   int64_t processes);
// Reads every chunk of the range once, encodes it by `encode` and stores it by
// `store`. Returns false after a finding of the source or of `store`. It then
// reads no further batch of chunks.
bool WriteChunks(std::span<const Array> arrays, ChunkRange range,
                 const BoxSource& source, const WriteOptions& options,
                 const EncodeChunk& encode, const StoreChunk& store,
                 Findings& findings);

// The part of writing a checkpoint that all formats share. One process keeps
// the chunks of a killed run, writes the other chunks of its share, and
// completes the checkpoint if it is the only process.

// All chunks that the processes have written for a checkpoint, in the order of
// arrays and chunks.
struct WrittenParts {
  std::vector<std::string> files;  // names of data files, indexed by process
  std::vector<WrittenChunk> chunks;
  NewFile first;  // the open file files[0], to which a format may append
};

// The steps of writing that differ between formats.
class PartsFormat {
 public:
  virtual ~PartsFormat() = default;
  virtual WriteForm form() const = 0;
  // Returns the name of a process's data file in the folder, such as
  // "d/values".
  virtual std::string DataFile(int64_t process, int64_t processes) const = 0;
  // Returns the size in bytes up to which encoded chunks are stored in the
  // journal instead of the data file. Returns -1 if all chunks are stored in
  // the data file.
  virtual int64_t held_bytes() const = 0;
  // Returns the encoded form of a chunk, which is stored. Several threads call
  // it at once.
  virtual std::string Encode(const Array& array, const Box& box,
                             std::string elements) const = 0;
  // Writes the metadata that completes a checkpoint after all chunks have been
  // written. Returns false after a finding.
  virtual bool Complete(WrittenParts parts, const NewFolder& folder,
                        Findings& findings) = 0;
};

// Runs one of the processes that write a checkpoint. If WriteOptions::finalize
// is set, completes the checkpoint instead. Returns false after a finding.
bool WriteParts(std::span<const Array> arrays, const BoxSource& source,
                const WriteOptions& options, PartsFormat& format,
                Findings& findings);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_WRITE_H_
