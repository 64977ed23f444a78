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
// Arrays of other formats (orbax, zarr, DCP) are copied by tree_copy.h. For
// example, w [8, 4] is stored as 1 piece and written as 2 parts of columns:
//
//   1 read of 8 rows; the rows are gathered into 2 runs of [8, 2]; 2 writes
#include "checkpoint/copy.h"

#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "checkpoint/block_queue.h"
#include "checkpoint/grid.h"
#include "checkpoint/piece_writer.h"
#include "checkpoint/tree_copy.h"
#include "floats/convert.h"
#include "source/file.h"
#include "source/index.h"
#include "source/input_file.h"
#include "stored/checksum.h"
#include "stored/gather.h"

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

// The region of a block that is read from one source.
struct SourceRead {
  size_t source = 0;
  Region region;  // one contiguous run of the source piece
  // The bytes of the region. Null if its rows are read one by one.
  const char* bytes = nullptr;
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
    std::vector<std::pair<size_t, Region>> parts;
    for (size_t part = 0; part < work.grid.parts().size(); ++part) {
      const Region& whole = work.grid.parts()[part];
      if (!work.parts.Wanted(part) || !Region::Overlap(whole, block)) {
        continue;
      }
      parts.emplace_back(part, Region::Intersect(whole, block));
    }
    if (parts.empty()) return true;
    std::vector<SourceRead> loads;
    if (!ReadSources(work, block, parts, scratch, loads, findings)) {
      return false;
    }
    for (const auto& [part, region] : parts) {
      const char* bytes = nullptr;
      if (!Assemble(work, region, loads, scratch, &bytes, findings)) {
        return false;
      }
      bytes = Cast(work, region.Units(), bytes, scratch);
      if (!Write(work, part, region, bytes, findings)) return false;
    }
    return true;
  }

  // Returns the region of a source piece that is read for a block. It is one
  // run of bytes in the file, and contains all rows of the block that the
  // output parts `parts` need. It is empty if they need no row of the source.
  // Sets `*in_one` to whether the region is read by one call instead of row by
  // row.
  SourceRead PlanLoad(const TensorCopy& work, size_t source,
                      const Region& block,
                      const std::vector<std::pair<size_t, Region>>& parts,
                      bool* in_one) const {
    SourceRead load{source,
                    Region::Intersect(work.grid.sources()[source], block)};
    int64_t covered = 0, run = 0;
    Region hull;
    for (const auto& [part, region] : parts) {
      if (!Region::Overlap(region, load.region)) continue;
      const Region both = Region::Intersect(region, load.region);
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
    *in_one = 2 * covered >= load.region.Units() ||
              run * work.grid.unit_from() < kLongRun;
    return load;
  }

  bool ReadSources(const TensorCopy& work, const Region& block,
                   const std::vector<std::pair<size_t, Region>>& parts,
                   Scratch& scratch, std::vector<SourceRead>& loads,
                   Findings& findings) const {
    const int64_t unit = work.grid.unit_from();
    const auto& pieces = transfer_.tensors[work.tensor].sources;
    scratch.source.resize(AsIndex(block.Units() * unit) +
                          kCacheLine * (pieces.size() + 1));
    size_t used = 0;
    for (size_t source = 0; source < pieces.size(); ++source) {
      if (!Region::Overlap(work.grid.sources()[source], block)) continue;
      bool in_one = true;
      SourceRead load = PlanLoad(work, source, block, parts, &in_one);
      if (load.region.Empty()) continue;
      if (in_one) {
        const auto count = AsIndex(load.region.Units() * unit);
        const int64_t from =
            pieces[source].offset +
            work.grid.sources()[source].OffsetOf(load.region) * unit;
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
      } else if (!ReadRows(work, load.source, both, region, scratch,
                           findings)) {
        return false;
      }
    }
    return true;
  }

  bool ReadRows(const TensorCopy& work, size_t source, const Region& part,
                const Region& region, Scratch& scratch,
                Findings& findings) const {
    const int64_t unit = work.grid.unit_from();
    const SourcePiece& piece = transfer_.tensors[work.tensor].sources[source];
    return ForEachRun(part, work.grid.sources()[source], region,
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

  bool Write(TensorCopy& work, size_t part, const Region& region,
             const char* bytes, Findings& findings) {
    const int64_t unit = work.grid.unit_to();
    return writer_.Write(work.parts, part,
                         work.grid.parts()[part].OffsetOf(region) * unit, bytes,
                         AsIndex(region.Units() * unit), findings);
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

}  // namespace shardc
