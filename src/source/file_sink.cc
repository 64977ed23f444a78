// A reader of `path` sees the old bytes or the new ones and nothing between:
// rename() replaces a name in one step, and the new file's bytes are on the
// disk before. Errors on the way are kept until Commit, as those who write
// pieces have nobody to tell.
#include "source/file_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace shardc {
namespace {

constexpr std::string_view kNoSpace = "free some space or choose another place";

int Open(const std::string& path, int flags, mode_t mode = 0) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

bool Close(int fd) { return ::close(fd) == 0 || errno == EINTR; }

// What a new file beside the target is called until it is whole.
std::string TemporaryName(const std::string& path, int attempt) {
  const size_t slash = path.rfind('/');
  const size_t base = slash == std::string::npos ? 0 : slash + 1;
  // The name must stay under the 255 bytes that file systems take.
  return path.substr(0, base) + "." + path.substr(base, 200) + "." +
         std::to_string(::getpid()) + "-" + std::to_string(attempt) + ".tmp";
}

void SyncDirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory =
      slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = Open(directory, O_RDONLY | O_DIRECTORY);
  if (fd < 0) return;
  // Best effort: some file systems refuse it, and the file itself is synced.
  (void)::fsync(fd);
  Close(fd);
}

// The file that a link leads to, so that the link itself stays.
std::string LinkTarget(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return path;
  std::string out(resolved);
  ::free(resolved);
  return out;
}

}  // namespace

FileSink::FileSink(std::string path)
    : Sink(buffer_), path_(std::move(path)), target_(path_) {
  struct stat status = {};
  if (path_ == "-") {
    fd_ = STDOUT_FILENO;
  } else if (::stat(path_.c_str(), &status) != 0) {
    if (path_.empty()) {
      Fail(ENOENT);
    } else {
      OpenTemporary(0);
    }
  } else if (S_ISREG(status.st_mode)) {
    target_ = LinkTarget(path_);
    OpenTemporary(status.st_mode & 07777);
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

void FileSink::OpenTemporary(unsigned mode) {
  for (int attempt = 0; attempt < 100 && fd_ < 0; ++attempt) {
    temporary_ = TemporaryName(target_, attempt);
    fd_ = Open(temporary_, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd_ < 0 && errno != EEXIST) break;
  }
  if (fd_ < 0) {
    Fail(errno);
    temporary_.clear();
  } else if (mode != 0 && ::fchmod(fd_, mode) != 0) {
    Fail(errno);
  }
}

void FileSink::Drain(std::string_view bytes) {
  if (error_ == 0 && !WriteAll(fd_, bytes)) Fail(errno);
}

int FileSink::Publish() {
  if (::fsync(fd_) != 0) return errno;
  if (!Close(std::exchange(fd_, -1))) return errno;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return errno;
  temporary_.clear();
  SyncDirectoryOf(target_);
  return 0;
}

bool FileSink::Commit(Findings& findings) {
  Flush();
  if (path_ != "-" && RefuseInput(path_, findings)) return false;
  if (error_ == 0 && !temporary_.empty()) {
    error_ = Publish();
  } else if (error_ == 0 && path_ != "-" && !Close(std::exchange(fd_, -1))) {
    error_ = errno;
  }
  if (error_ == 0) return true;
  if (path_ == "-") {
    if (error_ == EPIPE) return true;
    findings.Add(
        code::kWrite, {},
        std::string("standard output cannot be written: ") + ::strerror(error_),
        "check the space on its device");
    return false;
  }
  findings.Add(code::kWrite, Place{MakeSource(path_, {})},
               "cannot write `" + path_ + "`: " + ::strerror(error_),
               error_ == ENOSPC || error_ == EDQUOT ? std::string(kNoSpace)
                                                    : std::string());
  return false;
}

bool WriteWhole(const std::string& path, std::string_view bytes,
                Findings& findings) {
  FileSink file(path);
  file.Append(bytes);
  return file.Commit(findings);
}

bool RefuseInput(const std::string& path, Findings& findings) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) ||
      !findings.WasRead({status.st_dev, status.st_ino})) {
    return false;
  }
  findings.Add(code::kUsage, Place{MakeSource(path, {})},
               "`" + path + "` is one of the files that are read",
               "write to another file or directory");
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

}  // namespace shardc
