// Passes buffers of bytes to a string, a file or a digest. A file appears
// complete or not at all: a reader of `path` sees either the old bytes or all
// new bytes.
#include "source/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "source/file.h"
#include "source/leftover.h"
#include "source/repository.h"

namespace shardc {

void Sink::Flush() {
  if (next_ == begin_) return;
  const std::string_view held(begin_, static_cast<size_t>(next_ - begin_));
  next_ = begin_;
  Drain(held);
}

// Passes only complete buffers to Drain(), so that the writes to a file end
// where its pages end. After a write that ends inside a page, the kernel has to
// look up that page again for the next write.
void Sink::Overflow(std::string_view bytes) {
  const auto size = static_cast<size_t>(end_ - begin_);
  const auto take = [&](size_t count) {
    const std::string_view taken = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return taken;
  };
  const std::string_view first = take(static_cast<size_t>(end_ - next_));
  std::memcpy(next_, first.data(), first.size());
  next_ = end_;
  Flush();
  if (bytes.size() >= size) Drain(take(bytes.size() / size * size));
  std::memcpy(next_, bytes.data(), bytes.size());
  next_ += bytes.size();
}

void Sink::Fill(size_t count, char c) {
  while (count > 0) {
    if (next_ == end_) Flush();
    const size_t some = std::min(count, static_cast<size_t>(end_ - next_));
    std::memset(next_, c, some);
    next_ += some;
    count -= some;
  }
}

namespace {

// Writes files such that a reader of `path` sees either the old bytes or all
// new bytes. The new file is first synced to disk and then gets the name `path`
// atomically. Only standard output and files that are not regular, such as
// pipes, are written in place. The code that writes to a sink cannot report
// diagnostics. So an error while writing is stored, and Commit reports it.

int Open(const std::string& path, int flags, mode_t mode = 0) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

bool Close(int fd) { return ::close(fd) == 0 || errno == EINTR; }

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// Returns the path under which the system shows an open file without a name.
std::string NameOf(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

// Resolves symbolic links, so that a write replaces the file and not the link.
// Returns an empty path with errno set on failure.
std::string LinkTarget(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return {};
  std::string out(resolved);
  ::free(resolved);
  return out;
}

// Writes all bytes of `from` to `to`. Returns false with errno set.
bool Copy(int from, int to) {
  std::array<char, size_t{1} << 16> chunk;
  for (off_t at = 0;;) {
    const ssize_t got = ::pread(from, chunk.data(), chunk.size(), at);
    if (got == 0) return true;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (!WriteAll(to, {chunk.data(), static_cast<size_t>(got)})) return false;
    at += got;
  }
}

}  // namespace

FileSink::FileSink(std::string path, Links links)
    : Sink(buffer_), path_(std::move(path)), target_(path_) {
  struct stat status = {};
  const bool link =
      ::lstat(path_.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
  if (path_ == "-") {
    fd_ = STDOUT_FILENO;
  } else if (path_.empty()) {
    Fail(ENOENT);
  } else if (link && links == Links::kReplace) {
    OpenNew(0);
  } else if (::stat(path_.c_str(), &status) != 0) {
    // The file to which a link leads need not exist yet.
    if (link) target_ = FollowedPath(path_);
    target_.empty() ? Fail(ELOOP) : OpenNew(0);
  } else if (S_ISREG(status.st_mode)) {
    target_ = LinkTarget(path_);
    target_.empty() ? Fail(errno) : OpenNew(status.st_mode & 07777);
  } else if (S_ISDIR(status.st_mode)) {
    Fail(EISDIR);
  } else {
    fd_ = Open(path_, O_WRONLY);
    if (fd_ < 0) Fail(errno);
  }
}

FileSink::~FileSink() {
  if (fd_ >= 0 && fd_ != STDOUT_FILENO) Close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void FileSink::Fail(int error) {
  if (error_ == 0) error_ = error;
}

void FileSink::OpenNew(unsigned mode) {
  in_place_ = false;
  mode_ = mode;
  if (!OpenNameless()) {
    const int error = OpenTemporary();
    if (error != 0) return Fail(error);
  }
  if (mode != 0 && ::fchmod(fd_, mode) != 0) Fail(errno);
}

// Opens an unnamed file, which disappears with the process. Returns false if
// the file cannot be opened, or if there is no /proc, through which Name()
// links the file.
bool FileSink::OpenNameless() {
#ifdef O_TMPFILE  // only Linux has it
  fd_ = Open(DirectoryOf(target_), O_RDWR | O_TMPFILE, 0666);
  if (fd_ < 0) return false;
  if (::access(NameOf(fd_).c_str(), F_OK) == 0) return true;
  Close(std::exchange(fd_, -1));
#endif
  return false;
}

// Opens a temporary file under an unused name. Returns 0, or the errno value of
// the error.
int FileSink::OpenTemporary() {
  int error = EEXIST;
  for (int attempt = 0; attempt < 100 && error == EEXIST; ++attempt) {
    temporary_ = TemporaryName(
        target_, std::to_string(::getpid()) + "-" + std::to_string(attempt));
    // Register the name for deletion (Unfinished) before creating the file, so
    // that a signal in between leaves no file behind.
    unfinished_.emplace(temporary_.c_str());
    fd_ = Open(temporary_, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd_ >= 0) return 0;
    error = errno;
    unfinished_.reset();
  }
  temporary_.clear();
  return error;
}

void FileSink::Drain(std::string_view bytes) {
  if (error_ == 0 && !WriteAll(fd_, bytes)) Fail(errno);
  drained_ += static_cast<int64_t>(bytes.size());
  StartWriteback();
}

// Lets the disk write a large file while its rest is produced, so that less is
// left for the fsync of Prepare. An error is not lost: fsync reports it.
void FileSink::StartWriteback() {
  constexpr int64_t kStepBytes = int64_t{16} << 20;
  if (in_place_ || error_ != 0 || drained_ - started_ < kStepBytes) return;
#ifdef __linux__  // other systems have no such call
  (void)::sync_file_range(fd_, started_, drained_ - started_,
                          SYNC_FILE_RANGE_WRITE);
#endif
  started_ = drained_;
}

int64_t FileSink::Leave(size_t size) {
  Flush();
  const off_t offset = error_ == 0 ? ::lseek(fd_, 0, SEEK_CUR) : 0;
  if (offset < 0) Fail(errno);
  Fill(size, ' ');
  return offset;
}

void FileSink::Amend(int64_t offset, std::string_view bytes) {
  Flush();
  if (error_ == 0 && !WriteAt(fd_, bytes, offset)) Fail(errno);
}

// Gives the unnamed file its name. linkat() fails if the name exists. An
// existing target is therefore replaced in two steps: the file is linked to the
// name `next`, and `next` is renamed to the target. If `next` exists already,
// another writer of the same target is between the steps, or was killed there.
// Its `next` is deleted. If that writer still runs, its rename fails, and it
// tries again with a copy, because a file that has lost its only name gets no
// new one. If linking fails for another reason, the file is copied under a
// name.
int FileSink::Name() {
  const std::string next = TemporaryName(target_, kNextFile);
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (Link(target_)) return 0;
    int error = errno;
    if (error == EEXIST) {
      const Unfinished unfinished(next.c_str());
      if (Link(next)) {
        if (::rename(next.c_str(), target_.c_str()) == 0) return 0;
        error = errno;
        ::unlink(next.c_str());
        if (error != ENOENT) return error;
      } else if (error = errno; error == EEXIST) {
        // The other writer may have renamed or deleted it meanwhile.
        if (::unlink(next.c_str()) == 0 || errno == ENOENT) continue;
      }
    }
    if (error != ENOENT || !CopyToNameless()) break;
  }
  return CopyToTemporary();
}

// Links the unnamed file to a name. Returns false with errno set.
bool FileSink::Link(const std::string& to) const {
  return ::linkat(AT_FDCWD, NameOf(fd_).c_str(), AT_FDCWD, to.c_str(),
                  AT_SYMLINK_FOLLOW) == 0;
}

// Replaces the unnamed file by a copy, which can be linked. Returns false, with
// the file as it was, if there is no space or no unnamed file any more.
bool FileSink::CopyToNameless() {
  const int old = std::exchange(fd_, -1);
  if (OpenNameless() && (mode_ == 0 || ::fchmod(fd_, mode_) == 0) &&
      Copy(old, fd_) && ::fsync(fd_) == 0) {
    Close(old);
    return true;
  }
  if (fd_ >= 0) Close(fd_);
  fd_ = old;
  return false;
}

// Copies the unnamed file to a temporary file, and renames the copy, for
// systems that have unnamed files but cannot give them a name.
int FileSink::CopyToTemporary() {
  const int nameless = std::exchange(fd_, -1);
  int error = OpenTemporary();
  if (error == 0 && ((mode_ != 0 && ::fchmod(fd_, mode_) != 0) ||
                     !Copy(nameless, fd_) || ::fsync(fd_) != 0)) {
    error = errno;
  }
  Close(nameless);
  return error == 0 ? Rename() : error;
}

int FileSink::Rename() {
  if (!Close(std::exchange(fd_, -1))) return errno;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return errno;
  unfinished_.reset();
  temporary_.clear();
  return 0;
}

int FileSink::Publish() {
  const int error = temporary_.empty() ? Name() : Rename();
  if (error == 0) SyncDirectoryOf(target_);
  return error;
}

bool FileSink::Prepare(Findings& findings) {
  Flush();
  if (path_ != "-" && RefuseInput(path_, findings)) return false;
  if (error_ == 0 && !in_place_ && ::fsync(fd_) != 0) error_ = errno;
  return Report(findings);
}

bool FileSink::Commit(Findings& findings) {
  if (!Prepare(findings)) return false;
  if (error_ == 0 && !in_place_) {
    error_ = Publish();
  } else if (error_ == 0 && path_ != "-" && !Close(std::exchange(fd_, -1))) {
    error_ = errno;
  }
  return Report(findings);
}

bool FileSink::Report(Findings& findings) const {
  if (error_ == 0) return true;
  if (path_ == "-") {
    if (error_ == EPIPE) return true;
    findings.Add(
        code::kWrite, {},
        std::string("standard output cannot be written: ") + ::strerror(error_),
        error_ == EBADF ? "redirect it to a file, or to /dev/null"
                        : "check the space on its device");
    return false;
  }
  const std::string folder = DirectoryOf(target_.empty() ? path_ : target_);
  if (error_ == ENOENT && ::access(folder.c_str(), F_OK) != 0) {
    const std::string name = folder.substr(0, folder.find_last_not_of('/') + 1);
    findings.Add(
        code::kWrite, Place{MakeSource(path_, {})},
        "cannot write `" + path_ + "`: there is no folder `" + name + "`",
        "create it first: `mkdir -p " + name + "`");
    return false;
  }
  AddWriteError(path_, error_, findings);
  return false;
}

bool WriteAt(int fd, std::string_view bytes, int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(put));
    offset += put;
  }
  return true;
}

void AddWriteError(const std::string& path, int error, Findings& findings) {
  findings.Add(code::kWrite, Place{MakeSource(path, {})},
               "cannot write `" + path + "`: " + ::strerror(error),
               error == ENOSPC || error == EDQUOT
                   ? "free some space or choose another place"
                   : "");
}

void SyncDirectory(const std::string& directory) {
  const int fd = Open(directory, O_RDONLY | O_DIRECTORY);
  if (fd < 0) return;
  (void)::fsync(fd);
  Close(fd);
}

void SyncDirectoryOf(const std::string& path) {
  SyncDirectory(DirectoryOf(path));
}

bool WriteToFile(const std::string& path, std::string_view bytes,
                 Findings& findings) {
  FileSink file(path);
  file.Append(bytes);
  return file.Commit(findings);
}

bool RefuseInput(const std::string& path, Findings& findings) {
  const bool standard_output = path == "-";
  struct stat status = {};
  const int failed = standard_output ? ::fstat(STDOUT_FILENO, &status)
                                     : ::stat(path.c_str(), &status);
  if (failed != 0 || !S_ISREG(status.st_mode) ||
      !findings.WasRead(FileIdOf(status))) {
    return false;
  }
  if (standard_output) {
    findings.Add(code::kUsage, {},
                 "standard output is one of the files that are read",
                 "redirect it to another file");
  } else {
    findings.Add(code::kUsage, Place{MakeSource(path, {})},
                 "`" + path + "` is one of the files that are read",
                 "write to another file or directory");
  }
  return true;
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put >= 0) {
      bytes.remove_prefix(static_cast<size_t>(put));
    } else if (errno == EAGAIN) {
      struct pollfd wait = {fd, POLLOUT, 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

namespace {

// The paths of the files that RemoveUnfinished deletes; a null entry is unused.
// The array has a fixed size, because a signal handler cannot read a list that
// another thread may be changing.
std::array<std::atomic<const char*>, 32> paths;

}  // namespace

Unfinished::Unfinished(const char* path) {
  for (auto& slot : paths) {
    const char* none = nullptr;
    if (!slot.compare_exchange_strong(none, path)) continue;
    slot_ = &slot;
    return;
  }
}

Unfinished::~Unfinished() {
  if (slot_ != nullptr) *slot_ = nullptr;
}

void RemoveUnfinished() {
  for (auto& slot : paths) {
    const char* path = slot.exchange(nullptr);
    if (path != nullptr) ::unlink(path);
  }
}

}  // namespace shardc
