// Records each piece that a run has written as a line of a file, the journal. A
// run after an interruption continues with the recorded pieces. Lines are
// written in groups, so an interruption loses only the last lines. The first
// line contains the key, which is a digest of everything that the transfer
// reads and writes. A journal with another key is ignored. After the key
// follows a digest of the times at which the sources changed. For example:
//
//   shardc-journal/v1 2c26b4... 9f86d0...
//   0 3 1f2e3d4c     piece 3 of output 0, with its CRC-32C in hexadecimal
//   done             one process of several has written all its pieces
#include "checkpoint/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <string_view>
#include <utility>

#include "source/digest.h"
#include "source/file.h"
#include "source/file_sink.h"
#include "source/size.h"
#include "stored/checksum.h"

namespace shardc {
namespace {

constexpr std::string_view kFirstWord = "shardc-journal/v1 ";
constexpr size_t kKeptBack = 4096;
constexpr size_t kFoldBytes = size_t{1} << 20;
// The number of bytes that one read call requests. It is small because most
// journals are short, and each call of ReadFrom clears a new buffer.
constexpr size_t kReadAtOnce = size_t{1} << 16;

// A digest of a sequence of numbers and texts. Long input is digested in steps,
// so that it need not be in memory as a whole.
class Hash {
 public:
  void Add(int64_t number) {
    text_.append(reinterpret_cast<const char*>(&number), sizeof(number));
    if (text_.size() >= kFoldBytes) Fold();
  }
  void Add(std::string_view text) {
    Add(static_cast<int64_t>(text.size()));
    text_ += text;
  }
  void Add(const Shape& shape) {
    Add(static_cast<int64_t>(shape.size()));
    for (const int64_t size : shape) Add(size);
  }
  void Add(const Box& box) {
    Add(box.offset);
    Add(box.shape);
  }
  std::string Take() {
    Fold();
    return text_;
  }

