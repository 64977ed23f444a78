// Divides arrays into chunks, and writes the chunks in batches that fit in
// memory. All threads read and encode the chunks of a batch. The calling thread
// then stores them in order, so the bytes of a checkpoint do not depend on the
// number of threads:
//
//   memory for 4 chunks, 10 chunks  ->  batches of 4, 4 and 2
#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "model/name.h"
#include "source/digest.h"
#include "source/input_file.h"
#include "source/process.h"
#include "source/sink.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "stored/checksum.h"
#include "stored/write.h"

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
  // of the chunk, as in checkpoint/transfer.cc.
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

// Runs one process of a save. Each process has a data file, to which it appends
// its share of the chunks, and a journal that lists them. When all processes
// have ended, the checkpoint is completed from their journals:
//
//   ckpt.dcp-tmp-shardc/__0_0.distcp                      chunks 0 to 4
//                      /__1_0.distcp                      chunks 5 to 9
//                      /.shardc-00000-of-00002.journal    5 lines, done
//                      /.shardc-00001-of-00002.journal    3 lines: was killed
//
// If process 1 is run again, it keeps chunks 5 to 7 if their checksums are
// correct, and writes chunks 8 and 9. Several processes share the lock of the
// folder. The process that completes the checkpoint needs an exclusive lock.

namespace {

constexpr std::string_view kTag = "shardc";

// Returns a digest of everything that determines the bytes of the data files
// except WriteOptions::state. It covers the sources, the format, whether chunks
// are compressed, the number of processes, and the grids of chunks. Returns an
// empty text if the caller states no sources, because such a run must not be
// continued.
std::string KeyOf(std::span<const Array> arrays, const WriteOptions& options,
                  WriteForm form, int64_t processes) {
  if (options.sources.empty()) return {};
  Sha256Sink sink;
  sink.Append(options.sources + "\n" + std::to_string(static_cast<int>(form)) +
              (options.compress ? " compressed " : " ") +
              std::to_string(processes) + "\n");
  for (const Array& array : arrays) {
    sink.Append(std::to_string(array.key.size()) + " " + array.key +
                ShapeText(array.shape) + std::string(DtypeName(*array.dtype)) +
                ShapeText(array.chunk) + "\n");
  }
  return sink.Hex();
}

// Returns the end of the last chunk in the data file; 0 if the file has none.
int64_t EndOf(std::span<const WrittenChunk> chunks) {
  for (auto at = chunks.rbegin(); at != chunks.rend(); ++at) {
    if (!at->held) return at->offset + at->bytes;
  }
  return 0;
}

class PartsRun {
 public:
  PartsRun(std::span<const Array> arrays, const BoxSource& source,
           const WriteOptions& options, PartsFormat& format, Findings& findings)
      : arrays_(arrays),
        source_(source),
        options_(options),
        format_(format),
        findings_(findings),
        processes_(std::max<int64_t>(options.processes, 1)) {}

  bool Run() {
    if (options_.finalize && FinishPublished()) return true;
    const FolderUse use = options_.finalize ? FolderUse::kComplete
                          : processes_ > 1  ? FolderUse::kShared
                                            : FolderUse::kAlone;
    auto folder = NewFolder::Create(
        options_.folder, UnfinishedEnding(format_.form()), findings_, use);
    if (!folder) return false;
    folder_.emplace(std::move(*folder));
    if (options_.finalize && processes_ == 1) {
      processes_ = CountProcesses(folder_->PathOf(""), kTag);
    }
    key_ = {KeyOf(arrays_, options_, format_.form(), processes_),
            options_.state};
    if (!options_.finalize) {
      if (!WriteShare()) return false;
      if (processes_ > 1) {
        folder_->Leave();
        return true;
      }
    }
    return Complete();
  }

 private:
  // The share of one process: its range of chunks, its data file and its
  // journal.
  struct Share {
    ChunkRange range;
    std::string file;     // path of the data file in the checkpoint's folder
    std::string journal;  // path of the journal in the checkpoint's folder
  };
  Share ShareOfProcess(int64_t process) const {
    return {ShareOf(arrays_, process, processes_),
            format_.DataFile(process, processes_),
            JournalName(kTag, process, processes_)};
  }

