// Writes parts of tensors and computes their checksums. A part may be written
// in several runs, in any order. When the last run has been written, the part's
// checksum is combined from the checksums of the runs:
//
//   runs of bytes 8 to 15 and 0 to 7  ->  sorted by position; CRC(0 to 7) is
//   combined with CRC(8 to 15)
//
// If a part is written in more than kMostRuns runs, the records of the runs
// would need too much memory. Such a part is read back to compute its checksum.
#include "checkpoint/piece_writer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "source/file_sink.h"
#include "source/index.h"
#include "stored/checksum.h"

namespace shardc {
namespace {

// The largest number of runs that are recorded for one part.
constexpr size_t kMostRuns = size_t{1} << 15;
constexpr size_t kReadBack = size_t{1} << 20;

bool AllZero(const char* bytes, size_t count) {
  return count == 0 ||
         (bytes[0] == 0 && std::memcmp(bytes, bytes + 1, count - 1) == 0);
}

bool ReadAt(int fd, char* bytes, size_t count, int64_t at) {
  while (count > 0) {
    const ssize_t got = ::pread(fd, bytes, count, at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    at += got;
    count -= AsIndex(got);
  }
  return true;
}

}  // namespace

PieceWriter::PieceWriter(const Transfer& transfer,
                         const std::vector<CopyTarget>& files,
                         Checksums& checksums, const CopyOptions& options)
    : transfer_(transfer),
      files_(files),
      checksums_(checksums),
      options_(options),
      by_tensor_(transfer.tensors.size()) {
  for (size_t output = 0; output < transfer.outputs.size(); ++output) {
    if (files[output].fd < 0) continue;
    const auto& pieces = transfer.outputs[output].pieces;
    for (size_t piece = 0; piece < pieces.size(); ++piece) {
      if (checksums[output][piece]) continue;
      by_tensor_[pieces[piece].tensor].push_back(
          {pieces[piece].part, {output, piece}});
    }
  }
}

PartsInWork PieceWriter::Begin(size_t tensor) {
  const TransferTensor& copied = transfer_.tensors[tensor];
  PartsInWork parts;
  parts.targets_.resize(copied.parts.size());
  for (const auto& [part, target] : by_tensor_[tensor]) {
    parts.targets_[part].push_back(target);
  }
  parts.runs_.resize(copied.parts.size());
  parts.read_back_.resize(copied.parts.size());
  const std::lock_guard lock(mutex_);
  for (size_t part = 0; part < copied.parts.size(); ++part) {
    parts.bytes_.push_back(PartBytes(copied, copied.parts[part]));
    parts.left_.push_back(parts.bytes_[part]);
    // For an empty part, Finish fails only if the journal cannot be written.
    // This finding is dropped here, because the next part that is completed
    // fails for the same reason and reports it.
    Findings findings;
    if (parts.left_[part] == 0) Finish(parts, part, findings);
  }
  return parts;
}

bool PieceWriter::Put(const Target& target, int64_t at, const char* bytes,
                      size_t count, Findings& findings) const {
  const OutputFile& output = transfer_.outputs[target.output];
  const int64_t offset = output.pieces[target.piece].offset + at;
  if (WriteAt(files_[target.output].fd, {bytes, count}, offset)) return true;
  AddWriteError(transfer_.PathOf(output.name), errno, findings);
  return false;
}

bool PieceWriter::Write(PartsInWork& parts, size_t part, int64_t at,
                        const char* bytes, size_t count, Findings& findings) {
  const auto size = static_cast<int64_t>(count);
  const uint32_t crc = Crc32c({bytes, count});
  const bool zero = AllZero(bytes, count);
  for (const Target& target : parts.targets_[part]) {
    if (zero && files_[target.output].fresh) continue;
    if (!Put(target, at, bytes, count, findings)) return false;
  }
  const std::lock_guard lock(mutex_);
  auto& runs = parts.runs_[part];
  if (runs.size() < kMostRuns) {
    runs.push_back({at, size, crc});
  } else {
    parts.read_back_[part] = true;
  }
  parts.left_[part] -= size;
  if (options_.progress) {
    options_.progress(size * static_cast<int64_t>(parts.targets_[part].size()));
  }
  return parts.left_[part] > 0 || Finish(parts, part, findings);
}

bool PieceWriter::ReadBack(const PartsInWork& parts, size_t part, uint32_t* crc,
                           Findings& findings) const {
  const Target& target = parts.targets_[part].front();
  const OutputFile& output = transfer_.outputs[target.output];
  std::string buffer;
  int64_t left = parts.bytes_[part];
  for (int64_t at = output.pieces[target.piece].offset; left > 0;) {
    buffer.resize(std::min(AsIndex(left), kReadBack));
    if (!ReadAt(files_[target.output].fd, buffer.data(), buffer.size(), at)) {
      const std::string path = transfer_.PathOf(output.name);
      findings.Add(code::kWrite, Place{MakeSource(path, {})},
                   "cannot read back `" + path + "`: " + ::strerror(errno));
      return false;
    }
    *crc = Crc32c(buffer, *crc);
    at += static_cast<int64_t>(buffer.size());
    left -= static_cast<int64_t>(buffer.size());
  }
  return true;
}

bool PieceWriter::Finish(PartsInWork& parts, size_t part, Findings& findings) {
  if (!parts.Wanted(part)) return true;
  auto& runs = parts.runs_[part];
  uint32_t crc = 0;
  if (parts.read_back_[part]) {
    if (!ReadBack(parts, part, &crc, findings)) return false;
  } else {
    std::sort(runs.begin(), runs.end(),
              [](const auto& a, const auto& b) { return a.offset < b.offset; });
    for (const auto& run : runs) {
      crc = CombineCrc32c(crc, run.crc, static_cast<uint64_t>(run.bytes));
    }
  }
  runs = {};
  for (const Target& target : parts.targets_[part]) {
    checksums_[target.output][target.piece] = crc;
    if (!options_.piece_done ||
        options_.piece_done(target.output, target.piece, crc)) {
      continue;
    }
    findings.Add(code::kWrite, Place{MakeSource(transfer_.directory, {})},
                 "cannot write the journal in `" + transfer_.directory +
                     "`: " + ::strerror(errno));
    return false;
  }
  return true;
}

}  // namespace shardc
