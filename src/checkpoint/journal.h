// Records the pieces that a run has written, so that a run after an
// interruption can continue. The journal is a hidden file in the output
// directory with one line for each complete piece. The journal is not trusted:
// each piece is read and compared with its recorded checksum before it is kept.
#ifndef SHARDC_CHECKPOINT_JOURNAL_H_
#define SHARDC_CHECKPOINT_JOURNAL_H_

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/transfer.h"
#include "source/finding.h"

namespace shardc {

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

// Returns the file name of a journal, such as ".shards-00002-of-00004.journal".
std::string JournalName(const std::string& tag, int64_t index, int64_t count);

class Journal {
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
  Journal(Journal&& other) noexcept;
  Journal& operator=(Journal&& other) noexcept;
  ~Journal();

  // Returns the checksums that the journal contained when it was opened.
  const Checksums& recorded() const { return recorded_; }
  bool resumed() const { return resumed_; }  // whether recorded() has pieces
  bool done() const { return done_; }

  // Records a complete piece. Lines are buffered and written in groups. Returns
  // false, with errno set, if a group cannot be written.
  bool Add(size_t output, size_t piece, uint32_t crc);
  bool Flush();
  bool MarkDone();
  void Remove();  // deletes the file

 private:
  Journal() = default;
  // Sets `recorded_` to the pieces that the journal's text lists, if the text
  // begins with the line `first`. Otherwise `recorded_` has no piece.
  void Parse(const std::string& text, const std::string& first,
             const Transfer& transfer);

  std::string path_;
  int fd_ = -1;
  std::string pending_;
  Checksums recorded_;
  bool resumed_ = false;
  bool done_ = false;
};

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_JOURNAL_H_
