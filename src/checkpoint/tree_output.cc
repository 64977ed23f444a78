// The writers of room `stored` ask for boxes in their own grid of chunks. The
// grid is chosen so that the boxes that need a source chunk follow each other:
// a part of the plan, divided along the source's chunks where these are
// smaller:
//
//   w [8192, 4096] from chunks [1024, 4096] to parts [8192, 1024]:
//   written in chunks [1024, 1024], of which 4 come from one source chunk
//
// Before the last element is handed over, the sources are compared with what
// they were, so that a checkpoint of changed files never gets its name.
#include "checkpoint/tree_output.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "checkpoint/chunk_cache.h"
#include "checkpoint/copy.h"
#include "checkpoint/tiles.h"
#include "floats/convert.h"
#include "source/file.h"
#include "source/index.h"
#include "source/input_file.h"
#include "source/wording.h"
#include "stored/gather.h"

namespace shardc {
namespace {

constexpr OutputFormat kFormats[] = {{"safetensors", nullptr},
                                     {"orbax", stored::WriteOrbax},
                                     {"dcp", stored::WriteDcp}};

bool IsUnchanged(const SourceFile& source) {
  struct stat status = {};
  return ::stat(source.path.c_str(), &status) == 0 &&
         status.st_size == source.size &&
         ModifiedNs(status) == source.modified_ns;
}

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
      if (!ReadStoredBytes(tensor, box, out, findings)) return false;
    } else {
      std::string from(AsIndex(box.Elements() * DtypeBits(tensor.from) / 8),
                       '\0');
      if (!ReadStoredBytes(tensor, box, from.data(), findings)) return false;
      ConvertFloats(tensor.from, tensor.to, from.data(), out,
                    AsIndex(box.Elements()));
    }
    return (*left_ -= box.Elements()) > 0 || CheckUnchanged(findings);
  }

 private:
  explicit TransferSource(const Transfer& transfer) : transfer_(&transfer) {
    for (const TransferTensor& tensor : transfer.tensors) {
      *left_ += WholeBox(tensor.shape).Elements();
    }
  }

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

  bool CheckUnchanged(Findings& findings) const {
    for (const SourceFile& source : transfer_->sources) {
      if (IsUnchanged(source)) continue;
      AddChanged(source.path, findings);
      return false;
    }
    return true;
  }

  const Transfer* transfer_;
  std::unique_ptr<ChunkCache> cache_;  // of a tree
  std::vector<InputFile> inputs_;      // of files
  // Elements that were not handed over.
  std::unique_ptr<std::atomic<int64_t>> left_ =
      std::make_unique<std::atomic<int64_t>>(0);
};

std::vector<std::string> SplitName(const std::string& name) {
  std::vector<std::string> out;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    out.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

// The keys of an array of a tree. If a checkpoint has several items, names
// begin with the item's, and paths do not.
std::vector<std::string> PathOf(const stored::Array& array) {
  std::string joined;
  for (const std::string& key : array.path) {
    joined += (joined.empty() ? "" : "/") + key;
  }
  if (array.name.size() > joined.size() + 1 &&
      array.name.ends_with("/" + joined)) {
    auto out =
        SplitName(array.name.substr(0, array.name.size() - joined.size() - 1));
    out.insert(out.end(), array.path.begin(), array.path.end());
    return out;
  }
  return array.path;
}

// The size of chunks along a dimension of `size` elements: the source's chunks
// if these divide the parts, or if the only part is the full dimension.
int64_t CommonSize(int64_t part, int64_t source, int64_t size) {
  const bool divides = part == size || part % source == 0;
  return source < part && divides ? source : part;
}

stored::ArrayToWrite ArrayOf(const Transfer& transfer, size_t index,
                             const TreeOutput& output) {
  const TransferTensor& tensor = transfer.tensors[index];
  stored::ArrayToWrite out;
  out.shape = tensor.shape;
  out.dtype = tensor.to;
  out.chunk = tensor.parts[0].shape;
  for (int64_t& size : out.chunk) size = std::max<int64_t>(size, 1);
  if (tensor.array) {
    const stored::Array& array = transfer.tree->arrays[*tensor.array];
    out.path = PathOf(array);
    out.in_sequence = array.in_sequence;
    if (array.pieces.empty() && array.Chunks() > 1) {
      for (size_t dim = 0; dim < out.chunk.size(); ++dim) {
        out.chunk[dim] =
            CommonSize(out.chunk[dim], array.chunk[dim], out.shape[dim]);
      }
    }
  } else {
    out.path = SplitName(tensor.name);
  }
  if (output.index != nullptr) {
    out.sharding = {output.index->mesh, output.index->params[index].spec};
  }
  return out;
}

}  // namespace

std::span<const OutputFormat> OutputFormats() { return kFormats; }

bool WriteTransfer(const Transfer& transfer,
                   const std::vector<stored::Leaf>& leaves,
                   const OutputFormat& format, const TreeOutput& output,
                   Findings& findings) {
  std::vector<stored::ArrayToWrite> arrays;
  const size_t before = findings.errors();
  for (size_t i = 0; i < transfer.tensors.size(); ++i) {
    const TransferTensor& tensor = transfer.tensors[i];
    arrays.push_back(ArrayOf(transfer, i, output));
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
  return format.write(arrays, leaves, *source, options, findings);
}

}  // namespace shardc
