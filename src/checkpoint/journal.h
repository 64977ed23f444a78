// What an interrupted run has written so far: one line per complete piece,
// in a hidden file beside the outputs. It is a hint: pieces are read and
// compared with it before they are believed.
#ifndef SHARDC_CHECKPOINT_JOURNAL_H_
#define SHARDC_CHECKPOINT_JOURNAL_H_

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/transfer.h"
#include "source/finding.h"

namespace shardc {

// A digest of everything that decides the outputs' bytes: sources (sizes,
// times, headers), tensors, parts, outputs. A journal of another key is
// thrown away.
std::string TransferKey(const Transfer& transfer);

// A digest of when the system saw the sources change. What was copied from a
// file that was written since is not taken up, though size and time are those
// that it had; the parts of other processes, which may read their own copies,
// are not held to it.
std::string SourceState(const Transfer& transfer);

// ".split-00002-of-00004.journal"
std::string JournalName(const std::string& tag, int64_t index, int64_t count);

class Journal {
 public:
  // Creates or takes up the journal and locks it for as long as it is open.
  // Findings (`write`): it cannot be made, or another run holds it.
  static std::optional<Journal> Open(const std::string& path,
                                     const std::string& key,
                                     const Transfer& transfer,
                                     Findings& findings);
  // Reads one without taking it up; nothing if absent or of another key.
  static std::optional<Journal> Read(const std::string& path,
                                     const std::string& key,
                                     const Transfer& transfer);
  Journal(Journal&& other) noexcept;
  Journal& operator=(Journal&& other) noexcept;
  ~Journal();

  // What it said when it was opened.
  const Checksums& recorded() const { return recorded_; }
  bool resumed() const { return resumed_; }  // it held something
  bool done() const { return done_; }

  // False with errno set. Lines are kept back until there are some.
  bool Add(size_t output, size_t piece, uint32_t crc);
  bool Flush();
  bool MarkDone();
  void Remove();  // the file

 private:
  Journal() = default;
  // Nothing, unless the text begins with `first`.
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
