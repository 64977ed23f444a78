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
#include "stored/write.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "source/digest.h"
#include "source/file.h"
#include "source/input_file.h"
#include "source/list.h"
#include "source/sink.h"
#include "source/size.h"
#include "stored/checksum.h"

namespace shardc::stored {
std::string FiveDigits(int64_t number) {
  const std::string text = std::to_string(number);
  return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
}

int OpenDescriptor(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

bool LockFile(int fd) {
  int status = 0;
  do {
    status = ::flock(fd, LOCK_EX | LOCK_NB);
  } while (status != 0 && errno == EINTR);
  return status == 0;
}

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
      if (IsAmong(path, names)) continue;
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

namespace {

// Writes and reads the journal of the chunks that one process has written.
// Chunks are written in a fixed order, so a journal needs no chunk numbers. The
// first line contains the key (two digests, JournalKey). A small chunk is
// stored in the checkpoint's index instead of the data file. Its line contains
// the bytes as hexadecimal digits:
//
//   shardc-chunks/v1 2c26b4... 9f86d0...
//   0 4096 1f2e3d4c       4,096 bytes at offset 0 of the data file, their CRC
//   4096 8 0badcafe 0000803f00004040     8 bytes, which the line contains
//   done
//
// A run that is killed may leave an incomplete last line, or lines whose chunks
// did not reach the disk. An incomplete line is recognised by the missing line
// break, and a lost chunk by its checksum.

constexpr std::string_view kSchema = "shardc-chunks/v1 ";
constexpr std::string_view kPrefix = ".shardc-";
constexpr std::string_view kOf = "-of-";
constexpr std::string_view kSuffix = ".journal";
// Lines are written in groups, because most chunks are small. A group is
// written when the lines have kBufferedBytes bytes or their chunks
// kUnflushedBytes bytes.
constexpr size_t kBufferedBytes = 4096;
constexpr int64_t kUnflushedBytes = int64_t{8} << 20;
constexpr int64_t kReadBytes = int64_t{1} << 20;

// Locks the file. Tries several times, because IsOfAnotherRun in another
// process may hold the lock for a moment to test whether it is free.
bool LockSoon(int fd) {
  constexpr int kAttempts = 20;
  constexpr auto kPause = std::chrono::milliseconds(5);
  for (int i = 0; !LockFile(fd); ++i) {
    if (errno != EWOULDBLOCK || i == kAttempts) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

std::string ReadAll(int fd) {
  std::string text;
  std::string chunk(size_t{1} << 16, '\0');
  for (;;) {
    const ssize_t got = ::pread(fd, chunk.data(), chunk.size(),
                                static_cast<off_t>(text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(chunk, 0, AsIndex(got));
  }
}

// Reads the number at the start of the line, and removes it and a space after
// it. Returns false if the line does not start with a number.
template <typename T>
bool TakeNumber(std::string_view& line, T* out, int base = 10) {
  const auto [end, error] =
      std::from_chars(line.data(), line.data() + line.size(), *out, base);
  if (error != std::errc()) return false;
  line.remove_prefix(AsIndex(end - line.data()));
  if (line.starts_with(' ')) line.remove_prefix(1);
  return true;
}

std::optional<std::string> BytesOf(std::string_view hex) {
  std::string out;
  for (; hex.size() >= 2; hex.remove_prefix(2)) {
    unsigned value = 0;
    const char* end = hex.data() + 2;
    if (std::from_chars(hex.data(), end, value, 16).ptr != end) {
      return std::nullopt;
    }
    out += static_cast<char>(value);
  }
  return hex.empty() ? std::optional(out) : std::nullopt;
}

std::optional<WrittenChunk> ChunkOf(std::string_view line) {
  WrittenChunk out;
  if (!TakeNumber(line, &out.offset) || !TakeNumber(line, &out.bytes) ||
      !TakeNumber(line, &out.crc, 16) || out.offset < 0 || out.bytes < 0) {
    return std::nullopt;
  }
  if (line.empty()) return out;
  auto held = BytesOf(line);
  if (!held || static_cast<int64_t>(held->size()) != out.bytes) {
    return std::nullopt;
  }
  out.is_held = true;
  out.held = std::move(*held);
  return out;
}

std::string LineOf(const WrittenChunk& chunk) {
  std::string out =
      std::to_string(chunk.offset) + " " + std::to_string(chunk.bytes) + " " +
      ChecksumText(chunk.crc).substr(std::string_view("crc32c:").size());
  if (chunk.is_held) {
    out += ' ';
    out += HexOf({reinterpret_cast<const unsigned char*>(chunk.held.data()),
                  chunk.held.size()});
  }
  return out + '\n';
}

}  // namespace

std::string ChunkJournalName(int64_t process, int64_t processes) {
  return std::string(kPrefix) + FiveDigits(process) + std::string(kOf) +
         FiveDigits(processes) + std::string(kSuffix);
}

std::optional<int64_t> ProcessesIn(std::string_view journal_name) {
  const size_t of = journal_name.find(kOf);
  if (of == std::string_view::npos) return std::nullopt;
  int64_t processes = 0;
  std::string_view rest = journal_name.substr(of + kOf.size());
  if (!TakeNumber(rest, &processes)) return std::nullopt;
  int64_t process = 0;
  std::string_view name = journal_name;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  if (!TakeNumber(name, &process) || process < 0 || process >= processes ||
      ChunkJournalName(process, processes) != journal_name) {
    return std::nullopt;
  }
  return processes;
}

ChunkJournal::ChunkJournal(ChunkJournal&& other) noexcept
    : path_(std::move(other.path_)),
      first_line_(std::move(other.first_line_)),
      fd_(std::exchange(other.fd_, -1)),
      buffered_(std::move(other.buffered_)),
      unflushed_bytes_(other.unflushed_bytes_),
      chunks_(std::move(other.chunks_)),
      done_(other.done_) {}

ChunkJournal::~ChunkJournal() {
  if (fd_ >= 0) ::close(fd_);
}

void ChunkJournal::Parse(std::string_view lines) {
  // An incomplete last line, without a line break, is ignored.
  for (size_t end = lines.find('\n'); end != std::string_view::npos;
       end = lines.find('\n')) {
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end + 1);
    done_ = line == "done";
    if (done_) return;
    auto chunk = ChunkOf(line);
    if (!chunk) return;
    chunks_.push_back(std::move(*chunk));
  }
}

std::optional<ChunkJournal> ChunkJournal::Open(const std::string& path,
                                               const JournalKey& key,
                                               Findings& findings) {
  ChunkJournal out;
  out.path_ = path;
  out.fd_ = OpenDescriptor(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW);
  if (out.fd_ < 0) {
    AddWriteError(path, errno, findings);
    return std::nullopt;
  }
  struct stat status = {};
  const bool locked = LockSoon(out.fd_);
  // A run that fails removes its journal. If it does so after this run has
  // opened the file, the file no longer has a name (its link count is 0).
  if (!locked || ::fstat(out.fd_, &status) != 0 || status.st_nlink == 0) {
    if (!locked && errno != EWOULDBLOCK) {
      AddWriteError(path, errno, findings);
    } else {
      findings.Add(code::kWrite, {MakeSource(path, {})},
                   "another run has locked `" + path + "`",
                   "wait for it, then run the command again");
    }
    return std::nullopt;
  }
  out.first_line_ = std::string(kSchema) + key.chunks + " " + key.state + "\n";
  const std::string text = ReadAll(out.fd_);
  if (!key.chunks.empty() && text.starts_with(out.first_line_)) {
    out.Parse(std::string_view(text).substr(out.first_line_.size()));
    return out;
  }
  // The key is written first, because other processes compare their keys with
  // it while the journal exists.
  if (::ftruncate(out.fd_, 0) == 0 && WriteAll(out.fd_, out.first_line_)) {
    return out;
  }
  AddWriteError(path, errno, findings);
  return std::nullopt;
}

std::optional<ChunkJournal> ChunkJournal::Read(const std::string& path,
                                               const JournalKey& key) {
  ChunkJournal out;
  out.path_ = path;
  out.fd_ = OpenDescriptor(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  if (out.fd_ < 0) return std::nullopt;
  const std::string text = ReadAll(out.fd_);
  const size_t end = text.find('\n');
  if (end == std::string::npos ||
      !text.starts_with(std::string(kSchema) + key.chunks + " ")) {
    return std::nullopt;
  }
  out.Parse(std::string_view(text).substr(end + 1));
  return out;
}

bool ChunkJournal::IsOfAnotherRun(const std::string& path,
                                  const JournalKey& key) {
  const int fd = OpenDescriptor(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) return false;
  const bool live = !LockFile(fd) && errno == EWOULDBLOCK;
  std::string text = live ? ReadAll(fd) : std::string();
  // If another process has just locked the journal, its first line may not
  // be written yet, so this process waits for the line.
  constexpr int kAttempts = 200;
  for (int i = 0; live && i < kAttempts && text.find('\n') == std::string::npos;
       ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    text = ReadAll(fd);
  }
  const bool other =
      live && !text.starts_with(std::string(kSchema) + key.chunks + " ");
  ::close(fd);
  return other;
}

bool ChunkJournal::Keep(size_t count) {
  done_ = false;
  std::vector<WrittenChunk> kept = std::move(chunks_);
  kept.resize(std::min(count, kept.size()));
  chunks_.clear();
  if (::ftruncate(fd_, static_cast<off_t>(first_line_.size())) != 0) {
    return false;
  }
  for (WrittenChunk& chunk : kept) {
    if (!Add(std::move(chunk))) return false;
  }
  return Flush();
}

bool ChunkJournal::Add(WrittenChunk chunk) {
  buffered_ += LineOf(chunk);
  unflushed_bytes_ += chunk.bytes;
  chunks_.push_back(std::move(chunk));
  return (buffered_.size() < kBufferedBytes &&
          unflushed_bytes_ < kUnflushedBytes) ||
         Flush();
}

bool ChunkJournal::Flush() {
  const bool written = WriteAll(fd_, buffered_);
  buffered_.clear();
  unflushed_bytes_ = 0;
  return written;
}

bool ChunkJournal::MarkDone() {
  done_ = true;
  buffered_ += "done\n";
  return Flush();
}

void ChunkJournal::Remove() { ::unlink(path_.c_str()); }

size_t CountIntact(const std::string& path,
                   std::span<const WrittenChunk> chunks) {
  // Receives errors of the file and is not reported. If the file cannot be
  // read, it has no intact chunks.
  Findings ignored;
  const auto file = InputFile::Open(path, ignored);
  std::string buffer;
  const auto checksum =
      [&](const WrittenChunk& chunk) -> std::optional<uint32_t> {
    if (chunk.is_held) return Crc32c(chunk.held);
    uint32_t crc = 0;
    for (int64_t at = 0; at < chunk.bytes; at += kReadBytes) {
      buffer.resize(AsIndex(std::min(kReadBytes, chunk.bytes - at)));
      if (!file->ReadAt(chunk.offset + at, buffer.data(), buffer.size(),
                        ignored)) {
        return std::nullopt;
      }
      crc = Crc32c(buffer, crc);
    }
    return crc;
  };
  size_t count = 0;
  while (file && count < chunks.size() &&
         checksum(chunks[count]) == chunks[count].crc) {
    ++count;
  }
  return count;
}

}  // namespace shardc::stored