 private:
  void Fold() { text_ = Sha256(text_); }
  std::string text_;
};

std::string Digits(int64_t number) {
  const std::string text = std::to_string(number);
  return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
}

// Reads the next number of a line and removes it from the line. Returns false
// if the line does not continue with a number.
template <typename T>
bool Take(std::string_view& line, T* out, int base = 10) {
  if (line.starts_with(' ')) line.remove_prefix(1);
  const auto [end, error] =
      std::from_chars(line.data(), line.data() + line.size(), *out, base);
  if (error != std::errc()) return false;
  line.remove_prefix(AsIndex(end - line.data()));
  return true;
}

int OpenFile(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
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

Checksums Unknown(const Transfer& transfer) {
  Checksums out(transfer.outputs.size());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].resize(transfer.outputs[i].pieces.size());
  }
  return out;
}

std::string ReadFrom(int fd) {
  std::string text;
  std::string chunk(kReadAtOnce, '\0');
  for (;;) {
    const ssize_t got = ::pread(fd, chunk.data(), chunk.size(),
                                static_cast<off_t>(text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(chunk, 0, AsIndex(got));
  }
}

}  // namespace

std::string TransferKey(const Transfer& transfer) {
  Hash hash;
  for (const SourceFile& source : transfer.sources) {
    hash.Add(source.size);
    hash.Add(source.modified_ns);
    hash.Add(int64_t{source.header_crc});
  }
  for (const TransferTensor& tensor : transfer.tensors) {
    hash.Add(tensor.name);
    hash.Add(tensor.shape);
    hash.Add(static_cast<int64_t>(tensor.from));
    hash.Add(static_cast<int64_t>(tensor.to));
    for (const SourcePiece& piece : tensor.sources) {
      hash.Add(int64_t{piece.file});
      hash.Add(piece.offset);
      hash.Add(piece.box);
    }
    hash.Add(tensor.places);
    for (const Box& part : tensor.parts) hash.Add(part);
  }
  for (const OutputFile& output : transfer.outputs) {
    hash.Add(output.name);
    hash.Add(int64_t{Crc32c(output.header)});
    hash.Add(output.size);
    for (const OutputPiece& piece : output.pieces) {
      hash.Add(int64_t{piece.tensor});
      hash.Add(int64_t{piece.part});
      hash.Add(piece.offset);
    }
  }
  return hash.Take();
}

std::string SourceState(const Transfer& transfer) {
  Hash hash;
  for (const SourceFile& source : transfer.sources) hash.Add(source.changed_ns);
  return hash.Take();
}

std::string JournalName(const std::string& tag, int64_t index, int64_t count) {
  return "." + tag + "-" + Digits(index) + "-of-" + Digits(count) + ".journal";
}

Journal::Journal(Journal&& other) noexcept { *this = std::move(other); }

Journal& Journal::operator=(Journal&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(pending_, other.pending_);
  std::swap(recorded_, other.recorded_);
  std::swap(resumed_, other.resumed_);
  std::swap(done_, other.done_);
  return *this;
}

Journal::~Journal() {
  if (fd_ >= 0) ::close(fd_);
}

void Journal::Parse(const std::string& text, const std::string& first,
                    const Transfer& transfer) {
  recorded_ = Unknown(transfer);
  std::string_view rest(text);
  if (!rest.starts_with(first)) return;
  rest.remove_prefix(first.size());
  // The last line may be incomplete, so only lines that end with a line break
  // are read.
  for (size_t end = rest.find('\n'); end != std::string_view::npos;
       end = rest.find('\n')) {
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (line == "done") {
      done_ = true;
      continue;
    }
    size_t output = 0, piece = 0;
    uint32_t crc = 0;
    if (!Take(line, &output) || !Take(line, &piece) || !Take(line, &crc, 16) ||
        !line.empty() || output >= recorded_.size() ||
        piece >= recorded_[output].size()) {
      continue;
    }
    recorded_[output][piece] = crc;
    resumed_ = true;
  }
}

std::optional<Journal> Journal::Open(const std::string& path,
                                     const std::string& key,
                                     const Transfer& transfer,
                                     Findings& findings) {
  const auto refuse = [&](const std::string& why) {
    const std::string directory = PathNextTo(path, "");
    findings.Add(code::kWrite, Place{MakeSource(directory, {})},
                 "cannot write in `" + (directory.empty() ? "." : directory) +
                     "`: " + why);
    return std::nullopt;
  };
  Journal journal;
  journal.path_ = path;
  struct stat status = {};
  // Another run may end and remove its journal after this run has opened the
  // file. The lock of a removed file cannot exclude other runs, so a new file
  // is created.
  while (status.st_nlink == 0) {
    if (journal.fd_ >= 0) ::close(journal.fd_);
    journal.fd_ = OpenFile(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW);
    if (journal.fd_ < 0) return refuse(::strerror(errno));
    if (!Lock(journal.fd_)) {
      return refuse(errno == EWOULDBLOCK ? "another run is writing there"
                                         : ::strerror(errno));
    }
    if (::fstat(journal.fd_, &status) != 0) return refuse(::strerror(errno));
  }
  const std::string first =
      std::string(kFirstWord) + key + " " + SourceState(transfer) + "\n";
  journal.Parse(ReadFrom(journal.fd_), first, transfer);
  const auto refuse_new = [&](const std::string& why) {
    // A journal that records no piece is of no use to a later run.
    if (!journal.resumed()) ::unlink(path.c_str());
    return refuse(why);
  };
  // The journal is written again from its first line. Otherwise a new line
  // could be appended to an incomplete last line.
  journal.pending_ = first;
  if (::ftruncate(journal.fd_, 0) != 0) return refuse_new(::strerror(errno));
  for (size_t i = 0; i < journal.recorded_.size(); ++i) {
    for (size_t k = 0; k < journal.recorded_[i].size(); ++k) {
      const auto crc = journal.recorded_[i][k];
      if (crc && !journal.Add(i, k, *crc)) return refuse(::strerror(errno));
    }
  }
  if (!journal.Flush()) return refuse_new(::strerror(errno));
  return journal;
}

std::optional<Journal> Journal::Read(const std::string& path,
                                     const std::string& key,
                                     const Transfer& transfer) {
  Journal journal;
  journal.path_ = path;
  journal.fd_ = OpenFile(path, O_RDONLY | O_NONBLOCK);
  if (journal.fd_ < 0) return std::nullopt;
  const std::string text = ReadFrom(journal.fd_);
  if (!text.starts_with(std::string(kFirstWord) + key + " ")) {
    return std::nullopt;
  }
  journal.Parse(text, text.substr(0, text.find('\n') + 1), transfer);
  return journal;
}

bool Journal::Add(size_t output, size_t piece, uint32_t crc) {
  pending_ += std::to_string(output) + " " + std::to_string(piece) + " " +
              ChecksumText(crc).substr(std::string_view("crc32c:").size()) +
              "\n";
  return pending_.size() < kKeptBack || Flush();
}

bool Journal::Flush() {
  const bool written = WriteAll(fd_, pending_);
  pending_.clear();
  return written;
}

bool Journal::MarkDone() {
  pending_ += "done\n";
  return Flush();
}

void Journal::Remove() { ::unlink(path_.c_str()); }

}  // namespace shardc
