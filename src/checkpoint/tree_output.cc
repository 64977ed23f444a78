// Writes a transfer as a tree (orbax or DCP). A sharding plan divides each
// tensor into parts, and each part is written as one chunk. If the source's
// chunks are smaller than a part, the part is divided along the edges of these
// chunks. For each chunk, the writers of the directory `stored` read one box of
// elements. Boxes that need the same source chunk are read one after another.
// For example:
//
//   w [8192, 4096] from chunks [1024, 4096] to parts [8192, 1024]:
//   written in chunks [1024, 1024], of which 4 come from one source chunk
//
// After the last read the sources are checked for changes, so that a checkpoint
// with data from changed files is never published.
#include "checkpoint/tree_output.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "checkpoint/chunk_cache.h"
#include "checkpoint/copy.h"
#include "checkpoint/journal.h"
#include "checkpoint/tree_copy.h"
#include "floats/convert.h"
#include "model/name.h"
#include "model/shard_range.h"
#include "model/sub_axis.h"
#include "source/index.h"
#include "source/input_file.h"
#include "source/wording.h"
#include "stored/gather.h"

namespace shardc {
namespace {

constexpr OutputFormat kFormats[] = {
    {"safetensors", std::nullopt, nullptr},
    {"orbax", stored::WriteForm::kOrbax, stored::WriteOrbax},
    {"dcp", stored::WriteForm::kDcp, stored::WriteDcp}};

class TransferSource : public stored::BoxSource {
 public:
  // Returns nullopt after a finding.
  static std::optional<TransferSource> Open(const Transfer& transfer,
                                            int64_t cache_bytes,
                                            Findings& findings) {
    TransferSource out(transfer);
    if (transfer.tree != nullptr) {
      out.cache_ = std::make_unique<ChunkCache>(*transfer.tree, cache_bytes);
      return out;
    }
    for (const SourceFile& source : transfer.sources) {
      auto file = InputFile::Open(source.path, findings);
      if (!file) return std::nullopt;
      out.inputs_.push_back(std::move(*file));
    }
    return out;
  }

  bool Read(size_t array, const Box& box, char* out,
            Findings& findings) const override {
    const TransferTensor& tensor = transfer_->tensors[array];
    if (tensor.from == tensor.to) {
      return ReadStoredBytes(tensor, box, out, findings);
    }
    std::string from(AsIndex(box.Elements() * DtypeBits(tensor.from) / 8),
                     '\0');
    if (!ReadStoredBytes(tensor, box, from.data(), findings)) return false;
    ConvertFloats(tensor.from, tensor.to, from.data(), out,
                  AsIndex(box.Elements()));
    return true;
  }

  bool Finish(Findings& findings) const override {
    return CheckPathsUnchanged(*transfer_, findings);
  }

 private:
  explicit TransferSource(const Transfer& transfer) : transfer_(&transfer) {}

  bool ReadStoredBytes(const TransferTensor& tensor, const Box& box, char* out,
                       Findings& findings) const {
    if (tensor.array) {
      return cache_->Take(*tensor.array, box, out, findings);
    }
    const int64_t unit = DtypeBits(tensor.from) / 8;
    const Region wanted = RegionOf(box);
    return std::all_of(tensor.sources.begin(), tensor.sources.end(),
                       [&](const SourcePiece& piece) {
                         const Region held = RegionOf(piece.box);
                         if (!Region::Overlap(held, wanted)) return true;
                         return ForEachRun(
                             Region::Intersect(held, wanted), held, wanted,
                             [&](int64_t from, int64_t to, int64_t units) {
                               return inputs_[piece.file].ReadAt(
                                   piece.offset + from * unit, out + to * unit,
                                   AsIndex(units * unit), findings);
                             });
                       });
  }

