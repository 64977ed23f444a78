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
#include "stored/chunk_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>
#include <utility>

#include "source/digest.h"
#include "source/file_sink.h"
#include "source/input_file.h"
#include "source/size.h"
#include "stored/checksum.h"

namespace shardc::stored {
namespace {

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

std::string Digits(int64_t number) {
  const std::string text = std::to_string(number);
  return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
}

int OpenFile(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0666);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

bool Lock(int fd) {
  int status = 0;
  do {
    status = ::flock(fd, LOCK_EX | LOCK_NB);
  } while (status != 0 && errno == EINTR);
  return status == 0;
}

// Locks the file. Tries several times, because IsOfAnotherRun in another
// process may hold the lock for a moment to test whether it is free.
bool LockSoon(int fd) {
  constexpr int kAttempts = 20;
  constexpr auto kPause = std::chrono::milliseconds(5);
  for (int i = 0; !Lock(fd); ++i) {
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
bool Take(std::string_view& line, T* out, int base = 10) {
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
  if (!Take(line, &out.offset) || !Take(line, &out.bytes) ||
      !Take(line, &out.crc, 16) || out.offset < 0 || out.bytes < 0) {
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
  return std::string(kPrefix) + Digits(process) + std::string(kOf) +
         Digits(processes) + std::string(kSuffix);
}

std::optional<int64_t> ProcessesIn(std::string_view journal_name) {
  const size_t of = journal_name.find(kOf);
  if (of == std::string_view::npos) return std::nullopt;
  int64_t processes = 0;
  std::string_view rest = journal_name.substr(of + kOf.size());
  if (!Take(rest, &processes)) return std::nullopt;
  int64_t process = 0;
  std::string_view name = journal_name;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  if (!Take(name, &process) || process < 0 || process >= processes ||
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
  out.fd_ = OpenFile(path, O_RDWR | O_CREAT | O_APPEND);
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
  out.fd_ = OpenFile(path, O_RDONLY | O_NONBLOCK);
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
  const int fd = OpenFile(path, O_RDONLY | O_NONBLOCK);
  if (fd < 0) return false;
  const bool live = !Lock(fd) && errno == EWOULDBLOCK;
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
