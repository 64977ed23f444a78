// Reads a file or standard input completely, up to a limit, and inflates gzip.
// Files are opened by InputFile, so that a FIFO without a writer cannot hang
// the program and a device such as /dev/zero cannot fill the memory.
#include "source/file.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "source/encoding.h"
#include "source/input_file.h"
#include "source/process.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc {
namespace {

constexpr size_t kChunk = size_t{1} << 20;

enum class Outcome { kOk, kLimit, kBroken };

// Reads `fd` to its end into `out`, and sets `used` to the number of bytes.
// Returns kLimit as soon as more than `limit` bytes have been read.
Outcome ReadAll(int fd, int64_t expected, int64_t limit, RawText& out,
                size_t& used, int* error) {
  out.Resize(static_cast<size_t>(std::min(expected, limit)) + 1, 0);
  for (;;) {
    if (used == out.size()) {
      if (used > static_cast<size_t>(limit)) return Outcome::kLimit;
      out.Resize(std::max(used + kChunk, used + used / 2), used);
    }
    const ssize_t got = ::read(fd, out.data() + used, out.size() - used);
    if (got > 0) {
      used += static_cast<size_t>(got);
      if (used > static_cast<size_t>(limit)) return Outcome::kLimit;
    } else if (got == 0) {
      break;
    } else if (errno == EAGAIN) {
      struct pollfd wait = {fd, POLLIN, 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      *error = errno;
      return Outcome::kBroken;
    }
  }
  return Outcome::kOk;
}

// Returns the limit on the text to which `gzip_bytes` bytes of gzip may
// inflate. gzip shrinks a manifest or a program of this size by a factor of 10
// to 40, and a text of spaces by a factor of 1,000.
int64_t InflatedLimit(size_t gzip_bytes, int64_t limit) {
  constexpr int64_t kFreeBytes = int64_t{32} << 20;
  constexpr int64_t kMostRatio = 64;
  const Size most =
      Size(static_cast<int64_t>(gzip_bytes)) * kMostRatio + kFreeBytes;
  return std::min(limit, most.value());
}

Outcome InflateInto(std::string_view gzip, int64_t limit, std::string& out,
                    std::string* why) {
  z_stream stream = {};
  // Adding 16 makes zlib accept only gzip, and verify its checksum.
  if (::inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  const auto finish = [&](Outcome outcome, std::string text) {
    ::inflateEnd(&stream);
    *why = std::move(text);
    return outcome;
  };
  limit = InflatedLimit(gzip.size(), limit);
  std::string chunk(kChunk / 4, '\0');
  size_t fed = 0;
  int status = Z_OK;
  for (;;) {
    if (stream.avail_in == 0 && fed < gzip.size()) {
      const size_t count = std::min(gzip.size() - fed, kChunk);
      stream.next_in =
          reinterpret_cast<Bytef*>(const_cast<char*>(gzip.data() + fed));
      stream.avail_in = static_cast<uInt>(count);
      fed += count;
    }
    if (status == Z_STREAM_END) {
      const size_t rest = gzip.size() - fed + stream.avail_in;
      const std::string_view tail = gzip.substr(gzip.size() - rest);
      // Ignore zeros after the last member, as gzip does: tapes and block
      // devices pad files with zeros.
      if (tail.find_first_not_of('\0') == std::string_view::npos) {
        return finish(Outcome::kOk, {});
      }
      if (!IsGzip(tail)) {
        return finish(Outcome::kBroken,
                      "there are " +
                          Counted(static_cast<int64_t>(rest), "byte") +
                          " of something else after its end");
      }
      ::inflateReset(&stream);
    }
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = static_cast<uInt>(chunk.size());
    status = ::inflate(&stream, Z_NO_FLUSH);
    const size_t got = chunk.size() - stream.avail_out;
    if (out.size() + got > static_cast<size_t>(limit)) {
      return finish(Outcome::kLimit,
                    "it inflates to more than " + BytesText(limit));
    }
    out.append(chunk, 0, got);
    if (status == Z_OK || status == Z_STREAM_END) continue;
    if (status == Z_BUF_ERROR && got > 0) continue;
    if (status == Z_MEM_ERROR) {
      ::inflateEnd(&stream);
      throw std::bad_alloc();
    }
    if (status == Z_BUF_ERROR) {
      return finish(Outcome::kBroken,
                    "it is cut off after " +
                        Counted(static_cast<int64_t>(gzip.size()), "byte"));
    }
    return finish(Outcome::kBroken,
                  stream.msg != nullptr ? stream.msg : "its data is damaged");
  }
}

// Returns the time of the last modification. On macOS the members of `stat`
// have other names than in POSIX.
template <class Status>
timespec Modified(const Status& status) {
  if constexpr (requires { status.st_mtim; }) {
    return status.st_mtim;
  } else {
    return status.st_mtimespec;
  }
}
template <class Status>
timespec Changed(const Status& status) {
  if constexpr (requires { status.st_ctim; }) {
    return status.st_ctim;
  } else {
    return status.st_ctimespec;
  }
}

int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Reads `fd` to its end, and inflates gzip. `expected` is the size of the file,
// or 0 if it is unknown. On failure, adds an error about `path` to `findings`
// and returns null.
SourceRef ReadOpen(const std::string& path, int fd, int64_t expected,
                   Findings& findings, int64_t limit_bytes) {
  const Place place{MakeSource(path, {})};
  RawText text;
  size_t size = 0;
  int error = 0;
  Outcome outcome = Outcome::kLimit;
  if (expected <= limit_bytes) {
    outcome = ReadAll(fd, expected, limit_bytes, text, size, &error);
  }
  if (outcome == Outcome::kBroken) {
    findings.Add(code::kUnreadable, place,
                 "cannot read " + Quote(path) + ": " + ::strerror(error));
    return nullptr;
  }
  if (outcome == Outcome::kLimit) {
    findings.Add(code::kLimit, place,
                 Quote(path) + " holds more than " + BytesText(limit_bytes));
    return nullptr;
  }
  if (IsGzip(text.First(size))) {
    std::string inflated;
    std::string why;
    outcome = InflateInto(text.First(size), limit_bytes, inflated, &why);
    if (outcome != Outcome::kOk) {
      findings.Add(
          outcome == Outcome::kLimit ? code::kLimit : code::kUnreadable, place,
          "cannot inflate " + Quote(path) + ": " + why,
          outcome == Outcome::kLimit && path != "-"
              ? "decompress it first, with `gzip -d`"
              : "");
      return nullptr;
    }
    if (std::ssize(inflated) >= kLargeInputBytes) PreferLargePages();
    return MakeSource(path, std::move(inflated));
  }
  return MakeSource(path, std::move(text), size);
}

}  // namespace

bool IsGzip(std::string_view bytes) {
  return bytes.size() >= 3 && bytes.starts_with("\x1f\x8b\x08");
}

std::optional<std::string> Inflate(std::string_view gzip, int64_t limit_bytes,
                                   std::string* why) {
  std::string out;
  std::string reason;
  const Outcome outcome = InflateInto(gzip, limit_bytes, out, &reason);
  if (outcome == Outcome::kOk) return out;
  if (why != nullptr) *why = std::move(reason);
  return std::nullopt;
}

SourceRef ReadSource(const std::string& path, Findings& findings,
                     int64_t limit_bytes) {
  if (path != "-") {
    const auto file = InputFile::Open(path, findings);
    if (!file) return nullptr;
    return ReadOpen(path, file->fd(), file->size(), findings, limit_bytes);
  }
  struct stat status = {};
  const bool known = ::fstat(STDIN_FILENO, &status) == 0;
  if (known) findings.NoteRead(FileIdOf(status));
  // A command may read one input twice, for example a config.json first for the
  // parameters and then for the attention. Standard input can be read only
  // once, so the process keeps its text.
  static std::mutex mutex;
  static FileId kept_of;
  static SourceRef kept;
  const std::lock_guard lock(mutex);
  if (kept == nullptr || !known || kept_of != FileIdOf(status)) {
    kept = ReadOpen(path, STDIN_FILENO, 0, findings, limit_bytes);
    kept_of = FileIdOf(status);
  }
  return kept;
}

std::string PathNextTo(const std::string& file, const std::string& relative) {
  if (relative.starts_with('/')) return relative;
  const size_t slash = file.rfind('/');
  if (slash == std::string::npos) return relative;
  return file.substr(0, slash + 1) + relative;
}

FileId FileIdOf(const struct stat& status) {
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
}

int64_t ModifiedNs(const struct stat& status) {
  return Nanoseconds(Modified(status));
}

int64_t ChangedNs(const struct stat& status) {
  return Nanoseconds(Changed(status));
}

FileId FileIdOf(const std::string& path) {
  struct stat status = {};
  if (path == "-" || ::stat(path.c_str(), &status) != 0) return path;
  return FileIdOf(status);
}

SourceRef ReadSource(const std::string& path, const FileTexts* texts,
                     Findings& findings) {
  if (texts != nullptr && !texts->empty()) {
    const FileId file = FileIdOf(path);
    const auto text = texts->find(file);
    if (text != texts->end()) {
      findings.NoteRead(file);
      return MakeSource(path, text->second);
    }
  }
  return ReadSource(path, findings);
}

bool IsThere(const std::string& path, const FileTexts* texts) {
  struct stat status;
  if (::stat(path.c_str(), &status) == 0) return true;
  return texts != nullptr && texts->contains(FileIdOf(path));
}

// Recognises merge conflicts and binary files in texts that a parser rejects.
// The parser reports a merge conflict where a key or value is missing, and a
// binary file at its first byte that is not UTF-8. Neither place shows the
// cause, nor does the first byte of UTF-16. ReportOtherText reports the cause
// instead:
//
//   version: 1
//   <<<<<<< HEAD        <- this line is reported
//   rules: []           <- the parser stops here
//   =======

namespace {

struct Format {
  std::string_view head;  // the first bytes of the file
  std::string_view message;
  std::string_view help;
};

constexpr std::string_view kConvert =
    "tensors are read from safetensors, GGUF and the checkpoints of orbax, "
    "zarr and PyTorch DCP: convert the file, or list the tensors as JSON";
constexpr std::string_view kDownload = "download the file itself again";

constexpr std::array<Format, 13> kFormats = {{
    {"version https://git-lfs", "this is a Git LFS pointer, not the file",
     "run `git lfs pull` to fetch the file"},
    {"<!DOCTYPE", "this is a web page", kDownload},
    {"<!doctype", "this is a web page", kDownload},
    {"<html", "this is a web page", kDownload},
    {"<?xml", "this is XML", kDownload},
    {"PK\x03\x04",
     "this is a zip archive, such as a file of torch.save or numpy.savez",
     kConvert},
    {"\x93NUMPY", "this is an array of numpy", kConvert},
    {"\x89HDF\r\n\x1a\n", "this is an HDF5 file", kConvert},
    {"\x80\x02", "this is a pickle, such as a PyTorch checkpoint", kConvert},
    {"\x80\x03", "this is a pickle, such as a PyTorch checkpoint", kConvert},
    {"\x80\x04", "this is a pickle, such as a PyTorch checkpoint", kConvert},
    {"\x80\x05", "this is a pickle, such as a PyTorch checkpoint", kConvert},
    {"\x89PNG", "this is a picture", kDownload},
}};

// Returns whether the first bytes are no text: not UTF-8, with control
// characters among them.
bool IsBinary(std::string_view text) {
  constexpr size_t kPeeked = 512;
  const std::string_view head = text.substr(0, kPeeked);
  const bool controls = std::any_of(head.begin(), head.end(), [](char c) {
    return (c >= 0 && c < ' ' && c != '\t' && c != '\n' && c != '\r');
  });
  size_t bad = 0;
  return controls && !IsUtf8(text, &bad) && bad < kPeeked;
}

// Returns the offset of the first line that begins with `marker`, from `from`
// on, or npos.
size_t FindLine(std::string_view text, std::string_view marker, size_t from) {
  for (size_t at = text.find(marker, from); at != std::string_view::npos;
       at = text.find(marker, at + 1)) {
    if (at == 0 || text[at - 1] == '\n') return at;
  }
  return std::string_view::npos;
}

}  // namespace

bool ReportOtherText(const SourceRef& source, Findings& findings,
                     const Code& code) {
  const std::string_view text = source->text();
  for (const Format& format : kFormats) {
    if (!text.starts_with(format.head)) continue;
    findings.Add(code, {source, 0, format.head.size()},
                 std::string(format.message), std::string(format.help));
    return true;
  }
  if (LooksLikeUtf16(text)) {
    findings.Add(code::kEncoding, {source, 0, 1}, std::string(kUtf16Message),
                 std::string(kUtf8Help));
    return true;
  }
  if (IsBinary(text)) {
    findings.Add(code, {source, 0, 0},
                 "this is a binary file of no kind that is read",
                 std::string(kConvert));
    return true;
  }
  const size_t begin = FindLine(text, "<<<<<<< ", 0);
  if (begin == std::string_view::npos ||
      FindLine(text, ">>>>>>> ", begin) == std::string_view::npos) {
    return false;
  }
  const size_t end = std::min(text.find('\n', begin), text.size());
  findings.Add(code, {source, begin, end},
               "a merge conflict of Git is not resolved here",
               "keep one of the two versions, and remove the lines that begin "
               "with `<<<<<<<`, `=======` and `>>>>>>>`");
  return true;
}

std::optional<std::vector<std::string>> NamesIn(const std::string& directory,
                                                std::error_code& error) {
  std::vector<std::string> names;
  std::filesystem::directory_iterator at;
  do {  // retry: EINTR is possible on network file systems
    at = std::filesystem::directory_iterator(directory, error);
  } while (error == std::errc::interrupted);
  const std::filesystem::directory_iterator end;
  for (; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  if (error) return std::nullopt;
  std::sort(names.begin(), names.end());
  return names;
}

std::string PathIn(std::string_view directory, std::string_view name) {
  std::string out(directory);
  if (!out.empty() && !out.ends_with('/')) out += '/';
  return out.append(name);
}

}  // namespace shardc
