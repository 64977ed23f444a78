// Divides arrays into chunks, and writes the chunks in batches that fit in
// memory. All threads read and encode the chunks of a batch. The calling thread
// then stores them in order, so the bytes of a checkpoint do not depend on the
// number of threads:
//
//   memory for 4 chunks, 10 chunks  ->  batches of 4, 4 and 2
#include "stored/write_chunks.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <system_error>
#include <utility>

#include "model/name.h"
#include "model/name_fault.h"
#include "source/checked.h"
#include "source/index.h"
#include "source/thread_pool.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc::stored {
namespace {

constexpr size_t kNameLimitBytes = 4096;
// kChunkLimitBytes keeps the zip archive of a chunk far below 4 GiB. Larger zip
// archives would need 64-bit fields. Batches of more than kBatchLimit chunks
// would not be faster.
constexpr int64_t kChunkLimitBytes = int64_t{1} << 30;
constexpr size_t kBatchLimit = 1024;

// Checks the paths of arrays and leaves. Their names must be valid. No two
// paths may have the same text when their keys are joined by dots or by
// slashes. No path may begin with the complete path of another array or leaf.
class PathCheck {
 public:
  PathCheck(const WriteOptions& options, Findings& findings)
      : place_{MakeSource(options.folder, {})}, findings_(findings) {}

  void Add(const std::vector<std::string>& path) {
    const std::string name = StorageName(path);
    const std::string shown = JoinKeys(path, '/');
    if (!IsUtf8(name) || name.size() > kNameLimitBytes) {
      findings_.Add(code::kName, place_,
                    "the name " + ShortQuote(name) +
                        " has more than 4,096 bytes or is not UTF-8",
                    "rename it");
    } else if (auto fault = ParameterNameFault(name); !fault.empty()) {
      findings_.Add(code::kName, place_, std::move(fault), "rename it");
    }
    if (!names_.insert(name).second || !shown_.insert(shown).second) {
      findings_.Add(
          code::kDuplicateKey, place_,
          "two paths have the name " + ShortQuote(name) + " in the checkpoint",
          "rename one of the keys");
    }
    paths_.insert(path);
  }

  // Reports each array or leaf whose path is the start of another path.
  bool Finish() {
    for (auto next = paths_.begin(); next != paths_.end();) {
      const auto path = next++;
      if (next == paths_.end() || next->size() <= path->size() ||
          !std::equal(path->begin(), path->end(), next->begin())) {
        continue;
      }
      findings_.Add(code::kDuplicateKey, place_,
                    ShortQuote(JoinKeys(*path, '/')) +
                        " is an array or a value, and " +
                        ShortQuote(JoinKeys(*next, '/')) + " is inside it",
                    "rename one of the keys");
    }
    return !findings_.HasErrors();
  }

 private:
  Place place_;
  Findings& findings_;
  std::set<std::string> names_;
  std::set<std::string> shown_;
  std::set<std::vector<std::string>> paths_;
};

// Returns the wanted shape of a chunk, with its first dimensions reduced so far
// that the chunk has at most `limit_bytes` bytes.
Shape Fit(const ArrayToWrite& array, int64_t limit_bytes) {
  Shape out = array.chunk.empty() ? array.shape : array.chunk;
  int64_t bytes = StoredBytes(array.dtype);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] =
        std::clamp<int64_t>(out[i], 1, std::max<int64_t>(array.shape[i], 1));
    bytes *= out[i];
  }
  for (size_t i = 0; i < out.size() && bytes > limit_bytes; ++i) {
    bytes /= out[i];
    out[i] = std::max<int64_t>(
        1, std::min(out[i], limit_bytes / std::max<int64_t>(bytes, 1)));
    bytes *= out[i];
  }
  return out;
}

struct Task {
  size_t array = 0;
  int64_t chunk = 0;
  bool read = false;
  std::string encoded;
  Findings findings;
};

