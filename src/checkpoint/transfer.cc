// Computes the bytes that a run will read and write. A part that several files
// contain is written to each of these files, but read only once.
//
//   w of 32 bytes, replicated on 2 devices  ->  32 read, 64 written and headers
#include "checkpoint/transfer.h"

#include <errno.h>
#include <string.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/copy.h"
#include "model/mesh_layout.h"
#include "source/digest.h"
#include "source/file.h"
#include "source/size.h"
#include "stored/checksum.h"

namespace shardc {

int64_t PartBytes(const TransferTensor& tensor, const Box& box) {
  return box.Elements() * DtypeBits(tensor.to) / 8;
}

std::optional<std::string> CheckByteBoundaries(const TransferTensor& tensor) {
  std::string why;
  if (Grid::Make(tensor, &why)) return std::nullopt;
  return why;
}

TransferSize MeasureTransfer(const Transfer& transfer,
                             const std::vector<bool>& outputs) {
  TransferSize size;
  std::vector<std::vector<bool>> read(transfer.tensors.size());
  for (size_t i = 0; i < transfer.tensors.size(); ++i) {
    read[i].resize(transfer.tensors[i].parts.size());
  }
  for (size_t i = 0; i < transfer.outputs.size(); ++i) {
    if (!outputs[i]) continue;
    const OutputFile& output = transfer.outputs[i];
    ++size.files;
    size.bytes_written += output.size;
    size.pieces += static_cast<int64_t>(output.pieces.size());
    for (const OutputPiece& piece : output.pieces) {
      if (read[piece.tensor][piece.part]) continue;
      read[piece.tensor][piece.part] = true;
      const TransferTensor& tensor = transfer.tensors[piece.tensor];
      size.bytes_read +=
          tensor.parts[piece.part].Elements() * DtypeBits(tensor.from) / 8;
    }
  }
  return size;
}

// Computes the part of a tensor that each device holds. Parts are numbered in
// row-major order. The number of a device's part follows from the device's
// coordinates on the axes of the spec: each coordinate is multiplied by a
// weight, and the products are added. The weight of an axis is the product of
// the sizes of the axes after it in the spec:
//
//   mesh dp=2 tp=4; w [8, 6] sharded over [tp, dp]; weights: tp 2, dp 1
//   device 6 is at dp=1 tp=2, so it holds part 2 * 2 + 1 * 1 = 5, which is at
//   (2, 1) among the 4 x 2 parts: rows 4 and 5, columns 3 to 5
//
// The order of the devices and the order of the parts may differ. The last mesh
// axis varies fastest among devices. The last axis of the spec varies fastest
// among parts.

namespace {

// Returns the range of elements of a dimension that a box has, if it is one
// range. `at` is the box's dimension: with several parts of `size` elements
// each, it is that of the number of the part.
std::optional<ShardRange> JoinedRange(const Box& box, size_t at, bool several,
                                      int64_t size) {
  if (!several) return ShardRange{box.offset[at], box.shape[at]};
  const int64_t parts = box.shape[at];
  const int64_t elements = box.shape[at + 1];
  if (parts > 1 && elements != size && elements != 0) return std::nullopt;
  return ShardRange{box.offset[at] * size + box.offset[at + 1],
                    parts * elements};
}

// Appends the range to the box, as that of a dimension of parts of `size`
// elements. Returns false if the range begins or ends inside of a part and has
// elements of several parts.
bool AppendSplit(const ShardRange& range, int64_t size, Box& box) {
  const bool complete =
      size == 0 || (range.begin % size == 0 && range.size % size == 0);
  const int64_t part = size == 0 ? 0 : range.begin / size;
  const int64_t first = size == 0 ? 0 : range.begin % size;
  if (!complete && first + range.size > size) return false;
  box.offset.push_back(part);
  box.offset.push_back(complete ? 0 : first);
  box.shape.push_back(complete && size > 0 ? range.size / size : 1);
  box.shape.push_back(complete ? size : range.size);
  return true;
}

}  // namespace

std::optional<Box> BoxInParts(const Box& box, const Shape& shape,
                              const EqualParts& from, const EqualParts& to) {
  Box out;
  size_t at = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const int64_t was = PartsAt(from, dim);
    const int64_t now = PartsAt(to, dim);
    const size_t dims = was > 1 ? 2 : 1;
    if (was == now) {
      for (size_t i = 0; i < dims; ++i) {
        out.offset.push_back(box.offset[at + i]);
        out.shape.push_back(box.shape[at + i]);
      }
    } else {
      const auto range = JoinedRange(box, at, was > 1, shape[dim] / was);
      if (!range) return std::nullopt;
      if (now == 1) {
        out.offset.push_back(range->begin);
        out.shape.push_back(range->size);
      } else if (!AppendSplit(*range, shape[dim] / now, out)) {
        return std::nullopt;
      }
    }
    at += dims;
  }
  return out;
}

