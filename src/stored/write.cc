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
#include "source/wording.h"
#include "stored/checksum.h"

namespace shardc::stored {
std::string FiveDigits(int64_t number) {
  const std::string text = std::to_string(number);
  return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

bool Descriptor::Open(const std::string& path, int flags) {
  Descriptor opened;
  do {
    opened.fd_ = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  } while (opened.fd_ < 0 && errno == EINTR);
  std::swap(fd_, opened.fd_);
  return fd_ >= 0;
}

bool LockFile(int fd, std::chrono::milliseconds longest) {
  constexpr std::chrono::milliseconds kPause(5);
  const auto end = std::chrono::steady_clock::now() + longest;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK || std::chrono::steady_clock::now() >= end) {
      return false;
    }
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

bool CloseFile(int fd, bool sync) {
  const bool synced = !sync || ::fsync(fd) == 0;
  const int error = errno;
  const bool closed = ::close(fd) == 0 || errno == EINTR;
  if (!synced) errno = error;
  return synced && closed;
}

std::optional<uint32_t> ChecksumAt(const InputFile& file, int64_t offset,
                                   int64_t bytes) {
  constexpr int64_t kReadBytes = int64_t{1} << 20;
  Findings ignored;  // the result is nullopt after a finding
  std::string buffer;
  uint32_t crc = 0;
  for (const int64_t end = offset + bytes; offset < end;) {
    buffer.resize(AsIndex(std::min(kReadBytes, end - offset)));
    if (!file.ReadAt(offset, buffer.data(), buffer.size(), ignored)) {
      return std::nullopt;
    }
    crc = Crc32c(buffer, crc);
    offset += static_cast<int64_t>(buffer.size());
  }
  return crc;
}

namespace {

namespace fs = std::filesystem;

// Adds the finding `write` with the error in errno, and returns false.
bool Refuse(const std::string& path, Findings& findings) {
  AddWriteError(path, errno, findings);
  return false;
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
  if (!out.fd_.Open(temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)) {
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
  const bool locked = ::flock(fd_.get(), mode | LOCK_NB) == 0;
  if (!locked && errno != EWOULDBLOCK) return Refuse(temporary_, findings);
  // Between opening and locking, another run may have renamed the folder to its
  // final name. The temporary name then belongs to another folder or to none.
  struct stat opened = {};
  struct stat named = {};
  if (locked && ::fstat(fd_.get(), &opened) == 0 &&
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
      fd_(std::move(other.fd_)) {}

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
  (void)::fsync(fd_.get());  // some file systems cannot sync a folder
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
  if (out.fd_.Open(out.path_, O_WRONLY | O_CREAT | O_NOFOLLOW | flags)) {
    return out;
  }
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
  const bool known = ::fstat(out->fd_.get(), &there) == 0;
  if (known && there.st_size < bytes) {
    findings.Add(code::kWrite, {MakeSource(out->path_, {})},
                 "`" + out->path_ + "` has lost bytes that were written to it",
                 "run the command again");
    return std::nullopt;
  }
  if (known && ::ftruncate(out->fd_.get(), bytes) == 0) return out;
  Refuse(out->path_, findings);
  return std::nullopt;
}

bool NewFile::Append(std::string_view bytes, Findings& findings) {
  if (!WriteAll(fd_.get(), bytes)) return Refuse(path_, findings);
  size_ += static_cast<int64_t>(bytes.size());
  return true;
}

bool NewFile::Close(Findings& findings) {
  if (!CloseFile(fd_.Release(), true)) return Refuse(path_, findings);
  SyncDirectoryOf(path_);
  return true;
}

namespace {

// Writes and reads journals. Each line has two numbers and a checksum. The
// first line contains two digests, the key of the run and the state of its
// sources. For example, this is a journal of the chunks that one process has
// written. Chunks are written in a fixed order, so the journal needs no chunk
// numbers. A small chunk is stored in the checkpoint's index instead of the
// data file. Its line contains the bytes as hexadecimal digits:
//
//   shardc-chunks/v1 2c26b4... 9f86d0...
//   0 4096 1f2e3d4c       4,096 bytes at offset 0 of the data file, their CRC
//   4096 8 0badcafe 0000803f00004040     8 bytes, which the line contains
//   done
//
// A run that is killed may leave an incomplete last line, or lines whose pieces
// did not reach the disk. An incomplete line is recognised by the missing line
// break, and a lost piece by its checksum.

constexpr int64_t kMostProcesses = 1'000'000;
constexpr size_t kMostListed = 20;
// Lines are written in groups, because most pieces are small. A group is
// written when the lines have kBufferedBytes bytes. A group of chunks is also
// written when the chunks have kUnflushedBytes bytes.
constexpr size_t kBufferedBytes = 4096;
constexpr int64_t kUnflushedBytes = int64_t{8} << 20;

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

}  // namespace

std::string JournalName(std::string_view tag, int64_t index, int64_t count) {
  return "." + std::string(tag) + "-" + FiveDigits(index) + "-of-" +
         FiveDigits(count) + ".journal";
}

std::optional<JournalParts> ParseJournalName(const std::string& name) {
  constexpr std::string_view kOf = "-of-";
  const size_t of = name.rfind(kOf);
  if (of == std::string::npos || of == 0) return std::nullopt;
  const size_t dash = name.rfind('-', of - 1);
  if (dash == std::string::npos || dash == 0) return std::nullopt;
  std::string_view index = std::string_view(name).substr(dash + 1);
  std::string_view count = std::string_view(name).substr(of + kOf.size());
  JournalParts out{name, name.substr(1, dash - 1)};
  if (!TakeNumber(index, &out.index) || !TakeNumber(count, &out.count) ||
      out.index >= out.count ||
      JournalName(out.tag, out.index, out.count) != name) {
    return std::nullopt;
  }
  return out;
}

std::vector<JournalParts> JournalsIn(const std::string& folder,
                                     std::string_view tag) {
  std::vector<JournalParts> out;
  std::error_code ignored;
  const auto names = NamesIn(folder, ignored);
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    auto journal = ParseJournalName(name);
    if (journal && (tag.empty() || journal->tag == tag)) {
      out.push_back(std::move(*journal));
    }
  }
  return out;
}

void RemoveJournals(const std::string& folder, std::string_view tag,
                    int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    ::unlink(PathIn(folder, JournalName(tag, i, count)).c_str());
  }
}

int64_t CountProcesses(const std::string& folder, std::string_view tag) {
  const auto journals = JournalsIn(folder, tag);
  return journals.empty() ? 1
                          : std::min(journals.front().count, kMostProcesses);
}

void AddUnfinished(const std::string& folder,
                   const std::vector<int64_t>& unfinished, int64_t processes,
                   std::string help, Findings& findings) {
  std::string list = Join(First(unfinished, kMostListed), ", ");
  if (unfinished.size() > kMostListed) list += ", ...";
  findings.Add(code::kMissing, {MakeSource(folder, {})},
               "the parts of " +
                   Counted(static_cast<int64_t>(unfinished.size()), "process",
                           "processes") +
                   " of " + std::to_string(processes) +
                   " are not complete: " + list,
               std::move(help));
}

bool JournalFile::OpenToWrite(const std::string& path, const std::string& start,
                              const std::string& state) {
  path_ = path;
  first_line_ = start + state + "\n";
  // Another run may end and remove its journal after this run has opened the
  // file. The lock of a removed file, which has no name (its link count is 0),
  // cannot exclude other runs, so a new file is created. IsOfAnotherRun in
  // another process may hold the lock for a moment.
  struct stat status = {};
  while (status.st_nlink == 0) {
    if (!fd_.Open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW) ||
        !LockFile(fd_.get(), std::chrono::milliseconds(100)) ||
        ::fstat(fd_.get(), &status) != 0) {
      return false;
    }
  }
  text_ = ReadAll(fd_.get());
  next_ = first_line_.size();
  if (text_.starts_with(first_line_)) return true;
  text_.clear();
  // The key is written first, because other processes compare their keys with
  // it while the journal exists.
  if (::ftruncate(fd_.get(), 0) == 0 && WriteAll(fd_.get(), first_line_)) {
    return true;
  }
  // No later run could continue this journal.
  const int error = errno;
  Remove();
  errno = error;
  return false;
}

bool JournalFile::OpenToRead(const std::string& path, std::string_view start) {
  if (!fd_.Open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW)) return false;
  text_ = ReadAll(fd_.get());
  const size_t end = text_.find('\n');
  next_ = end == std::string::npos ? text_.size() : end + 1;
  return text_.starts_with(start);
}

bool JournalFile::IsOfAnotherRun(const std::string& path,
                                 std::string_view start) {
  // Some network file systems lock only files that are open for writing.
  constexpr int kFlags = O_NONBLOCK | O_NOFOLLOW;
  Descriptor file;
  if ((!file.Open(path, O_RDWR | kFlags) &&
       !file.Open(path, O_RDONLY | kFlags)) ||
      LockFile(file.get(), {}) || errno != EWOULDBLOCK) {
    return false;
  }
  std::string text = ReadAll(file.get());
  // If another process has just locked the journal, its first line may not
  // be written yet, so this process waits for the line.
  constexpr int kAttempts = 200;
  for (int i = 0; i < kAttempts && text.find('\n') == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    text = ReadAll(file.get());
  }
  return !text.starts_with(start);
}

std::optional<JournalFile::Line> JournalFile::Next() {
  const size_t end = text_.find('\n', next_);
  if (end == std::string::npos || done_) return std::nullopt;
  std::string_view line(text_.data() + next_, end - next_);
  next_ = end + 1;
  done_ = line == "done";
  Line out;
  if (!TakeNumber(line, &out.first) || !TakeNumber(line, &out.second) ||
      !TakeNumber(line, &out.crc, 16) || out.first < 0 || out.second < 0) {
    return std::nullopt;
  }
  if (line.empty()) return out;
  out.held = BytesOf(line);
  return out.held ? std::optional(std::move(out)) : std::nullopt;
}

bool JournalFile::Clear() {
  text_ = std::string();
  done_ = false;
  return ::ftruncate(fd_.get(), static_cast<off_t>(first_line_.size())) == 0;
}

bool JournalFile::Append(const Line& line) {
  buffered_ +=
      std::to_string(line.first) + " " + std::to_string(line.second) + " " +
      ChecksumText(line.crc).substr(std::string_view("crc32c:").size());
  if (line.held) {
    buffered_ += ' ';
    buffered_ +=
        HexOf({reinterpret_cast<const unsigned char*>(line.held->data()),
               line.held->size()});
  }
  buffered_ += '\n';
  return buffered_.size() < kBufferedBytes || Flush();
}

bool JournalFile::Flush() {
  const bool written = WriteAll(fd_.get(), buffered_);
  buffered_.clear();
  return written;
}

bool JournalFile::MarkDone() {
  done_ = true;
  buffered_ += "done\n";
  return Flush();
}

void JournalFile::Remove() const { ::unlink(path_.c_str()); }

std::string JournalKey::Start() const {
  return "shardc-chunks/v1 " + chunks + " ";
}

void ChunkJournal::Parse() {
  while (auto line = Next()) {
    if (line->held &&
        static_cast<int64_t>(line->held->size()) != line->second) {
      return;
    }
    chunks_.push_back(
        {0, line->first, line->second, line->crc, std::move(line->held)});
  }
}

std::optional<ChunkJournal> ChunkJournal::Open(const std::string& path,
                                               const JournalKey& key,
                                               Findings& findings) {
  ChunkJournal out;
  if (out.OpenToWrite(path, key.Start(), key.state)) {
    if (!key.chunks.empty()) out.Parse();
    return out;
  }
  if (errno != EWOULDBLOCK) {
    AddWriteError(path, errno, findings);
  } else {
    findings.Add(code::kWrite, {MakeSource(path, {})},
                 "another run has locked `" + path + "`",
                 "wait for it, then run the command again");
  }
  return std::nullopt;
}

std::optional<ChunkJournal> ChunkJournal::Read(const std::string& path,
                                               const JournalKey& key) {
  ChunkJournal out;
  if (!out.OpenToRead(path, key.Start())) return std::nullopt;
  out.Parse();
  return out;
}

bool ChunkJournal::Keep(size_t count) {
  std::vector<WrittenChunk> kept = std::move(chunks_);
  kept.resize(std::min(count, kept.size()));
  chunks_.clear();
  if (!Clear()) return false;
  for (WrittenChunk& chunk : kept) {
    if (!Add(std::move(chunk))) return false;
  }
  return Flush();
}

bool ChunkJournal::Add(WrittenChunk chunk) {
  unflushed_bytes_ += chunk.bytes;
  const bool added = Append({chunk.offset, chunk.bytes, chunk.crc, chunk.held});
  chunks_.push_back(std::move(chunk));
  if (!added || unflushed_bytes_ < kUnflushedBytes) return added;
  unflushed_bytes_ = 0;
  return Flush();
}

size_t CountIntact(const std::string& path,
                   std::span<const WrittenChunk> chunks) {
  // Receives errors of the file and is not reported. If the file cannot be
  // read, it has no intact chunks.
  Findings ignored;
  const auto file = InputFile::Open(path, ignored);
  const auto checksum = [&](const WrittenChunk& chunk) {
    return chunk.held ? Crc32c(*chunk.held)
                      : ChecksumAt(*file, chunk.offset, chunk.bytes);
  };
  size_t count = 0;
  while (file && count < chunks.size() &&
         checksum(chunks[count]) == chunks[count].crc) {
    ++count;
  }
  return count;
}

}  // namespace shardc::stored
