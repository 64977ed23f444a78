// Destinations of output bytes: a string, a file or a digest. A sink first
// copies short writes to its buffer, so that writing one byte usually needs no
// virtual call.
#ifndef SHARDC_SOURCE_SINK_H_
#define SHARDC_SOURCE_SINK_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "source/finding.h"

namespace shardc {

class Sink {
 public:
  virtual ~Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  void Put(char c) {
    if (next_ == end_) {
      Overflow({&c, 1});
    } else {
      *next_++ = c;
    }
  }
  void Append(std::string_view bytes) {
    if (bytes.size() > static_cast<size_t>(end_ - next_)) {
      Overflow(bytes);
    } else if (!bytes.empty()) {
      std::memcpy(next_, bytes.data(), bytes.size());
      next_ += bytes.size();
    }
  }
  void Fill(size_t count, char c);

  // Passes the buffered bytes to Drain().
  void Flush();

 protected:
  // `buffer` belongs to the derived class and is not empty; the constructor
  // only stores its address.
  explicit Sink(std::span<char> buffer)
      : begin_(buffer.data()), next_(begin_), end_(begin_ + buffer.size()) {}
  // Receives the next bytes, in order.
  virtual void Drain(std::string_view bytes) = 0;

 private:
  void Overflow(std::string_view bytes);

  char* begin_;
  char* next_;
  char* end_;
};

// Appends to `out`, which is complete after Flush or destruction.
class StringSink final : public Sink {
 public:
  explicit StringSink(std::string& out) : Sink(buffer_), out_(out) {}
  ~StringSink() override { Flush(); }

 private:
  void Drain(std::string_view bytes) override { out_.append(bytes); }

  std::string& out_;
  std::array<char, 512> buffer_;
};

// Returns the text that `write(Sink&)` writes.
template <class Write>
std::string TextOf(const Write& write) {
  std::string out;
  StringSink sink(out);
  write(static_cast<Sink&>(sink));
  sink.Flush();
  return out;
}

class MatchingSink final : public Sink {
 public:
  explicit MatchingSink(std::string_view expected)
      : Sink(buffer_), rest_(expected) {}

  // Returns whether exactly the expected bytes were written.
  bool Matches() {
    Flush();
    return matches_ && rest_.empty();
  }

 private:
  void Drain(std::string_view bytes) override {
    matches_ = matches_ && rest_.starts_with(bytes);
    if (matches_) rest_.remove_prefix(bytes.size());
  }

  std::string_view rest_;  // the part of the expected text still to be written
  bool matches_ = true;
  std::array<char, 4096> buffer_;
};

// Writes output files so that a file appears complete or not at all.

// While this object exists, RemoveUnfinished deletes the file at `path`. The
// caller keeps the path's characters alive. Only a few paths can be registered
// at a time; further ones are ignored.
class Unfinished {
 public:
  explicit Unfinished(const char* path);
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

 private:
  std::atomic<const char*>* slot_ = nullptr;
};

// Deletes all registered files. Safe to call in a signal handler.
void RemoveUnfinished();

// Writes a file as its bytes are produced. The bytes go to an unnamed file in
// the directory of the target, or to a temporary file if the system has no
// unnamed files. Commit syncs this file and gives it the name of the target.
// Until then an existing target is unchanged. Without Commit nothing remains,
// unless the process is killed while it writes a temporary file. A regular file
// that is replaced keeps its permissions. If `path` is a symbolic link, kFollow
// replaces or creates the file to which it leads, and kReplace replaces the
// link. A terminal, a pipe or a device is written in place. "-" is standard
// output.
class FileSink final : public Sink {
 public:
  enum class Links { kFollow, kReplace };
  explicit FileSink(std::string path, Links links = Links::kFollow);
  ~FileSink() override;

  // Leave() and Amend() serve formats whose header is known only after the
  // data. Leave() writes `size` spaces and returns their offset, and Amend()
  // overwrites them later. A file that is written in place is not amendable.
  bool amendable() const { return !in_place_; }
  int64_t Leave(size_t size);
  void Amend(int64_t offset, std::string_view bytes);