std::optional<Box> BoxInShares(const Box& box, const Shape& shape,
                               const DimParts& from, const DimParts& to) {
  Box out;
  size_t at = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const PartsOfDim& was = PartsAt(from, dim);
    const bool split = was.several() && was.sizes.empty();
    const bool joins = split && !PartsAt(to, dim).sizes.empty();
    if (joins && (box.offset[at] != 0 || box.shape[at] != was.count)) {
      return std::nullopt;
    }
    if (split && !joins) {
      out.offset.push_back(box.offset[at]);
      out.shape.push_back(box.shape[at]);
    }
    at += split ? 1 : 0;
    const int64_t parts = joins ? was.count : 1;
    out.offset.push_back(box.offset[at] * parts);
    out.shape.push_back(box.shape[at] * parts);
    ++at;
  }
  return out;
}

SizedParts SizedPartsOf(const DimParts& parts) {
  const EqualParts equal = EqualAmong(parts);
  SizedParts out;
  for (size_t dim = 0; dim < parts.size(); ++dim) {
    if (parts[dim].sizes.empty()) continue;
    out.emplace(SplitDim(dim, equal), parts[dim].sizes);
  }
  return out;
}

std::optional<std::vector<ShardRange>> RangesOfShare(
    const std::vector<int64_t>& sizes, int64_t offset, int64_t size) {
  const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  // The bound as a fraction of the dimension, in lowest terms, is that fraction
  // of each part.
  const auto of_part = [&](int64_t part, int64_t bound) {
    const int64_t common = std::gcd(bound, all);
    const int64_t shares = all / common;
    return part % shares != 0 ? std::nullopt
                              : std::optional(part / shares * (bound / common));
  };
  std::vector<ShardRange> out;
  int64_t before = 0;
  for (const int64_t part : sizes) {
    const auto begin = of_part(part, offset);
    const auto end = of_part(part, offset + size);
    if (!begin || !end) return std::nullopt;
    if (!out.empty() && out.back().end() == before + *begin) {
      out.back().size += *end - *begin;
    } else {
      out.push_back({before + *begin, *end - *begin});
    }
    before += part;
  }
  return out;
}

std::optional<Partition> Partition::Make(const Spec& spec, const Shape& shape,
                                         const Mesh& mesh, bool uneven) {
  if (spec.size() > shape.size()) return std::nullopt;
  Partition cut;
  cut.shape_ = shape;
  cut.divisions_.resize(shape.size());
  std::set<std::string> seen;
  if (!uneven && !DividesEvenly(mesh, shape, spec)) return std::nullopt;
  // Weights are computed from the last axis of the spec, whose weight is 1.
  for (size_t dim = spec.size(); dim > 0;) {
    --dim;
    for (size_t i = spec[dim].size(); i > 0;) {
      --i;
      const std::string& name = spec[dim][i];
      const auto axis = mesh.FindDigit(name);
      if (!axis || !seen.insert(name).second) return std::nullopt;
      // An axis that shards a dimension of size 0 makes no further parts.
      if (shape[dim] == 0) continue;
      cut.steps_.push_back({*axis, cut.parts_});
      cut.parts_ *= axis->size;
      cut.divisions_[dim].push_back(axis->size);
    }
    std::reverse(cut.divisions_[dim].begin(), cut.divisions_[dim].end());
  }
  return cut;
}

int64_t Partition::PartOf(const std::vector<int64_t>& coordinates) const {
  int64_t part = 0;
  for (const Step& step : steps_) {
    part += step.digit.Of(coordinates[step.digit.axis]) * step.weight;
  }
  return part;
}

Box Partition::BoxOf(int64_t part) const {
  Box box{Shape(shape_.size(), 0), shape_};
  for (size_t dim = shape_.size(); dim > 0;) {
    --dim;
    int64_t parts = 1;
    for (const int64_t axis : divisions_[dim]) parts *= axis;
    const ShardRange range =
        RangeOfShard(shape_[dim], divisions_[dim], part % parts);
    box.shape[dim] = range.size;
    box.offset[dim] = range.begin;
    part /= parts;
  }
  return box;
}

// Divides the outputs of a transfer among processes, so that each process
// writes about the same number of bytes. The bytes of all outputs, one output
// after another, are divided into one section of equal size for each process.
// An output belongs to the process whose section contains the output's
// midpoint. Every process computes the same assignment without communication.
// The index of a process comes from a flag or from the launcher's environment
// variables.
//
// Each output counts as one byte more than its size, so that empty outputs are
// distributed too. For example, on 2 processes:
//
//   4, 4 and 8 bytes count as 5, 5 and 9, so the midpoints are 2.5, 7.5 and
//   14.5 of 19  ->  processes 0, 0, 1

