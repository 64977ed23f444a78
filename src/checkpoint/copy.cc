// Copies the tensors of a transfer in blocks of limited size. Each worker
// thread copies one block at a time, in two steps:
//
// - From each source piece (the part of a tensor in one source file), the
//   worker reads one contiguous run of bytes. It contains all rows of the block
//   that the outputs need. If they need less than half of the run, and the rows
//   are long, each needed row is read by itself.
// - The worker writes the bytes of each output part as one run. If these bytes
//   are not contiguous in the read buffer, the worker first gathers them in a
//   second buffer.
//
// A piece with several ranges of a dimension (HeldRange) is read or written in
// rows where a range of it is no run.
//
// Arrays of other formats (orbax, zarr, DCP) are copied by tree_copy.h. For
// example, w [8, 4] is stored as 1 piece and written as 2 parts of columns:
//
//   1 read of 8 rows; the rows are gathered into 2 runs of [8, 2]; 2 writes
#include "checkpoint/copy.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "checkpoint/tree_copy.h"
#include "floats/convert.h"
#include "model/mesh_layout.h"
#include "source/file.h"
#include "source/input_file.h"
#include "source/sink.h"
#include "source/size.h"
#include "stored/box.h"
#include "stored/checksum.h"

namespace shardc {
namespace {

// The size of a block, the unit of copying. A block should fit into a
// second-level cache. A tensor with many parts has larger blocks: kRunPerPart
// bytes for each part, but at most kMaxBlock. In smaller blocks, each part
// would have so few bytes that its write calls would be inefficient.
constexpr int64_t kBlock = int64_t{512} << 10;
constexpr int64_t kMaxBlock = int64_t{4} << 20;
constexpr int64_t kRunPerPart = int64_t{32} << 10;
constexpr size_t kCacheLine = 64;
// The number of buffers of a worker: for read bytes, gathered rows, and cast
// elements.
constexpr int64_t kBuffers = 3;
// Rows of at least this many bytes may be read by one system call each.
constexpr int64_t kLongRun = int64_t{16} << 10;

struct TensorCopy {
  size_t tensor = 0;
  Grid grid;
  int64_t block_bytes = 0;
  PartsInWork parts = {};
  int64_t blocks() const { return grid.Blocks(block_bytes); }
};

// The region of a block that is read from one range of a source.
struct SourceRead {
  size_t source = 0;
  const HeldRange* held = nullptr;
  Region region;  // one contiguous run of the source piece, if `bytes` is set
  // The bytes of the region. Null if its rows are read one by one.
  const char* bytes = nullptr;
};

// The region of a block that an output part needs, in one of its ranges.
struct NeededRegion {
  size_t part = 0;
  const HeldRange* held = nullptr;
  Region region;
};

class Copier {
 public:
  Copier(const Transfer& transfer, const std::vector<InputFile>& inputs,
         const std::vector<CopyTarget>& files, Checksums& checksums,
         const CopyOptions& options)
      : transfer_(transfer),
        inputs_(inputs),
        writer_(transfer, files, checksums, options) {
    threads_ = std::max(options.threads, 1);
    most_bytes_ = std::clamp(options.memory_bytes / (kBuffers * threads_),
                             kBlock, kMaxBlock);
  }

  bool Run(Findings& findings) {
    BlockQueue<TensorCopy, Scratch> blocks(
        transfer_.tensors.size(), [this](size_t index) { return Begin(index); },
        [this](TensorCopy& work, int64_t block, Scratch& scratch,
               Findings& found) {
          return CopyBlock(work, block, scratch, found);
        });
    return blocks.Run(threads_, findings);
  }

 private:
  struct Scratch {
    std::vector<char> source;
    std::vector<char> gathered;
    std::vector<char> cast;
  };

  // Begins the copy of a tensor. Returns null if no output needs the tensor.
  std::shared_ptr<TensorCopy> Begin(size_t index) {
    if (!writer_.Any(index)) return nullptr;
    const TransferTensor& tensor = transfer_.tensors[index];
    std::string why;
    // Grid::Make succeeds, because the grid was checked when the transfer was
    // planned.
    auto grid = Grid::Make(tensor, &why);
    auto work =
        std::make_shared<TensorCopy>(TensorCopy{index, std::move(*grid)});
    work->block_bytes =
        std::clamp(kRunPerPart * static_cast<int64_t>(tensor.parts.size()),
                   kBlock, most_bytes_);
    work->parts = writer_.Begin(index);
    return work;
  }