// Returns the number of bytes of the elements of a full chunk.
int64_t ChunkBytes(const Array& array) {
  return CheckedProduct(array.chunk).value_or(1) * array.element_bytes;
}

// Divides a range of the chunks of all arrays into batches.
class Batches {
 public:
  Batches(std::span<const Array> arrays, ChunkRange range, int64_t memory_bytes)
      : arrays_(arrays),
        memory_bytes_(memory_bytes),
        chunk_(range.begin),
        left_(range.end - range.begin) {}

  // Returns the next chunks that together fit in memory, and at least one
  // chunk. Returns an empty list after the last chunk.
  std::vector<Task> Next() {
    std::vector<Task> out;
    int64_t bytes = 0;
    while (array_ < arrays_.size() && left_ > 0 && out.size() < kBatchLimit) {
      const Array& array = arrays_[array_];
      if (chunk_ >= array.Chunks()) {
        ++array_;
        chunk_ -= array.Chunks();
        continue;
      }
      // The memory is needed twice: for the elements and for the encoded chunk,
      // which may be padded.
      bytes += 2 * ChunkBytes(array);
      if (!out.empty() && bytes > memory_bytes_) break;
      --left_;
      Task& task = out.emplace_back();
      task.array = array_;
      task.chunk = chunk_++;
    }
    return out;
  }

 private:
  std::span<const Array> arrays_;
  int64_t memory_bytes_;
  size_t array_ = 0;
  int64_t chunk_ = 0;  // index of a chunk in the array `array_`
  int64_t left_ = 0;
};

}  // namespace

int64_t StoredBytes(Dtype dtype) { return CeilDiv(DtypeBits(dtype), 8); }

bool IsWritten(const Leaf& leaf, WriteForm form) {
  switch (leaf.kind) {
    case Leaf::Kind::kString:
    case Leaf::Kind::kEmpty:
      return true;
    case Leaf::Kind::kNumber:
      return form == WriteForm::kOrbax;
    case Leaf::Kind::kOpaque:
      return form == WriteForm::kDcp && leaf.place.has_value();
  }
  return false;
}

std::string_view UnfinishedEnding(WriteForm form) {
  return form == WriteForm::kDcp ? ".dcp-tmp-shardc"
                                 : ".orbax-checkpoint-tmp-shardc";
}

void CompleteLists::Add(const std::vector<std::string>& path,
                        const std::vector<bool>& in_sequence) {
  for (size_t key = 0; key < std::min(path.size(), in_sequence.size()); ++key) {
    if (!in_sequence[key]) continue;
    const auto end = path.begin() + static_cast<std::ptrdiff_t>(key);
    numbers_[std::vector<std::string>(path.begin(), end)].insert(
        NumberOf(path[key]).value_or(INT64_MAX));
  }
}

bool CompleteLists::IsIndex(const std::vector<std::string>& path,
                            const std::vector<bool>& in_sequence,
                            size_t key) const {
  if (key >= in_sequence.size() || !in_sequence[key]) return false;
  const auto end = path.begin() + static_cast<std::ptrdiff_t>(key);
  const auto list = numbers_.find(std::vector<std::string>(path.begin(), end));
  return list != numbers_.end() && *list->second.begin() == 0 &&
         *list->second.rbegin() == std::ssize(list->second) - 1;
}

std::optional<int64_t> NumberOf(const std::string& key) {
  int64_t number = 0;
  const char* end = key.data() + key.size();
  const auto [at, error] = std::from_chars(key.data(), end, number);
  if (error != std::errc() || at != end) return std::nullopt;
  return number;
}

std::vector<std::string> PathOf(const Leaf& leaf) {
  if (!leaf.path.empty()) return leaf.path;
  const auto parts = SplitName(leaf.name, '/');
  return {parts.begin(), parts.end()};
}

