// Output files that appear complete or not at all.
#ifndef SHARDC_SOURCE_FILE_SINK_H_
#define SHARDC_SOURCE_FILE_SINK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "source/finding.h"
#include "source/sink.h"
#include "source/unfinished.h"

namespace shardc {

// Writes a file as its bytes are produced. The bytes go to an unnamed file in
// the directory of `path` (or to a temporary file if the system has no unnamed
// files), which Commit syncs and renames to `path`. Until Commit the old file
// is untouched, and without Commit nothing remains, with an unnamed file even
// if the process is killed. If `path` is a symbolic link, the file it points to
// is replaced and keeps its permissions; in a folder that the command owns, the
// link itself is replaced. Anything but a regular file (a terminal, a pipe) is
// written in place. "-" is standard output.
class FileSink final : public Sink {
 public:
  enum class Links { kFollow, kReplace };
  explicit FileSink(std::string path, Links links = Links::kFollow);
  ~FileSink() override;

  // For formats whose header is known only after the data: Leave reserves
  // `size` bytes and returns their offset, and Amend fills them later. Not
  // available for files that are written in place.
  bool amendable() const { return !in_place_; }
  int64_t Leave(size_t size);
  void Amend(int64_t offset, std::string_view bytes);

  // Writes the remaining bytes and gives the file its name. Returns false after
  // the finding `write` with the first error. A reader of standard output that
  // closes early (`| head`) is no error. A file that `findings` records as read
  // in this run is not replaced (finding `usage`).
  bool Commit(Findings& findings);

 private:
  void Drain(std::string_view bytes) override;
  void StartWriteback();
  void OpenNew(unsigned mode);
  bool OpenNameless();
  int OpenTemporary();
  void Fail(int error);
  // These functions return an errno value, or 0.
  int Publish();
  int Name();
  int CopyToTemporary();
  int Rename();

  std::string path_;       // as the caller gave it
  std::string target_;     // the file to replace, with links resolved
  std::string temporary_;  // the file's name until Commit; empty if it has none
  std::optional<Unfinished> unfinished_;
  unsigned mode_ = 0;  // permissions of the file to replace
  int fd_ = -1;
  bool in_place_ = true;
  int error_ = 0;        // errno of the first error
  int64_t drained_ = 0;  // bytes passed to the system
  int64_t started_ = 0;  // bytes that the disk has started to write
  std::array<char, size_t{1} << 16> buffer_;
};

// Writes `bytes` as one complete file.
bool WriteToFile(const std::string& path, std::string_view bytes,
                 Findings& findings);

// Returns whether the file that `path` leads to was read in this run, and adds
// the finding `usage` if so.
bool RefuseInput(const std::string& path, Findings& findings);

// Writes all bytes to a file descriptor. Both return false with errno set.
bool WriteAll(int fd, std::string_view bytes);
bool WriteAt(int fd, std::string_view bytes, int64_t offset);

// Adds the finding `write` for an errno value.
void AddWriteError(const std::string& path, int error, Findings& findings);

// Syncs a directory, or the one that a path is in. Errors are ignored: some
// file systems cannot sync a directory.
void SyncDirectory(const std::string& directory);
void SyncDirectoryOf(const std::string& path);

}  // namespace shardc

#endif  // SHARDC_SOURCE_FILE_SINK_H_