  bool CopyBlock(TensorCopy& work, int64_t index, Scratch& scratch,
                 Findings& findings) {
    const Region block = work.grid.Block(index, work.block_bytes);
    std::vector<NeededRegion> parts;
    for (size_t part = 0; part < work.grid.parts().size(); ++part) {
      if (!work.parts.Wanted(part)) continue;
      for (const HeldRange& held : work.grid.parts()[part]) {
        if (!Region::Overlap(held.region, block)) continue;
        parts.push_back({part, &held, Region::Intersect(held.region, block)});
      }
    }
    if (parts.empty()) return true;
    std::vector<SourceRead> loads;
    if (!ReadSources(work, block, parts, scratch, loads, findings)) {
      return false;
    }
    for (const NeededRegion& part : parts) {
      const char* bytes = nullptr;
      if (!Assemble(work, part.region, loads, scratch, &bytes, findings)) {
        return false;
      }
      bytes = Cast(work, part.region.Units(), bytes, scratch);
      if (!Write(work, part, bytes, findings)) return false;
    }
    return true;
  }

  // Returns the region of a source piece that is read for a block. It contains
  // all rows of the block that the output parts `parts` need. It is empty if
  // they need no row of the source. Sets `*in_one` to whether the region is
  // read by one call instead of row by row: it is then one run of bytes in the
  // file.
  static SourceRead PlanLoad(const TensorCopy& work, size_t source,
                             const HeldRange& held, const Region& block,
                             const std::vector<NeededRegion>& parts,
                             bool* in_one) {
    SourceRead load{source, &held, Region::Intersect(held.region, block)};
    int64_t covered = 0, run = 0;
    Region hull;
    for (const NeededRegion& part : parts) {
      if (!Region::Overlap(part.region, load.region)) continue;
      const Region both = Region::Intersect(part.region, load.region);
      covered += both.Units();
      run = std::max(run, both.end.back() - both.begin.back());
      if (hull.begin.empty()) hull = both;
      for (size_t i = 0; i < hull.begin.size(); ++i) {
        hull.begin[i] = std::min(hull.begin[i], both.begin[i]);
        hull.end[i] = std::max(hull.end[i], both.end[i]);
      }
    }
    if (hull.begin.empty()) {
      load.region.end = load.region.begin;
      return load;
    }
    // The region is shortened along the outermost dimension in which it has
    // more than one index. It then remains one run of the file.
    for (size_t i = 0; i < hull.begin.size(); ++i) {
      if (load.region.end[i] - load.region.begin[i] == 1) continue;
      load.region.begin[i] = hull.begin[i];
      load.region.end[i] = hull.end[i];
      break;
    }
    *in_one = IsOneRun(load.region, held.frame) &&
              (2 * covered >= load.region.Units() ||
               run * work.grid.unit_from() < kLongRun);
    return load;
  }

  bool ReadSources(const TensorCopy& work, const Region& block,
                   const std::vector<NeededRegion>& parts, Scratch& scratch,
                   std::vector<SourceRead>& loads, Findings& findings) const {
    const int64_t unit = work.grid.unit_from();
    const auto& pieces = transfer_.tensors[work.tensor].sources;
    std::vector<std::pair<size_t, const HeldRange*>> there;
    for (size_t source = 0; source < pieces.size(); ++source) {
      for (const HeldRange& held : work.grid.sources()[source]) {
        if (Region::Overlap(held.region, block)) {
          there.emplace_back(source, &held);
        }
      }
    }
    scratch.source.resize(AsIndex(block.Units() * unit) +
                          kCacheLine * (there.size() + 1));
    size_t used = 0;
    for (const auto& [source, held] : there) {
      bool in_one = true;
      SourceRead load = PlanLoad(work, source, *held, block, parts, &in_one);
      if (load.region.Empty()) continue;
      if (in_one) {
        const auto count = AsIndex(load.region.Units() * unit);
        const int64_t from =
            pieces[source].offset + held->frame.OffsetOf(load.region) * unit;
        char* to = scratch.source.data() + used;
        // Place the data in the buffer so that they start at the same offset in
        // a cache line as in the file. The kernel then copies them faster.
        const auto lag =
            (static_cast<uintptr_t>(from) % kCacheLine + kCacheLine -
             reinterpret_cast<uintptr_t>(to) % kCacheLine) %
            kCacheLine;
        to += lag;
        used += lag;
        if (!inputs_[pieces[source].file].ReadAt(from, to, count, findings)) {
          return false;
        }
        load.bytes = to;
        used += count;
      }
      loads.push_back(std::move(load));
    }
    return true;
  }

