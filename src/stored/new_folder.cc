// Creates a folder of files atomically. The files of a folder cannot be written
// in one step, but the folder can be renamed in one step:
//
//   ckpt.orbax-checkpoint-tmp-shardc/   while it is written
//   ckpt/                               after all its files were synced
//
// A run that is killed leaves the folder under the first name, and the next run
// continues it. A lock on the folder shows whether the run that created the
// folder is still alive. A process that writes alone holds an exclusive lock.
// If several processes write, they hold a shared lock.
#include "stored/new_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "source/file.h"
#include "source/file_sink.h"

namespace shardc::stored {
namespace {

namespace fs = std::filesystem;

// Adds the finding `write` with the error in errno, and returns false.
bool Refuse(const std::string& path, Findings& findings) {
  AddWriteError(path, errno, findings);
  return false;
}

int OpenFolder(const std::string& path) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

}  // namespace

std::optional<NewFolder> NewFolder::Create(const std::string& path,
                                           std::string_view ending,
                                           Findings& findings, FolderUse use) {
  NewFolder out;
  out.use_ = use;
  out.path_ = path;
  while (out.path_.size() > 1 && out.path_.ends_with('/')) out.path_.pop_back();
  std::error_code error;
  const auto status = fs::symlink_status(out.path_, error);
  const bool free = status.type() == fs::file_type::not_found ||
                    (status.type() == fs::file_type::directory &&
                     fs::is_empty(out.path_, error) && !error);
  if (!free) {
    findings.Add(code::kWrite, {MakeSource(path, {})},
                 "`" + path + "` exists and is not an empty folder",
                 "remove it or choose another name");
    return std::nullopt;
  }
  std::string temporary = out.path_;
  temporary += ending;
  const bool made = ::mkdir(temporary.c_str(), 0777) == 0;
  if (!made && errno != EEXIST) {
    Refuse(temporary, findings);
    return std::nullopt;
  }
  out.fd_ = OpenFolder(temporary);
  if (out.fd_ < 0) {
    Refuse(temporary, findings);
    if (made) ::rmdir(temporary.c_str());
    return std::nullopt;
  }
  out.temporary_ = temporary;
  if (!out.Lock(findings)) {
    // Another run owns the folder, so the destructor must not remove it.
    out.temporary_.clear();
    return std::nullopt;
  }
  return out;
}

bool NewFolder::Lock(Findings& findings) {
  const int mode = use_ == FolderUse::kShared ? LOCK_SH : LOCK_EX;
  const bool locked = ::flock(fd_, mode | LOCK_NB) == 0;
  if (!locked && errno != EWOULDBLOCK) return Refuse(temporary_, findings);
  // Between opening and locking, another run may have renamed the folder to its
  // final name. The temporary name then belongs to another folder or to none.
  struct stat opened = {};
  struct stat named = {};
  if (locked && ::fstat(fd_, &opened) == 0 &&
      ::lstat(temporary_.c_str(), &named) == 0 &&
      opened.st_dev == named.st_dev && opened.st_ino == named.st_ino) {
    return true;
  }
  findings.Add(code::kWrite, {MakeSource(path_, {})},
               "another run is writing `" + path_ + "`",
               "wait for it or choose another name");
  return false;
}

bool NewFolder::RemoveOthers(std::span<const std::string> names,
                             Findings& findings) const {
  std::error_code error;
  std::vector<std::string> others;
  // Collects in `others` the paths to remove from `folder`, which is a path
  // inside this NewFolder. `folder` is empty or ends in a slash.
  const auto gather = [&](const auto& self, const std::string& folder) -> void {
    const auto found = NamesIn(PathOf(folder), error);
    if (!found) return;
    for (const std::string& name : *found) {
      const std::string path = folder + name;
      if (std::find(names.begin(), names.end(), path) != names.end()) continue;
      const bool above = std::any_of(
          names.begin(), names.end(),
          [&](const auto& kept) { return kept.starts_with(path + "/"); });
      std::error_code ignored;
      if (above && fs::symlink_status(PathOf(path), ignored).type() ==
                       fs::file_type::directory) {
        self(self, path + "/");
      } else {
        others.push_back(PathOf(path));
      }
    }
  };
  gather(gather, "");
  for (size_t i = 0; !error && i < others.size(); ++i) {
    fs::remove_all(others[i], error);
  }
  if (!error) return true;
  errno = error.value();
  return Refuse(temporary_, findings);
}

NewFolder::NewFolder(NewFolder&& other) noexcept
    : path_(std::move(other.path_)),
      use_(other.use_),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::exchange(other.fd_, -1)) {}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!temporary_.empty() && use_ == FolderUse::kAlone) {
    fs::remove_all(temporary_, ignored);
  } else if (!temporary_.empty()) {
    // rmdir() removes only empty folders, so folders that contain files remain.
    const auto names = NamesIn(temporary_, ignored);
    for (const std::string& name : names.value_or(std::vector<std::string>())) {
      (void)::rmdir(PathOf(name).c_str());
    }
    (void)::rmdir(temporary_.c_str());
  }
  if (fd_ >= 0) ::close(fd_);
}

