// A journal of the chunks that one process has written to an incomplete
// checkpoint. It is a hidden file in the checkpoint's folder, with one line for
// each chunk. A later run continues the journal if it has the same process
// number and the same key. It keeps the chunks before the first chunk whose
// bytes do not have the recorded checksum.
#ifndef SHARDC_STORED_CHUNK_JOURNAL_H_
#define SHARDC_STORED_CHUNK_JOURNAL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "source/finding.h"

namespace shardc::stored {

// A chunk that a process has written. Its bytes are in the process's data file.
// If `is_held` is true, they are in `held` instead.
struct WrittenChunk {
  size_t process = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
  uint32_t crc = 0;  // CRC-32C of the chunk's stored bytes
  bool is_held = false;
  std::string held;
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
};

// Returns the file name of a journal, such as ".shardc-00002-of-00004.journal".
std::string ChunkJournalName(int64_t process, int64_t processes);
// Returns the number of processes in the file name of a journal. Returns
// nullopt for other file names.
std::optional<int64_t> ProcessesIn(std::string_view journal_name);

class ChunkJournal {
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
  // Returns whether a running process has locked the journal and its
  // JournalKey::chunks differs from `key.chunks`.
  static bool IsOfAnotherRun(const std::string& path, const JournalKey& key);

  ChunkJournal(ChunkJournal&& other) noexcept;
  ChunkJournal& operator=(ChunkJournal&& other) = delete;
  ~ChunkJournal();

  // Returns the chunks of the process in the order in which they were written.
  const std::vector<WrittenChunk>& chunks() const { return chunks_; }
  // Returns whether all chunks of the process were written.
  bool done() const { return done_; }

  // Keep removes all chunks after the first `count` chunks. It may be called
  // only before the first Add. Add writes lines in groups, and MarkDone writes
  // the last group. Keep, Add and MarkDone return false, with errno set, if the
  // journal cannot be written.
  bool Keep(size_t count);
  bool Add(WrittenChunk chunk);
  bool MarkDone();
  void Remove();  // deletes the file

 private:
  ChunkJournal() = default;
  void Parse(std::string_view lines);
  bool Flush();

  std::string path_;
  std::string first_line_;
  int fd_ = -1;
  std::string buffered_;
  int64_t unflushed_bytes_ = 0;  // bytes of the chunks whose lines are buffered
  std::vector<WrittenChunk> chunks_;
  bool done_ = false;
};

// Returns the number of intact chunks, which are those before the first chunk
// whose bytes do not have the recorded checksum. The bytes are in the data file
// at `path` or in WrittenChunk::held. Returns 0 if the data file cannot be
// opened.
size_t CountIntact(const std::string& path,
                   std::span<const WrittenChunk> chunks);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_CHUNK_JOURNAL_H_
