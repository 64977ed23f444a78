// A journal of the chunks that one process has written to an incomplete
// checkpoint. It is a hidden file in the checkpoint's folder, with one line for
// each chunk. A later run with the same process number and the same key keeps
// the chunks before the first chunk whose bytes do not have the recorded
// checksum.
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

// A chunk whose bytes are in the data file of its process, or in `held` if
// `is_held`.
struct WrittenChunk {
  size_t process = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
  uint32_t crc = 0;  // CRC-32C
  bool is_held = false;
  std::string held;
};

// The values that determine the bytes of the chunks. A run does not continue a
// journal with another key or with an empty `chunks`.
struct JournalKey {
  std::string chunks;  // digest that all processes share; may be empty
  std::string state;   // digest of the source files as this process sees them
};

// Returns a journal's name: ".shardc-00002-of-00004.journal".
std::string ChunkJournalName(int64_t process, int64_t processes);
// Returns the number of processes in a journal's name; nullopt for other names.
std::optional<int64_t> ProcessesIn(std::string_view journal_name);

class ChunkJournal {
 public:
  // Creates the journal, or continues it if it has the same key; otherwise the
  // journal starts over. The journal is locked while it is open. Returns
  // nullopt after the finding `write`, also if another run holds the lock.
  static std::optional<ChunkJournal> Open(const std::string& path,
                                          const JournalKey& key,
                                          Findings& findings);
  // Reads the journal of a process. Returns nullopt if it is absent or has
  // another JournalKey::chunks; JournalKey::state is not compared.
  static std::optional<ChunkJournal> Read(const std::string& path,
                                          const JournalKey& key);
  // Returns whether a running process has locked the journal and its
  // JournalKey::chunks differs from `key.chunks`.
  static bool IsOfAnotherRun(const std::string& path, const JournalKey& key);

  ChunkJournal(ChunkJournal&& other) noexcept;
  ChunkJournal& operator=(ChunkJournal&& other) = delete;
  ~ChunkJournal();

  // Returns the chunks of the process, in the order in which they were written.
  const std::vector<WrittenChunk>& chunks() const { return chunks_; }
  // Returns whether all of the process's chunks were written.
  bool done() const { return done_; }

  // Keep drops all but the first `count` chunks. It may be called only before
  // the first Add. Lines are written in groups, the last ones by MarkDone.
  // Keep, Add and MarkDone return false, with errno set, if the journal cannot
  // be written.
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
  int64_t unflushed_bytes_ = 0;  // bytes of chunks whose lines are buffered
  std::vector<WrittenChunk> chunks_;
  bool done_ = false;
};

// Returns the number of chunks before the first one whose bytes do not have the
// recorded checksum. The bytes are in the data file at `path` or in
// WrittenChunk::held. Returns 0 if the data file cannot be opened.
size_t CountIntact(const std::string& path,
                   std::span<const WrittenChunk> chunks);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_CHUNK_JOURNAL_H_