std::string NewFolder::PathOf(std::string_view name) const {
  return (fs::path(temporary_) / name).string();
}

bool NewFolder::MakeFolder(std::string_view name, Findings& findings) const {
  const std::string path = PathOf(name);
  return ::mkdir(path.c_str(), 0777) == 0 || errno == EEXIST ||
         Refuse(path, findings);
}

bool NewFolder::Publish(Findings& findings) {
  (void)::fsync(fd_);  // some file systems cannot sync a folder
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return Refuse(path_, findings);
  }
  temporary_.clear();
  SyncDirectoryOf(path_);
  return true;
}

std::optional<NewFile> NewFile::Open(std::string path, int flags,
                                     Findings& findings) {
  NewFile out;
  out.path_ = std::move(path);
  do {
    out.fd_ = ::open(out.path_.c_str(),
                     O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | flags, 0666);
  } while (out.fd_ < 0 && errno == EINTR);
  if (out.fd_ >= 0) return out;
  Refuse(out.path_, findings);
  return std::nullopt;
}

std::optional<NewFile> NewFile::Create(std::string path, Findings& findings) {
  return Open(std::move(path), O_EXCL, findings);
}

std::optional<NewFile> NewFile::Continue(std::string path, int64_t bytes,
                                         Findings& findings) {
  auto out = Open(std::move(path), O_APPEND, findings);
  if (!out) return std::nullopt;
  out->size_ = bytes;
  struct stat there = {};
  const bool known = ::fstat(out->fd_, &there) == 0;
  if (known && there.st_size < bytes) {
    findings.Add(code::kWrite, {MakeSource(out->path_, {})},
                 "`" + out->path_ + "` has lost bytes that were written to it",
                 "run the command again");
    return std::nullopt;
  }
  if (known && ::ftruncate(out->fd_, bytes) == 0) return out;
  Refuse(out->path_, findings);
  return std::nullopt;
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_) {}

NewFile::~NewFile() {
  if (fd_ >= 0) ::close(fd_);
}

bool NewFile::Append(std::string_view bytes, Findings& findings) {
  if (!WriteAll(fd_, bytes)) return Refuse(path_, findings);
  size_ += static_cast<int64_t>(bytes.size());
  return true;
}

bool NewFile::Close(Findings& findings) {
  const bool synced = ::fsync(fd_) == 0;
  const int error = errno;
  const bool closed = ::close(std::exchange(fd_, -1)) == 0 || errno == EINTR;
  if (!synced) errno = error;
  if (!synced || !closed) return Refuse(path_, findings);
  SyncDirectoryOf(path_);
  return true;
}

}  // namespace shardc::stored
