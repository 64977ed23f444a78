// Writes the files of a set under hidden names, header first, and renames them
// when the complete set is written. If the folder contains an earlier set, its
// index is first replaced by kResumeIndex, an index that marks an unfinished
// run. The set's own index is written last. A folder whose index is not
// kResumeIndex therefore contains one complete set. If there is no earlier set,
// the journal marks the unfinished run, because the journal exists until the
// index is written.
//
//   .device-00000.safetensors.part  ->  device-00000.safetensors
#include "checkpoint/output_set.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "source/file.h"
#include "source/file_sink.h"
#include "source/index.h"
#include "source/input_file.h"
#include "stored/checksum.h"

namespace shardc {
namespace {

constexpr int64_t kReadBytes = int64_t{1} << 20;

bool Exists(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0;
}

std::optional<uint32_t> ChecksumAt(const InputFile& file, int64_t offset,
                                   int64_t bytes, std::string& buffer) {
  Findings findings;
  uint32_t crc = 0;
  while (bytes > 0) {
    const auto count = AsIndex(std::min(bytes, kReadBytes));
    buffer.resize(count);
    if (!file.ReadAt(offset, buffer.data(), count, findings)) {
      return std::nullopt;
    }
    crc = Crc32c(buffer, crc);
    offset += static_cast<int64_t>(count);
    bytes -= static_cast<int64_t>(count);
  }
  return crc;
}

}  // namespace

bool IsFileOf(const std::string& path, const OutputFile& output) {
  // These findings are dropped. For a file that cannot be read, the result is
  // false.
  Findings findings;
  const auto file = InputFile::Open(path, findings);
  if (!file || file->size() != output.size) return false;
  const auto header = file->Head(output.header.size(), findings);
  return header && *header == output.header;
}

std::vector<std::optional<uint32_t>> CheckFile(
    const std::string& path, const OutputFile& output,
    const std::vector<std::optional<uint32_t>>& expected) {
  std::vector<std::optional<uint32_t>> good(expected.size());
  Findings findings;
  const auto file = InputFile::Open(path, findings);
  if (!file || !IsFileOf(path, output)) return good;
  std::string buffer;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i]) continue;
    const OutputPiece& piece = output.pieces[i];
    const auto crc = ChecksumAt(*file, piece.offset, piece.bytes, buffer);
    if (crc == expected[i]) good[i] = crc;
  }
  return good;
}

bool IsResumeIndex(const std::string& path) {
  // These findings are dropped. For a file that cannot be read, the result is
  // false.
  Findings findings;
  const auto file = InputFile::Open(path, findings);
  if (!file || file->size() != static_cast<int64_t>(kResumeIndex.size())) {
    return false;
  }
  return file->Head(kResumeIndex.size(), findings) == kResumeIndex;
}

std::string PartPath(const Transfer& transfer, const OutputFile& output) {
  return transfer.PathOf("." + output.name + ".part");
}

void OutputSet::TakeUp(const std::vector<bool>& own, const Journal& journal,
                       Checksums& checksums) {
  for (size_t i = 0; i < own.size(); ++i) {
    if (!own[i]) continue;
    const OutputFile& output = transfer_.outputs[i];
    const std::string part = PartPath(transfer_, output);
    const auto& recorded = journal.recorded()[i];
    if (Exists(part)) {
      if (journal.resumed()) checksums[i] = CheckFile(part, output, recorded);
      const bool any = std::any_of(checksums[i].begin(), checksums[i].end(),
                                   [](const auto& crc) { return !!crc; });
      states_[i].part = any || reuse_;
      if (!states_[i].part) ::unlink(part.c_str());
      continue;
    }
    const bool all = std::all_of(recorded.begin(), recorded.end(),
                                 [](const auto& crc) { return !!crc; });
    // There is no hidden file. If the journal records every piece of the
    // output, the interrupted run may already have given the file its final
    // name. Otherwise a file of that name belongs to an earlier set.
    if (!journal.resumed() || !all) continue;
    auto good = CheckFile(transfer_.PathOf(output.name), output, recorded);
    if (good != recorded) continue;
    checksums[i] = std::move(good);
    states_[i].complete = true;
  }
}