std::optional<std::vector<Array>> DivideArrays(
    std::span<const ArrayToWrite> arrays, std::span<const Leaf> leaves,
    WriteForm form, const WriteOptions& options, Findings& findings) {
  const int64_t limit_bytes = std::min(
      kChunkLimitBytes, std::max<int64_t>(options.memory_bytes / 4, 1));
  PathCheck paths(options, findings);
  std::vector<Array> out;
  out.reserve(arrays.size());
  for (const ArrayToWrite& array : arrays) {
    paths.Add(array.path);
    Array& divided = out.emplace_back();
    divided.name = JoinKeys(array.path, '/');
    divided.path = array.path;
    divided.in_sequence = array.in_sequence;
    divided.key = StorageName(array.path);
    divided.shape = array.shape;
    divided.dtype = array.dtype;
    divided.element_bytes = StoredBytes(array.dtype);
    divided.sharding = array.sharding;
    divided.random_key = array.random_key;
    const auto elements = CheckedProduct(array.shape);
    if (!elements || !CheckedMul(*elements, divided.element_bytes)) {
      findings.Add(code::kOverflow, {MakeSource(options.folder, {})},
                   "the bytes of " + ShortQuote(divided.name) + " of shape " +
                       ShapeText(array.shape) + " do not fit in 64 bits");
      return std::nullopt;
    }
    divided.chunk = Fit(array, limit_bytes);
  }
  for (const Leaf& leaf : leaves) {
    if (IsWritten(leaf, form)) paths.Add(PathOf(leaf));
  }
  if (!paths.Finish()) return std::nullopt;
  return out;
}

ChunkRange ShareOf(std::span<const Array> arrays, int64_t process,
                   int64_t processes) {
  // The bytes of all arrays are divided into one section of equal size for each
  // process. A chunk belongs to the process whose section contains the middle
  // of the chunk, as in checkpoint/ownership.cc.
  double total = 0;
  int64_t chunks = 0;
  for (const Array& array : arrays) {
    total += static_cast<double>(ChunkBytes(array)) *
             static_cast<double>(array.Chunks());
    chunks += array.Chunks();
  }
  const auto begin_of = [&](int64_t first) {
    if (first >= processes) return chunks;
    const double begin =
        total * static_cast<double>(first) / static_cast<double>(processes);
    double before = 0;
    int64_t count = 0;
    for (const Array& array : arrays) {
      const auto bytes = static_cast<double>(ChunkBytes(array));
      const double middles = (begin - before) / bytes - 0.5;
      count += static_cast<int64_t>(std::clamp(
          std::ceil(middles), 0.0, static_cast<double>(array.Chunks())));
      before += bytes * static_cast<double>(array.Chunks());
    }
    return count;
  };
  return {begin_of(process), begin_of(process + 1)};
}

bool WriteChunks(std::span<const Array> arrays, ChunkRange range,
                 const BoxSource& source, const WriteOptions& options,
                 const EncodeChunk& encode, const StoreChunk& store,
                 Findings& findings) {
  ThreadPool pool(std::max(options.threads, 1));
  Batches batches(arrays, range, options.memory_bytes);
  for (auto batch = batches.Next(); !batch.empty(); batch = batches.Next()) {
    pool.Run(static_cast<int64_t>(batch.size()), [&](int64_t i, int) {
      Task& task = batch[AsIndex(i)];
      const Array& array = arrays[task.array];
      const Box box = array.BoxOf(task.chunk);
      std::string elements(AsIndex(box.Elements() * array.element_bytes), '\0');
      task.read = source.Read(task.array, box, elements.data(), task.findings);
      if (task.read) task.encoded = encode(array, box, std::move(elements));
    });
    for (Task& task : batch) {
      findings.Append(std::move(task.findings));
      if (!task.read || !store(task.array, task.chunk, task.encoded)) {
        return false;
      }
      task.encoded = {};
    }
  }
  return true;
}

}  // namespace shardc::stored