  // Removes the journals of a checkpoint that an earlier run with the same
  // options completed and renamed before it was killed. Returns false if there
  // is no such checkpoint.
  bool FinishPublished() {
    const auto journals = JournalsIn(options_.folder, kTag);
    if (journals.empty()) return false;
    const JournalKey key{
        KeyOf(arrays_, options_, format_.form(), journals.front().count),
        options_.state};
    for (const JournalParts& journal : journals) {
      if (!ChunkJournal::Read(options_.folder + "/" + journal.name, key)) {
        return false;
      }
    }
    for (const JournalParts& journal : journals) {
      ::unlink((options_.folder + "/" + journal.name).c_str());
    }
    if (options_.report != nullptr) options_.report->complete = true;
    return true;
  }

  bool RefuseJournal(const std::string& name) {
    AddWriteError(folder_->PathOf(name), errno, findings_);
    return false;
  }

  bool RefuseOtherRuns(const Share& share) {
    for (const JournalParts& journal : JournalsIn(folder_->PathOf(""), kTag)) {
      if (journal.name == share.journal ||
          !JournalFile::IsOfAnotherRun(folder_->PathOf(journal.name),
                                       key_.Start())) {
        continue;
      }
      findings_.Add(code::kWrite, {MakeSource(options_.folder, {})},
                    "a run with other options or another number of processes "
                    "is writing `" +
                        options_.folder + "`",
                    "wait for it or choose another name");
      return true;
    }
    return false;
  }

  // Writes the chunks of this process. Returns false after a finding.
  bool WriteShare() {
    const Share share = ShareOfProcess(options_.process);
    auto journal =
        ChunkJournal::Open(folder_->PathOf(share.journal), key_, findings_);
    if (!journal) return false;
    if (RefuseOtherRuns(share)) {
      // The data file is not removed, because another run may have written it.
      if (journal->chunks().empty()) journal->Remove();
      return false;
    }
    if (WriteRange(share, *journal)) return true;
    ::unlink(folder_->PathOf(share.file).c_str());
    journal->Remove();
    return false;
  }

  bool WriteRange(const Share& share, ChunkJournal& journal) {
    const std::string kept[] = {share.file, share.journal};
    if (processes_ == 1 && !folder_->RemoveOthers(kept, findings_)) {
      return false;
    }
    const size_t slash = share.file.find('/');
    if (slash != std::string::npos &&
        !folder_->MakeFolder(share.file.substr(0, slash), findings_)) {
      return false;
    }
    const std::string path = folder_->PathOf(share.file);
    const auto wanted = AsIndex(share.range.end - share.range.begin);
    size_t intact = 0;
    if (!journal.chunks().empty()) {
      intact = std::min(CountIntact(path, journal.chunks()), wanted);
    }
    if (!journal.Keep(intact)) return RefuseJournal(share.journal);
    auto file = NewFile::Continue(path, EndOf(journal.chunks()), findings_);
    if (!file) return false;
    const auto store = [&](size_t, int64_t, std::string_view bytes) {
      WrittenChunk chunk;
      chunk.offset = file->size();
      chunk.bytes = static_cast<int64_t>(bytes.size());
      chunk.crc = Crc32c(bytes);
      if (chunk.bytes <= format_.held_bytes()) {
        chunk.held = bytes;
      } else if (!file->Append(bytes, findings_)) {
        return false;
      }
      return journal.Add(std::move(chunk)) || RefuseJournal(share.journal);
    };
    const auto encode = [&](const Array& array, const Box& box,
                            std::string elements) {
      return format_.Encode(array, box, std::move(elements));
    };
    const ChunkRange rest{share.range.begin + static_cast<int64_t>(intact),
                          share.range.end};
    if (!WriteChunks(arrays_, rest, source_, options_, encode, store,
                     findings_) ||
        !source_.Finish(findings_) || !file->Close(findings_) ||
        (options_.verify && !Verify(path, journal.chunks()))) {
      return false;
    }
    if (options_.report != nullptr) {
      options_.report->chunks = share.range.end - share.range.begin;
      options_.report->chunks_kept = static_cast<int64_t>(intact);
    }
    return journal.MarkDone() || RefuseJournal(share.journal);
  }