  const Transfer* transfer_;
  std::unique_ptr<ChunkCache> cache_;  // set if the source is a tree
  std::vector<InputFile> inputs_;      // open if the sources are files
};

// Returns the size of the written chunks along a dimension of `size` elements,
// for parts of size `part` and source chunks of size `source`. It is `source`
// if source chunks are smaller than the part and none of them spans two parts.
// Otherwise it is `part`. A part of 8192 with `source` 1024 gives 1024, and a
// part of 8 with `source` 64 gives 8.
int64_t CommonSize(int64_t part, int64_t source, int64_t size) {
  const bool divides = part == size || part % source == 0;
  return source < part && divides ? source : part;
}

// The limits for joining small chunks. For chunks of less than kSmallBytes,
// listing and reading takes more time than copying. Several such chunks are
// therefore joined to chunks of at most kJoinedBytes.
constexpr int64_t kSmallBytes = int64_t{64} << 10;
constexpr int64_t kJoinedBytes = int64_t{1} << 20;

// Returns the size of joined chunks along a dimension of `size` elements. At
// most `most` chunks of size `chunk` are joined, as many as fit in the part.
// Unless the part is the full dimension, the joined size divides the part:
// chunks of 8 in a part of 48, with `most` 4, give 24.
int64_t JoinedSize(int64_t chunk, int64_t most, int64_t part, int64_t size) {
  int64_t count = std::min(most, part / chunk);
  while (count > 1 && part != size && part % (chunk * count) != 0) --count;
  return chunk * std::max<int64_t>(count, 1);
}

// Joins small chunks of the same part, beginning with the last dimension. For
// example, a source with chunks [1, 64] is written in parts [2048, 8]. Each
// part is then one chunk instead of 2048 chunks [1, 8]. A source chunk that
// several parts share stays in the cache until the last of these parts is
// written. Chunks are joined only as far as these source chunks fit in
// `cache_bytes` bytes.
void JoinChunks(const Shape& part, const Shape& source, int64_t unit,
                int64_t cache_bytes, stored::ArrayToWrite& array) {
  Shape& chunk = array.chunk;
  int64_t bytes = Box{chunk, chunk}.Elements() * unit;
  if (bytes >= kSmallBytes) return;
  for (size_t dim = chunk.size(); dim > 0 && 2 * bytes <= kJoinedBytes; --dim) {
    const size_t i = dim - 1;
    double row = static_cast<double>(unit * chunk[i]);
    for (size_t k = 0; k < chunk.size(); ++k) {
      if (k < i) row *= static_cast<double>(std::max(chunk[k], source[k]));
      if (k > i) row *= static_cast<double>(array.shape[k]);
    }
    const double rows = static_cast<double>(cache_bytes) / std::max(row, 1.0);
    const int64_t times = kJoinedBytes / bytes;
    const auto most =
        static_cast<int64_t>(std::min(rows, static_cast<double>(times)));
    const int64_t joined = JoinedSize(chunk[i], most, part[i], array.shape[i]);
    bytes = bytes / chunk[i] * joined;
    chunk[i] = joined;
    if (joined < part[i]) return;
  }
}

stored::ArrayToWrite ArrayOf(const Transfer& transfer, size_t index,
                             const TreeOutput& output) {
  const TransferTensor& tensor = transfer.tensors[index];
  stored::ArrayToWrite out;
  out.path = tensor.in_tree.keys;
  out.in_sequence = tensor.in_tree.in_sequence;
  out.random_key = tensor.in_tree.random_key;
  if (out.path.empty() && !tensor.array) {
    const auto keys = SplitName(tensor.name, '/');
    out.path.assign(keys.begin(), keys.end());
  }
  out.shape = tensor.shape;
  out.dtype = tensor.to;
  out.chunk = tensor.parts[0].shape;
  for (int64_t& size : out.chunk) size = std::max<int64_t>(size, 1);
  if (tensor.array) {
    const stored::Array& array = transfer.tree->arrays[*tensor.array];
    if (array.pieces.empty() && array.Chunks() > 1) {
      for (size_t dim = 0; dim < out.chunk.size(); ++dim) {
        out.chunk[dim] =
            CommonSize(out.chunk[dim], array.chunk[dim], out.shape[dim]);
      }
      // Without a sharding plan (`index` is null), each part is a full tensor,
      // and the chunk sizes of the source are kept.
      if (output.index != nullptr) {
        JoinChunks(tensor.parts[0].shape, array.chunk, array.element_bytes,
                   output.memory_bytes / 8, out);
      }
    }
  }
  if (output.index != nullptr) {
    // The mesh has factors in place of axes that have sub-axes in the spec,
    // because a NamedSharding shards over complete axes.
    const Mesh& mesh = output.index->mesh;
    const Spec& spec = output.index->params[index].spec;
    const Mesh refined = RefinedMesh(mesh, {&spec, 1}).value_or(mesh);
    out.sharding = {refined, RefinedSpec(refined, spec)};
  }
  return out;
}

}  // namespace

std::span<const OutputFormat> OutputFormats() { return kFormats; }

bool WriteTransfer(const Transfer& transfer,
                   const std::vector<stored::Leaf>& leaves,
                   const OutputFormat& format, const TreeOutput& output,
                   stored::WriteReport* report, Findings& findings) {
  std::vector<stored::ArrayToWrite> arrays;
  const size_t before = findings.errors();
  for (size_t i = 0; i < transfer.tensors.size(); ++i) {
    const TransferTensor& tensor = transfer.tensors[i];
    arrays.push_back(ArrayOf(transfer, i, output));
    const auto& sharding = arrays.back().sharding;
    if (format.form == stored::WriteForm::kOrbax && sharding &&
        !DividesEvenly(sharding->mesh, tensor.shape, sharding->spec)) {
      findings.Add(code::kSpec, {MakeSource(output.folder, {})},
                   "the spec " + SpecText(sharding->spec) + " of " +
                       ShortQuote(tensor.name) + " does not divide " +
                       ShapeText(tensor.shape) +
                       ", and orbax records a NamedSharding, which divides a "
                       "dimension into equal parts",
                   "write `--to dcp` or safetensors");
    }
    if (tensor.array || DtypeBits(tensor.from) % 8 == 0) continue;
    findings.Add(code::kDtype, {MakeSource(output.folder, {})},
                 ShortQuote(tensor.name) + " has the packed data type " +
                     std::string(DtypeName(tensor.from)) + ", which --to " +
                     std::string(format.name) + " does not convert",
                 "leave it out: `--select REGEX` names the arrays to copy");
  }
  if (findings.errors() > before) return false;
  const auto source =
      TransferSource::Open(transfer, output.memory_bytes / 2, findings);
  if (!source) return false;
  stored::WriteOptions options;
  options.folder = output.folder;
  options.memory_bytes = output.memory_bytes / 2;
  options.threads = output.threads;
  options.process = output.share.index;
  options.processes = output.share.count;
  options.finalize = output.finalize;
  options.verify = output.verify;
  options.sources = TransferKey(transfer);
  options.state = SourceState(transfer);
  options.report = report;
  return format.write(arrays, leaves, *source, options, findings);
}

}  // namespace shardc