  // Writes and syncs the remaining bytes, and reports every error that Commit
  // reports except those of naming the file. Nothing is appended afterwards. A
  // command that writes several files prepares all of them before it commits
  // the first. On an error, adds it to `findings` and returns false.
  bool Prepare(Findings& findings);
  // Writes the remaining bytes and gives the file its name. On failure, adds
  // the error `write` to `findings` and returns false. If this run has read the
  // file, adds the error `usage`, returns false and does not replace the file.
  // If a reader of standard output closes early (`| head`), this is no error.
  bool Commit(Findings& findings);

 private:
  void Drain(std::string_view bytes) override;
  void StartWriteback();
  void OpenNew(unsigned mode);
  bool OpenNameless();
  int OpenTemporary();
  void Fail(int error);
  // If error_ is set, adds an error to `findings` and returns false.
  bool Report(Findings& findings) const;
  // Each of these functions returns 0, or the errno value of its error.
  int Publish();
  int Name();
  bool Link(const std::string& to) const;
  bool CopyToNameless();
  int CopyToTemporary();
  int Rename();

  std::string path_;  // the path as the caller gave it
  // The file to create or replace: `path_` with symbolic links resolved.
  std::string target_;
  // The name of the file until Commit renames it. Empty if the file has no name
  // yet.
  std::string temporary_;
  std::optional<Unfinished> unfinished_;
  unsigned mode_ = 0;  // permissions of the file to replace, or 0
  int fd_ = -1;
  bool in_place_ = true;
  int error_ = 0;        // errno of the first error
  int64_t drained_ = 0;  // bytes passed to the system
  int64_t started_ = 0;  // bytes whose writeback to disk was started
  std::array<char, size_t{1} << 16> buffer_;
};

// Writes `bytes` as one complete file. On failure, adds an error to `findings`
// and returns false.
bool WriteToFile(const std::string& path, std::string_view bytes,
                 Findings& findings);

// Returns whether the file that `path` leads to was read in this run. If so,
// adds the error `usage` to `findings`. "-" is the file to which standard
// output is redirected. Standard output is written in place, so call this
// before the first byte of a result.
bool RefuseInput(const std::string& path, Findings& findings);

// Write all bytes to a file descriptor, WriteAt from `offset` on. Return false
// with errno set.
bool WriteAll(int fd, std::string_view bytes);
bool WriteAt(int fd, std::string_view bytes, int64_t offset);

// Adds the error `write` to `findings`. `error` is an errno value.
void AddWriteError(const std::string& path, int error, Findings& findings);

// SyncDirectory syncs a directory, and SyncDirectoryOf the directory that has
// the file at `path`. Errors are ignored, because some file systems cannot sync
// a directory.
void SyncDirectory(const std::string& directory);
void SyncDirectoryOf(const std::string& path);

// The mark of a set of files that a run has started to publish and has not
// finished. The mark has the name of the set's index, which is the file that is
// written last: the index of a checkpoint, a committed plan or a project file.
// No reader accepts the mark in place of the index.

inline constexpr std::string_view kUnfinishedSchema = "shardc.unfinished/v1";

// The mark while the files of a new set replace the files of an earlier set.
// Its message is an instruction to run the same command again.
inline constexpr std::string_view kResumeIndex =
    "{\"schema\": \"shardc.unfinished/v1\",\n"
    " \"message\": \"a run was interrupted while it put a new set in place of "
    "an earlier one; run the same command again\"}\n";

// Returns whether a text is the mark of an unfinished set, on one line or on
// several.
inline bool IsUnfinishedMark(std::string_view text) {
  if (!text.starts_with('{')) return false;
  text.remove_prefix(1);
  text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
  return text.starts_with(kResumeIndex.substr(1, kResumeIndex.find(',') - 1));
}

}  // namespace shardc

#endif  // SHARDC_SOURCE_SINK_H_