  bool Verify(const std::string& path, std::span<const WrittenChunk> chunks) {
    if (CountIntact(path, chunks) == chunks.size()) return true;
    findings_.Add(
        code::kWrite, {MakeSource(path, {})},
        "`" + path + "` differs from what was written to it",
        "run the command again; if the error repeats, check the disk");
    return false;
  }

  // Collects the chunks of all processes. Returns nullopt after a finding.
  std::optional<WrittenParts> Gather() {
    std::vector<std::string> files;
    std::vector<WrittenChunk> chunks;
    std::vector<int64_t> unfinished;
    int64_t first_bytes = 0;
    for (int64_t process = 0; process < processes_; ++process) {
      const Share share = ShareOfProcess(process);
      const auto journal =
          ChunkJournal::Read(folder_->PathOf(share.journal), key_);
      const auto wanted = AsIndex(share.range.end - share.range.begin);
      if (!journal || !journal->done() || journal->chunks().size() != wanted) {
        unfinished.push_back(process);
        continue;
      }
      const std::string path = folder_->PathOf(share.file);
      const int64_t end = EndOf(journal->chunks());
      if (process == 0) first_bytes = end;
      const auto file = InputFile::Open(path, findings_);
      if (!file) return std::nullopt;
      if (file->size() < end) {
        findings_.Add(code::kMissing, {MakeSource(path, {})},
                      "`" + path + "` is not complete",
                      "run process " + std::to_string(process) +
                          " again, then --finalize");
        return std::nullopt;
      }
      if (options_.finalize && options_.verify &&
          !Verify(path, journal->chunks())) {
        return std::nullopt;
      }
      files.push_back(share.file);
      for (WrittenChunk chunk : journal->chunks()) {
        chunk.process = AsIndex(process);
        chunks.push_back(std::move(chunk));
      }
    }
    if (!unfinished.empty()) {
      AddUnfinished(options_.folder, unfinished, processes_,
                    "run these again with the same options and "
                    "--process-index, then --finalize",
                    findings_);
      return std::nullopt;
    }
    auto first =
        NewFile::Continue(folder_->PathOf(files[0]), first_bytes, findings_);
    if (!first) return std::nullopt;
    return WrittenParts{std::move(files), std::move(chunks), std::move(*first)};
  }

  bool Complete() {
    auto parts = Gather();
    if (!parts) return false;
    std::vector<std::string> kept = parts->files;
    for (int64_t process = 0; process < processes_; ++process) {
      kept.push_back(JournalName(kTag, process, processes_));
    }
    if (!folder_->RemoveOthers(kept, findings_) ||
        !format_.Complete(std::move(*parts), *folder_, findings_)) {
      return false;
    }
    // A single process removes its journal before the folder is renamed. If the
    // process is killed in between, only its own work is lost. If there are
    // several processes, the journals are removed after renaming, so that the
    // work of no process can be lost. If the run is killed in between, journals
    // remain in the checkpoint, where they do no harm.
    const bool alone = processes_ == 1;
    if (alone) RemoveJournals(folder_->PathOf(""), kTag, processes_);
    if (!folder_->Publish(findings_)) return false;
    if (!alone) RemoveJournals(options_.folder, kTag, processes_);
    if (options_.report != nullptr) options_.report->complete = true;
    return true;
  }

  std::span<const Array> arrays_;
  const BoxSource& source_;
  const WriteOptions& options_;
  PartsFormat& format_;
  Findings& findings_;
  int64_t processes_;
  JournalKey key_;
  std::optional<NewFolder> folder_;
};

}  // namespace

bool WriteParts(std::span<const Array> arrays, const BoxSource& source,
                const WriteOptions& options, PartsFormat& format,
                Findings& findings) {
  return PartsRun(arrays, source, options, format, findings).Run();
}

}  // namespace shardc::stored