  // Sets `*out` to the region's bytes in row-major order, in the source's
  // dtype. If the region is one run of the bytes that were read, `*out` points
  // into them. Otherwise the bytes are gathered in `scratch`. Returns false
  // after a finding.
  bool Assemble(const TensorCopy& work, const Region& region,
                const std::vector<SourceRead>& loads, Scratch& scratch,
                const char** out, Findings& findings) const {
    const int64_t unit = work.grid.unit_from();
    for (const SourceRead& load : loads) {
      if (load.bytes == nullptr || !Region::Overlap(region, load.region)) {
        continue;
      }
      const Region both = Region::Intersect(region, load.region);
      if (both.Units() != region.Units() || !IsOneRun(both, load.region)) {
        continue;
      }
      *out = load.bytes + load.region.OffsetOf(both) * unit;
      return true;
    }
    scratch.gathered.resize(AsIndex(region.Units() * unit));
    *out = scratch.gathered.data();
    for (const SourceRead& load : loads) {
      if (!Region::Overlap(region, load.region)) continue;
      const Region both = Region::Intersect(region, load.region);
      if (load.bytes != nullptr) {
        CopyRegion(both, load.region, load.bytes, region,
                   scratch.gathered.data(), unit);
      } else if (!ReadRows(work, load, both, region, scratch, findings)) {
        return false;
      }
    }
    return true;
  }

  bool ReadRows(const TensorCopy& work, const SourceRead& load,
                const Region& part, const Region& region, Scratch& scratch,
                Findings& findings) const {
    const int64_t unit = work.grid.unit_from();
    const SourcePiece& piece =
        transfer_.tensors[work.tensor].sources[load.source];
    return ForEachRun(part, load.held->frame, region,
                      [&](int64_t from, int64_t to, int64_t units) {
                        return inputs_[piece.file].ReadAt(
                            piece.offset + from * unit,
                            scratch.gathered.data() + to * unit,
                            AsIndex(units * unit), findings);
                      });
  }

  const char* Cast(const TensorCopy& work, int64_t units, const char* bytes,
                   Scratch& scratch) const {
    const TransferTensor& tensor = transfer_.tensors[work.tensor];
    if (tensor.from == tensor.to) return bytes;
    scratch.cast.resize(AsIndex(units * work.grid.unit_to()));
    ConvertFloats(tensor.from, tensor.to, bytes, scratch.cast.data(),
                  AsIndex(units));
    return scratch.cast.data();
  }

  bool Write(TensorCopy& work, const NeededRegion& part, const char* bytes,
             Findings& findings) {
    const int64_t unit = work.grid.unit_to();
    return ForEachRun(part.region, part.region, part.held->frame,
                      [&](int64_t from, int64_t to, int64_t units) {
                        return writer_.Write(work.parts, part.part, to * unit,
                                             bytes + from * unit,
                                             AsIndex(units * unit), findings);
                      });
  }

  const Transfer& transfer_;
  const std::vector<InputFile>& inputs_;
  PieceWriter writer_;
  int threads_ = 1;
  int64_t most_bytes_ = kMaxBlock;
};

bool OpenSources(const Transfer& transfer, std::vector<InputFile>& inputs,
                 Findings& findings) {
  for (const SourceFile& source : transfer.sources) {
    auto file = InputFile::Open(source.path, findings);
    if (!file) return false;
    inputs.push_back(std::move(*file));
  }
  return true;
}

bool HasHeader(const InputFile& input, const SourceFile& source) {
  // These findings are dropped. If the header cannot be read, the result is
  // false, and the caller reports that the file has changed.
  Findings findings;
  const auto header = input.Head(AsIndex(source.header_bytes), findings);
  return header && Crc32c(*header) == source.header_crc;
}

bool CheckUnchanged(const Transfer& transfer,
                    const std::vector<InputFile>& inputs, Findings& findings) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    struct stat status = {};
    const bool known = ::fstat(inputs[i].fd(), &status) == 0;
    const SourceFile& source = transfer.sources[i];
    if (known && status.st_size == source.size &&
        ModifiedNs(status) == source.modified_ns &&
        HasHeader(inputs[i], source)) {
      continue;
    }
    AddChanged(source.path, findings);
    return false;
  }
  return true;
}

}  // namespace