bool OutputSet::Refuse(const std::string& path, Findings& findings) const {
  AddWriteError(path, errno, findings);
  return false;
}

bool OutputSet::RetireIndex(Findings& findings) {
  if (transfer_.index_name.empty()) return true;
  const std::string index = transfer_.PathOf(transfer_.index_name);
  if (IsResumeIndex(index)) return true;
  FileSink file(index, FileSink::Links::kReplace);
  file.Append(kResumeIndex);
  return file.Commit(findings);
}

bool OutputSet::ReplacesFiles() const {
  bool any = false;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].part) continue;
    any = true;
    if (Exists(transfer_.PathOf(transfer_.outputs[i].name))) return true;
  }
  return any && Exists(transfer_.PathOf(transfer_.index_name));
}

bool OutputSet::Open(size_t output, CopyTarget* target, Findings& findings) {
  const OutputFile& file = transfer_.outputs[output];
  const std::string part = PartPath(transfer_, file);
  const std::string final_path = transfer_.PathOf(file.name);
  struct stat status = {};
  if (!states_[output].part && reuse_ &&
      ::lstat(final_path.c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
    if (!RetireIndex(findings)) return false;
    if (::rename(final_path.c_str(), part.c_str()) != 0) {
      return Refuse(part, findings);
    }
    states_[output].part = true;
  }
  target->fresh = !states_[output].part;
  const int flags = target->fresh ? O_CREAT | O_EXCL : 0;
  do {
    target->fd =
        ::open(part.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0666);
  } while (target->fd < 0 && errno == EINTR);
  if (target->fd < 0) return Refuse(part, findings);
  states_[output].part = true;
  // The new file keeps the permissions of the file that it replaces.
  if (::stat(final_path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
      ::fchmod(target->fd, status.st_mode & 07777) != 0) {
    return Refuse(final_path, findings);
  }
  if (::ftruncate(target->fd, file.size) != 0 ||
      !WriteAt(target->fd, file.header, 0)) {
    return Refuse(final_path, findings);
  }
  return true;
}

bool OutputSet::Close(size_t output, CopyTarget* target, bool sync,
                      Findings& findings) {
  if (target->fd < 0) return true;
  const int fd = std::exchange(target->fd, -1);
  const bool synced = !sync || ::fsync(fd) == 0;
  const int error = errno;
  const bool closed = ::close(fd) == 0 || errno == EINTR;
  if (synced && closed) return true;
  if (!synced) errno = error;
  return Refuse(transfer_.PathOf(transfer_.outputs[output].name), findings);
}

bool OutputSet::Publish(Findings& findings) {
  if (ReplacesFiles() && !RetireIndex(findings)) return false;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].part) continue;
    const std::string path = transfer_.PathOf(transfer_.outputs[i].name);
    const bool created = !Exists(path);
    if (::rename(PartPath(transfer_, transfer_.outputs[i]).c_str(),
                 path.c_str()) != 0) {
      return Refuse(path, findings);
    }
    states_[i] = {.part = false, .complete = true, .created = created};
  }
  SyncDirectory(transfer_.directory);
  return true;
}

bool OutputSet::Discard() {
  const bool marked = !transfer_.index_name.empty() &&
                      IsResumeIndex(transfer_.PathOf(transfer_.index_name));
  bool removed = true;
  for (size_t i = 0; i < states_.size(); ++i) {
    const OutputFile& output = transfer_.outputs[i];
    if (states_[i].part) ::unlink(PartPath(transfer_, output).c_str());
    if (states_[i].created && !marked) {
      removed &= ::unlink(transfer_.PathOf(output.name).c_str()) == 0;
    }
    states_[i].part = false;
  }
  return removed;
}

}  // namespace shardc