namespace {

// SLURM sets SLURM_PROCID=0 and SLURM_NTASKS in a batch script too. The script
// is a single process that has to write everything, so SLURM_NTASKS is not
// read. SLURM sets SLURM_STEP_NUM_TASKS only for the processes that srun
// starts.
constexpr Launcher kLaunchers[] = {
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"RANK", "WORLD_SIZE"},
};

}  // namespace

std::vector<bool> OwnOutputs(std::span<const int64_t> bytes,
                             const ProcessShare& share) {
  // One byte is added to the size of each output, so that empty outputs are
  // distributed too.
  double total = 0;
  for (const int64_t size : bytes) total += static_cast<double>(size) + 1;
  std::vector<bool> own(bytes.size());
  double before = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const double size = static_cast<double>(bytes[i]) + 1;
    const auto owner = static_cast<int64_t>((before + size / 2) / total *
                                            static_cast<double>(share.count));
    own[i] = std::min(owner, share.count - 1) == share.index;
    before += size;
  }
  return own;
}

std::optional<ProcessShare> DetectProcess(const Variable& variable,
                                          Findings& findings) {
  for (const Launcher& launcher : kLaunchers) {
    const auto seat = SeatBy(launcher, variable);
    if (!seat) continue;
    if (seat->count < 1) {
      findings.Add(code::kUsage, {},
                   "`" + std::string(launcher.index) + "=" +
                       std::string(seat->index_text) + "` and `" +
                       launcher.count + "=" + std::string(seat->count_text) +
                       "` do not identify this process",
                   "give --process-index and --process-count");
      return std::nullopt;
    }
    return ProcessShare{seat->index, seat->count, launcher.index};
  }
  return ProcessShare{};
}

namespace {

// Records each piece that a run has written as a line of the journal. The first
// line contains the key, which is a digest of everything that the transfer
// reads and writes, and a digest of the times at which the sources changed. For
// example:
//
//   shardc-journal/v1 2c26b4... 9f86d0...
//   0 3 1f2e3d4c     piece 3 of output 0, with its CRC-32C in hexadecimal
//   done             one process of several has written all its pieces

constexpr size_t kFoldBytes = size_t{1} << 20;

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

Checksums Unknown(const Transfer& transfer) {
  Checksums out(transfer.outputs.size());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].resize(transfer.outputs[i].pieces.size());
  }
  return out;
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
    for (const SizedParts* const sized :
         {&tensor.sized_sources, &tensor.sized_parts}) {
      for (const auto& [dim, sizes] : *sized) {
        hash.Add(static_cast<int64_t>(dim));
        hash.Add(sizes);
      }
    }
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

std::string JournalStart(const std::string& key) {
  return "shardc-journal/v1 " + key + " ";
}

void Journal::Parse(const Transfer& transfer) {
  recorded_ = Unknown(transfer);
  while (const auto line = Next()) {
    const size_t output = AsIndex(line->first), piece = AsIndex(line->second);
    if (line->held || output >= recorded_.size() ||
        piece >= recorded_[output].size()) {
      continue;
    }
    recorded_[output][piece] = line->crc;
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
  if (!journal.OpenToWrite(path, JournalStart(key), SourceState(transfer))) {
    return refuse(errno == EWOULDBLOCK ? "another run is writing there"
                                       : ::strerror(errno));
  }
  journal.Parse(transfer);
  // The lines are written again. Otherwise a new line could be appended to an
  // incomplete last line.
  bool written = journal.Clear();
  for (size_t i = 0; i < journal.recorded_.size(); ++i) {
    for (size_t k = 0; k < journal.recorded_[i].size(); ++k) {
      const auto crc = journal.recorded_[i][k];
      written = written && (!crc || journal.Add(i, k, *crc));
    }
  }
  if (written && journal.Flush()) return journal;
  const std::string why = ::strerror(errno);
  // A journal that records no piece is of no use to a later run.
  if (!journal.resumed()) journal.Remove();
  return refuse(why);
}

std::optional<Journal> Journal::Read(const std::string& path,
                                     const std::string& key,
                                     const Transfer& transfer) {
  Journal journal;
  if (!journal.OpenToRead(path, JournalStart(key))) return std::nullopt;
  journal.Parse(transfer);
  return journal;
}

bool Journal::Add(size_t output, size_t piece, uint32_t crc) {
  return Append(
      {static_cast<int64_t>(output), static_cast<int64_t>(piece), crc});
}

}  // namespace shardc