void AddChanged(const std::string& path, Findings& findings) {
  findings.Add(code::kUnreadable, Place{MakeSource(path, {})},
               "`" + path + "` changed while it was read",
               "run the command again when nothing writes to it");
}

bool CopyPieces(const Transfer& transfer, const std::vector<CopyTarget>& files,
                Checksums& checksums, const CopyOptions& options,
                Findings& findings) {
  if (transfer.tree != nullptr) {
    return CopyTree(transfer, files, checksums, options, findings);
  }
  std::vector<InputFile> inputs;
  if (!OpenSources(transfer, inputs, findings)) return false;
  Copier copier(transfer, inputs, files, checksums, options);
  return copier.Run(findings) && CheckUnchanged(transfer, inputs, findings);
}

// Writes parts of tensors and computes their checksums. A part may be written
// in several runs, in any order. When the last run has been written, the part's
// checksum is combined from the checksums of the runs:
//
//   runs of bytes 8 to 15 and 0 to 7  ->  sorted by position; CRC(0 to 7) is
//   combined with CRC(8 to 15)
//
// If a part is written in more than kMostRuns runs, the records of the runs
// would need too much memory. Such a part is read back to compute its checksum.

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

// Describes a tensor as a grid with few dimensions, and divides the grid into
// blocks that are copied one at a time. A dimension that no source piece and no
// output part splits is merged into the dimension before it. The last dimension
// of the grid counts bytes or, if the tensor is cast, elements. A block is a
// range of indices along one dimension. This is the outermost dimension for
// which the data of a single index do not exceed the size limit of a block.
//
//   [4, 6, 2] of BF16, no dimension split: the grid is [96] bytes
//   [4, 6, 2] of BF16, split along its second dimension: the grid is 4 rows of
//   24 bytes; blocks of at most 48 bytes are rows 0 and 1, and rows 2 and 3

namespace {

// Returns whether no source piece and no output part splits the dimension
// `dim`: each of them contains all of its indices.
bool SpansDimension(const TransferTensor& tensor, size_t dim) {
  const auto spans = [&](const Box& box) {
    return box.shape[dim] == tensor.shape[dim];
  };
  return std::all_of(
             tensor.sources.begin(), tensor.sources.end(),
             [&](const SourcePiece& piece) { return spans(piece.box); }) &&
         std::all_of(tensor.parts.begin(), tensor.parts.end(), spans);
}

struct Folding {
  // Each dimension of the grid consists of merged dimensions of the tensor.
  // `first` has the first of these dimensions, and `inner` the product of the
  // sizes of the others. An unsplit [4, 6, 2] has `first` 0 and `inner` 12.
  std::vector<size_t> first;
  std::vector<int64_t> inner;
};

Folding Fold(const TransferTensor& tensor) {
  Folding fold;
  for (size_t dim = 0; dim < tensor.shape.size(); ++dim) {
    if (dim > 0 && SpansDimension(tensor, dim)) {
      fold.inner.back() *= tensor.shape[dim];
    } else {
      fold.first.push_back(dim);
      fold.inner.push_back(1);
    }
  }
  return fold;
}

}  // namespace

