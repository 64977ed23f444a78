// Records the chunks that one process has written of a checkpoint that is not
// complete: a line for each, in a hidden file of the folder. The next run of
// the same process keeps those whose bytes still have the recorded checksums.
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

// A chunk in the data file of its process, or in `held`.
struct WrittenChunk {
  size_t process = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
  uint32_t crc = 0;  // CRC-32C
  bool is_held = false;
  std::string held;
};

// The values that determine the bytes of the chunks. A journal with another key
// is ignored.
struct JournalKey {
  std::string chunks;  // sources and chunks; the same in all processes
  std::string state;   // of the source files as this process sees them
};

// ".shardc-00002-of-00004.journal"
std::string ChunkJournalName(int64_t process, int64_t processes);
// The number of processes in such a name; nullopt for other names.
std::optional<int64_t> ProcessesIn(std::string_view journal_name);

class ChunkJournal {
 public:
  // Creates or continues the journal and locks it while it is open. Finding:
  // `write`, also if another run holds the lock.
  static std::optional<ChunkJournal> Open(const std::string& path,
                                          const JournalKey& key,
                                          Findings& findings);
  // Reads the journal of a process; nullopt if it is absent or has another key.
  // JournalKey's state is not compared.
  static std::optional<ChunkJournal> Read(const std::string& path,
                                          const JournalKey& key);
  // Whether a running process has locked a journal of another key.
  static bool IsOfAnotherRun(const std::string& path, const JournalKey& key);

  ChunkJournal(ChunkJournal&& other) noexcept;
  ChunkJournal& operator=(ChunkJournal&& other) = delete;
  ~ChunkJournal();

  // The chunks of the process in order.
  const std::vector<WrittenChunk>& chunks() const { return chunks_; }
  // Whether all of the process's chunks were written.
  bool done() const { return done_; }

  // All return false with errno set. Keep forgets all but the first `count`
  // chunks; it is called before the first Add. Lines are buffered.
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
  int64_t unflushed_bytes_ = 0;  // of chunks
  std::vector<WrittenChunk> chunks_;
  bool done_ = false;
};

// The number of first chunks whose bytes, in the data file at `path` or in the
// chunk, have the recorded checksums.
size_t CountIntact(const std::string& path,
                   std::span<const WrittenChunk> chunks);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_CHUNK_JOURNAL_H_