std::optional<Grid> Grid::Make(const TransferTensor& tensor, std::string* why) {
  Grid grid;
  const bool cast = tensor.from != tensor.to;
  const int64_t bits = cast ? 8 : DtypeBits(tensor.from);
  if (cast) {
    grid.unit_from_ = DtypeBits(tensor.from) / 8;
    grid.unit_to_ = DtypeBits(tensor.to) / 8;
  }
  const Folding fold = Fold(tensor);
  bool whole_bytes = true;
  // The last dimension counts bytes, so each box must start and end at a byte
  // boundary. A tensor without elements has no bytes, so its boxes are not
  // checked.
  const bool empty = FullBox(tensor.shape).Elements() == 0;
  // Returns the ranges of dimension `i` of the grid that a box has, in units.
  const auto ranges = [&](const Box& box, const SizedParts& sized, size_t i) {
    const size_t dim = fold.first[i];
    std::vector<ShardRange> out = {{box.offset[dim], box.shape[dim]}};
    const auto parts = sized.find(dim);
    if (parts != sized.end() && box.shape[dim] > 0) {
      // The plan of the transfer has checked that there are such ranges.
      out = RangesOfShare(parts->second, box.offset[dim], box.shape[dim])
                .value_or(out);
    }
    for (ShardRange& range : out) {
      int64_t begin = range.begin * fold.inner[i];
      int64_t end = range.end() * fold.inner[i];
      if (i + 1 == fold.first.size()) {
        begin *= bits, end *= bits;
        whole_bytes =
            whole_bytes && (empty || (begin % 8 == 0 && end % 8 == 0));
        begin /= 8, end /= 8;
      }
      range = {begin, end - begin};
    }
    return out;
  };
  const auto held = [&](const Box& box, const SizedParts& sized) {
    std::vector<HeldRange> out(1);
    for (size_t i = 0; i < fold.first.size(); ++i) {
      const std::vector<ShardRange> all = ranges(box, sized, i);
      int64_t length = 0;
      for (const ShardRange& range : all) length += range.size;
      std::vector<HeldRange> longer;
      for (const HeldRange& before : out) {
        int64_t at = 0;
        for (const ShardRange& range : all) {
          HeldRange& one = longer.emplace_back(before);
          one.region.begin.push_back(range.begin);
          one.region.end.push_back(range.end());
          one.frame.begin.push_back(range.begin - at);
          one.frame.end.push_back(range.begin - at + length);
          at += range.size;
        }
      }
      out = std::move(longer);
    }
    // A scalar.
    if (fold.first.empty()) out = {{{{0}, {bits / 8}}, {{0}, {bits / 8}}}};
    return out;
  };
  grid.sizes_ = held(FullBox(tensor.shape), {}).front().region.end;
  for (const SourcePiece& piece : tensor.sources) {
    grid.sources_.push_back(held(piece.box, tensor.sized_sources));
  }
  for (const Box& part : tensor.parts) {
    grid.parts_.push_back(held(part, tensor.sized_parts));
  }
  if (whole_bytes) return grid;
  *why = "`" + tensor.name + "`, " + ShapeText(tensor.shape) + " of " +
         std::string(DtypeName(tensor.from)) +
         ", would start or end inside a byte";
  return std::nullopt;
}

Grid::Steps Grid::Walk(int64_t max_bytes) const {
  const int64_t most =
      std::max<int64_t>(max_bytes / std::max(unit_from_, unit_to_), 1);
  Steps walk;
  int64_t inner = 1;
  walk.dim = sizes_.size() - 1;
  // Find the outermost dimension along which a single index has at most `most`
  // units of data. Blocks are ranges of indices along this dimension.
  while (walk.dim > 0 && sizes_[walk.dim] <= most / inner) {
    inner *= std::max<int64_t>(sizes_[walk.dim], 1);
    --walk.dim;
  }
  walk.step = std::max<int64_t>(most / inner, 1);
  walk.ranges = (sizes_[walk.dim] + walk.step - 1) / walk.step;
  for (size_t i = 0; i < walk.dim; ++i) walk.prefixes *= sizes_[i];
  return walk;
}

int64_t Grid::Blocks(int64_t max_bytes) const {
  for (const int64_t size : sizes_) {
    if (size == 0) return 0;
  }
  const Steps walk = Walk(max_bytes);
  return walk.prefixes * walk.ranges;
}

Region Grid::Block(int64_t index, int64_t max_bytes) const {
  const Steps walk = Walk(max_bytes);
  Region out{std::vector<int64_t>(sizes_.size(), 0), sizes_};
  int64_t prefix = index / walk.ranges;
  out.begin[walk.dim] = index % walk.ranges * walk.step;
  out.end[walk.dim] =
      std::min(out.begin[walk.dim] + walk.step, sizes_[walk.dim]);
  for (size_t i = walk.dim; i > 0;) {
    --i;
    out.begin[i] = prefix % sizes_[i];
    out.end[i] = out.begin[i] + 1;
    prefix /= sizes_[i];
  }
  return out;
}

}  // namespace shardc
