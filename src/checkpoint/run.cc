// Runs a transfer in these steps: opens the journal, keeps the pieces of an
// interrupted run whose checksums are still correct, copies the remaining
// pieces, renames the files, writes the index and removes the journal. If
// several processes write the outputs, each process writes `done` to its
// journal instead of writing the index. A run with --finalize then checks that
// every process's journal contains `done`, and writes the index.
//
//   killed after 3 of 10 pieces, run again  ->  3 kept, 7 copied
#include "checkpoint/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "checkpoint/copy.h"
#include "importers/set_folder.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/input_file.h"
#include "source/sink.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "stored/checksum.h"
#include "stored/write.h"

namespace shardc {
namespace {

// Writes the files of a set under hidden names, header first, and renames them
// when the complete set is written. If the folder contains an earlier set, its
// index is first replaced by kResumeIndex, an index that marks an unfinished
// run. The set's own index is written last. A folder whose index is not
// kResumeIndex therefore contains one complete set. If there is no earlier set,
// the journal marks the unfinished run, because the journal exists until the
// index is written.
//
//   .device-00000.safetensors.part  ->  device-00000.safetensors

class OutputSet {
 public:
  // If `reuse` is true, the files of an earlier set are overwritten in place.
  // Otherwise they are kept until the new set is complete.
  OutputSet(const Transfer& transfer, bool reuse)
      : transfer_(transfer), reuse_(reuse), states_(transfer.outputs.size()) {}

  // Finds the pieces that an interrupted run has completed, and sets their
  // `checksums`. Removes each hidden file without a completed piece, unless
  // `reuse` was passed to the constructor.
  void TakeUp(const std::vector<bool>& own, const Journal& journal,
              Checksums& checksums);
  // Returns whether the output already has its final name and all its pieces.
  bool Complete(size_t output) const { return states_[output].complete; }

  // Opens an output's hidden file with its full size and its header. Returns
  // false after the finding `write`.
  bool Open(size_t output, CopyTarget* target, Findings& findings);
  bool Close(size_t output, CopyTarget* target, bool sync, Findings& findings);
  // Renames all hidden files to their final names. If the folder contains an
  // earlier index or an earlier file of the set, kResumeIndex replaces the
  // index before the first rename. A set without an index gets none. The caller
  // writes the new index afterwards. Returns false after a finding.
  bool Publish(Findings& findings);
  // Cleans up after a failure. Removes the hidden files. Also removes the files
  // that Publish has renamed, except those that replaced an earlier file. If
  // the index is kResumeIndex, which marks the set as unfinished, all renamed
  // files are kept. Returns false if a renamed file could not be removed. The
  // folder then contains files of an incomplete set that no index marks as
  // unfinished.
  bool Discard();

 private:
  struct State {
    bool part = false;      // whether the hidden file exists
    bool complete = false;  // whether the file has its final name
    // Whether Publish renamed the hidden file to a name that no file had.
    bool created = false;
  };
  bool Refuse(const std::string& path, Findings& findings) const;
  // Writes kResumeIndex under the name of the index, if the set has an index.
  bool RetireIndex(Findings& findings);
  // Returns whether the folder has a file or an index of an earlier set that
  // Publish is about to replace.
  bool ReplacesFiles() const;

  const Transfer& transfer_;
  bool reuse_ = false;
  std::vector<State> states_;
};

bool Exists(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0;
}

// Returns whether the file at `path` has the output's size and header.
bool IsFileOf(const std::string& path, const OutputFile& output) {
  // These findings are dropped. For a file that cannot be read, the result is
  // false.
  Findings findings;
  const auto file = InputFile::Open(path, findings);
  if (!file || file->size() != output.size) return false;
  const auto header = file->Head(output.header.size(), findings);
  return header && *header == output.header;
}

// Checks which pieces of the output the file at `path` contains. Returns for
// each piece its checksum from `expected` if the bytes in the file have this
// checksum, else nullopt. All results are nullopt if the file does not have the
// output's size and header.
std::vector<std::optional<uint32_t>> CheckFile(
    const std::string& path, const OutputFile& output,
    const std::vector<std::optional<uint32_t>>& expected) {
  std::vector<std::optional<uint32_t>> good(expected.size());
  Findings findings;
  const auto file = InputFile::Open(path, findings);
  if (!file || !IsFileOf(path, output)) return good;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i]) continue;
    const OutputPiece& piece = output.pieces[i];
    const auto crc = stored::ChecksumAt(*file, piece.offset, piece.bytes);
    if (crc == expected[i]) good[i] = crc;
  }
  return good;
}

// Returns whether the file is the mark kResumeIndex.
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

// Returns the hidden path under which an output is written until the set is
// complete.
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
  stored::Descriptor opened;
  if (!opened.Open(part, O_RDWR | O_NOFOLLOW | flags)) {
    return Refuse(part, findings);
  }
  target->fd = opened.Release();
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
  return stored::CloseFile(std::exchange(target->fd, -1), sync) ||
         Refuse(transfer_.PathOf(transfer_.outputs[output].name), findings);
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

// Finds other runs that write to the same folder. Every run locks its journal
// while it writes, so each locked journal in a folder belongs to a live run.
// The journal's name shows which files the run writes:
//
//   .merge-00000-of-00001.journal           a set of files `model-...`
//   .shards-00002-of-00004.journal          a set of shards, process 2 of 4
//   .a.safetensors-00000-of-00001.journal   the file `a.safetensors`
//
// A run that writes a set excludes all other runs in its folder, because its
// journal does not show the names of the files. Runs that write single files
// exclude only runs that write the same file.

void Refuse(const Transfer& transfer, const std::string& why,
            Findings& findings) {
  findings.Add(code::kWrite, Place{MakeSource(transfer.directory, {})},
               "cannot write in `" + transfer.directory + "`: " + why);
}

bool WritesSet(std::string_view tag) { return !tag.ends_with(".safetensors"); }

// Returns whether a file of this name could belong to the set of files that the
// transfer writes. Such a name is a prefix from `series`, then a digit, and it
// ends with `.safetensors`. If `series` has the prefix `model-`, an example is
// `model-00001-of-00002.safetensors`.
bool InSeries(const Transfer& transfer, std::string_view name) {
  if (!name.ends_with(".safetensors")) return false;
  return std::any_of(transfer.series.begin(), transfer.series.end(),
                     [&](const std::string& series) {
                       return name.starts_with(series) &&
                              name.size() > series.size() &&
                              IsDigit(name[series.size()]);
                     });
}

// Takes an exclusive lock on the transfer's folder, which a run holds while it
// checks for other runs and creates its journal. If two runs start at the same
// time, the second run then finds the journal of the first. On file systems
// that cannot lock folders (some NFS servers), no lock is taken. Adds the
// finding `write` and returns nullopt if the folder cannot be opened or another
// run holds the lock for ten seconds.
std::optional<stored::Descriptor> LockFolder(const Transfer& transfer,
                                             Findings& findings) {
  constexpr std::chrono::seconds kLongestWait(10);
  stored::Descriptor folder;
  if (!folder.Open(transfer.directory, O_RDONLY | O_DIRECTORY)) {
    Refuse(transfer, ::strerror(errno), findings);
    return std::nullopt;
  }
  if (stored::LockFile(folder.get(), kLongestWait) || errno != EWOULDBLOCK) {
    return folder;
  }
  Refuse(transfer, "another run is starting there", findings);
  return std::nullopt;
}

// Adds a finding `write` and returns true if another run is writing to the
// transfer's folder and could write the same files. A run that writes a set of
// files could write the same files as any other run. Two runs that each write a
// single file exclude each other only if the files have the same name.
// Processes of the same transfer, which have the same `key`, may run together.
bool RefuseOtherRuns(const Transfer& transfer, const ProcessShare& share,
                     const std::string& key, Findings& findings) {
  const bool set = WritesSet(transfer.tag);
  for (const auto& journal : stored::JournalsIn(transfer.directory, {})) {
    const bool same = journal.tag == transfer.tag;
    const bool sibling = same && journal.count == share.count;
    // Journal::Open checks the lock of this run's own journal, so it is
    // skipped.
    if (sibling && journal.index == share.index) continue;
    if (!(set || same || WritesSet(journal.tag))) continue;
    // No journal begins with an empty line, so a journal that is locked by a
    // process that is not a sibling always belongs to another run.
    if (!Journal::IsOfAnotherRun(transfer.PathOf(journal.name),
                                 sibling ? JournalStart(key) : "\n")) {
      continue;
    }
    Refuse(transfer, "another run is writing there (`" + journal.name + "`)",
           findings);
    return true;
  }
  return false;
}

// Adds a finding `write` and returns true if the folder contains files or an
// index that readers would mistake for files of the transfer's set, or if the
// folder cannot be listed.
bool RefuseForeignFiles(const Transfer& transfer, Findings& findings) {
  std::set<std::string> ours;
  for (const OutputFile& output : transfer.outputs) ours.insert(output.name);
  std::error_code error;
  auto foreign = NamesIn(transfer.directory, error);
  if (!foreign) {
    findings.Add(
        code::kWrite, Place{MakeSource(transfer.directory, {})},
        "cannot list `" + transfer.directory + "`: " + error.message());
    return true;
  }
  // A merge writes its index as `index_name`. An index with any other name
  // lists the files of an earlier set. The merge does not replace that index,
  // so it is reported as a foreign file.
  const bool indexed = transfer.tag == "merge";
  std::erase_if(*foreign, [&](const std::string& name) {
    const bool index = indexed && !name.starts_with('.') &&
                       name.ends_with(".safetensors.index.json") &&
                       name != transfer.index_name;
    return !index && (!InSeries(transfer, name) || ours.contains(name));
  });
  if (foreign->empty()) return false;
  findings.Add(code::kWrite, Place{MakeSource(transfer.directory, {})},
               "`" + transfer.directory + "` holds " +
                   Counted(static_cast<int64_t>(foreign->size()), "file") +
                   " of another set, such as `" + foreign->front() + "`",
               "choose an empty directory, or remove them first");
  return true;
}

// Removes what interrupted runs have left in the folder: journals with the tag
// of the transfer, such as `shards`, and hidden files of its set. The journal
// `own` stays, because its lock prevents other runs from starting. This
// function is called when the set is complete.
void RemoveLeftovers(const Transfer& transfer, std::string_view own) {
  std::error_code error;
  const auto names = NamesIn(transfer.directory, error);
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    if (InSeries(transfer, NameOfPart(name))) {
      ::unlink(transfer.PathOf(name).c_str());
    }
  }
  for (const auto& journal :
       stored::JournalsIn(transfer.directory, transfer.tag)) {
    if (journal.name == own) continue;
    ::unlink(transfer.PathOf(journal.name).c_str());
  }
}

constexpr size_t kSpareDescriptors = 64;
constexpr size_t kMostAtOnce = 4096;

// Raises the soft limit on open files to the hard limit, and returns the number
// of outputs that may be open at the same time.
size_t OutputsAtOnce(size_t inputs) {
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 64;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  const size_t all = std::min<size_t>(limit.rlim_cur, size_t{1} << 20);
  const size_t taken = inputs + kSpareDescriptors;
  return std::clamp<size_t>(all > taken ? all - taken : 1, 1, kMostAtOnce);
}

class Runner {
 public:
  Runner(const Transfer& transfer, const RunOptions& options, RunReport* report,
         Findings& findings)
      : transfer_(transfer),
        options_(options),
        report_(report),
        findings_(findings),
        outputs_(transfer, options.reuse),
        checksums_(transfer.outputs.size()) {
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < transfer.outputs.size(); ++i) {
      sizes.push_back(transfer.outputs[i].size);
      checksums_[i].resize(transfer.outputs[i].pieces.size());
    }
    own_ = OwnOutputs(sizes, options.share);
    report->size = MeasureTransfer(transfer, own_);
  }

  bool Run(const WriteIndex& write_index) {
    if (RefuseInputs(transfer_, findings_) || !MakeDirectory()) {
      RemoveDirectories();
      return false;
    }
    key_ = TransferKey(transfer_);
    auto lock = LockFolder(transfer_, findings_);
    if (!lock || RefuseForeignFiles(transfer_, findings_) ||
        RefuseOtherRuns(transfer_, options_.share, key_, findings_)) {
      RemoveDirectories();
      return false;
    }
    if (options_.finalize) return Finalize(write_index);
    const std::string path =
        JournalPath(options_.share.index, options_.share.count);
    auto journal = Journal::Open(path, key_, transfer_, findings_);
    lock.reset();
    if (!journal) {
      RemoveDirectories();
      return false;
    }
    outputs_.TakeUp(own_, *journal, checksums_);
    CountKept();
    if (!Copy(*journal) || !Verify() || !outputs_.Publish(findings_)) {
      // If Discard could not remove all files of an incomplete set, the journal
      // is kept. Readers then report an unfinished run.
      if (outputs_.Discard()) journal->Remove();
      RemoveDirectories();
      return false;
    }
    if (options_.share.count > 1) {
      if (journal->MarkDone()) return true;
      return RefuseJournal();
    }
    if (!PutIndex(write_index)) return false;
    RemoveLeftovers(transfer_, stored::JournalName(transfer_.tag, 0, 1));
    journal->Remove();
    return true;
  }

 private:
  std::string JournalPath(int64_t index, int64_t count) const {
    return transfer_.PathOf(stored::JournalName(transfer_.tag, index, count));
  }

  bool RefuseJournal() {
    findings_.Add(code::kWrite, Place{MakeSource(transfer_.directory, {})},
                  "cannot write the journal in `" + transfer_.directory +
                      "`: " + ::strerror(errno));
    return false;
  }

  // Removes the directories that this run created, if they are empty.
  void RemoveDirectories() {
    for (auto at = made_.rbegin(); at != made_.rend(); ++at) {
      if (::rmdir(at->c_str()) != 0) return;
    }
  }

  bool MakeDirectory() {
    std::error_code error;
    for (std::filesystem::path at = transfer_.directory;
         !at.empty() && !std::filesystem::exists(at, error);
         at = at.parent_path()) {
      if (at.has_filename()) made_.insert(made_.begin(), at.string());
    }
    std::filesystem::create_directories(transfer_.directory, error);
    if (!error) return true;
    findings_.Add(code::kWrite, Place{MakeSource(transfer_.directory, {})},
                  "cannot make the directory `" + transfer_.directory +
                      "`: " + error.message());
    return false;
  }

  void CountKept() {
    for (size_t i = 0; i < own_.size(); ++i) {
      for (size_t k = 0; k < checksums_[i].size(); ++k) {
        if (!checksums_[i][k]) continue;
        ++report_->pieces_kept;
        written_ += transfer_.outputs[i].pieces[k].bytes;
      }
    }
    for (size_t i = 0; i < own_.size(); ++i) {
      if (!own_[i]) continue;
      for (const OutputPiece& piece : transfer_.outputs[i].pieces) {
        total_ += piece.bytes;
      }
    }
  }

  bool Copy(Journal& journal) {
    std::vector<size_t> todo;
    for (size_t i = 0; i < own_.size(); ++i) {
      if (own_[i] && !outputs_.Complete(i)) todo.push_back(i);
    }
    // The files of a tree are opened and closed for each chunk, so they are not
    // among the open inputs.
    const size_t most =
        OutputsAtOnce(transfer_.tree == nullptr ? transfer_.sources.size() : 0);
    for (size_t at = 0; at < todo.size(); at += most) {
      const size_t end = std::min(at + most, todo.size());
      if (!CopyBatch({todo.begin() + static_cast<std::ptrdiff_t>(at),
                      todo.begin() + static_cast<std::ptrdiff_t>(end)},
                     journal)) {
        return false;
      }
    }
    return true;
  }

  bool CopyBatch(const std::vector<size_t>& batch, Journal& journal) {
    std::vector<CopyTarget> files(transfer_.outputs.size());
    bool good = true;
    for (const size_t output : batch) {
      good = good && outputs_.Open(output, &files[output], findings_);
    }
    CopyOptions copy;
    copy.threads = options_.threads;
    if (options_.memory_bytes) {
      copy.memory_bytes = copy.tree_bytes = *options_.memory_bytes;
    }
    copy.piece_done = [&](size_t output, size_t piece, uint32_t crc) {
      return journal.Add(output, piece, crc);
    };
    if (options_.progress) {
      copy.progress = [&](int64_t bytes) {
        written_ += bytes;
        options_.progress(written_, total_);
      };
    }
    good = good && CopyPieces(transfer_, files, checksums_, copy, findings_);
    for (const size_t output : batch) {
      // After a failure the files are removed, so they are not synced, and only
      // the first finding is reported.
      Findings closing;
      const bool closed = outputs_.Close(output, &files[output],
                                         options_.sync && good, closing);
      if (good && !closed) findings_.Append(std::move(closing));
      good = good && closed;
    }
    if (!good) return false;
    return journal.Flush() || RefuseJournal();
  }

  bool CheckOutput(size_t output, const std::string& path) {
    if (CheckFile(path, transfer_.outputs[output], checksums_[output]) ==
        checksums_[output]) {
      return true;
    }
    findings_.Add(
        code::kWrite, Place{MakeSource(path, {})},
        "`" + transfer_.PathOf(transfer_.outputs[output].name) +
            "` differs from what was written to it",
        "run the command again; if the error repeats, check the disk");
    return false;
  }

  bool Verify() {
    if (!options_.verify) return true;
    for (size_t i = 0; i < own_.size(); ++i) {
      if (!own_[i]) continue;
      const std::string path = outputs_.Complete(i)
                                   ? transfer_.PathOf(transfer_.outputs[i].name)
                                   : PartPath(transfer_, transfer_.outputs[i]);
      if (!CheckOutput(i, path)) return false;
    }
    return true;
  }

  bool PutIndex(const WriteIndex& write_index) {
    if (!transfer_.index_name.empty()) {
      FileSink file(transfer_.PathOf(transfer_.index_name),
                    FileSink::Links::kReplace);
      write_index(checksums_, file);
      if (!file.Commit(findings_)) return false;
    }
    report_->indexed = true;
    return true;
  }

  bool Finalize(const WriteIndex& write_index) {
    const int64_t count =
        options_.share.count > 1
            ? options_.share.count
            : stored::CountProcesses(transfer_.directory, transfer_.tag);
    std::vector<int64_t> unfinished;
    bool open = false, written = false;
    for (int64_t i = 0; i < count; ++i) {
      const auto journal =
          Journal::Read(JournalPath(i, count), key_, transfer_);
      open = open || (journal && !journal->done());
      written = written || (journal && journal->resumed());
      if (!journal || !journal->done()) {
        unfinished.push_back(i);
        continue;
      }
      Merge(journal->recorded(), i, count);
    }
    // If the journals of some processes are missing, an earlier --finalize may
    // have completed the set and removed them. If the index is complete, this
    // is certain in two cases:
    //
    //   1. No journal is left.
    //   2. A journal is left, and it records pieces. Its process replaced any
    //      earlier index by kResumeIndex before it renamed its files. The
    //      complete index was therefore written afterwards, by a --finalize
    //      that was interrupted while it removed the journals.
    const bool none = static_cast<int64_t>(unfinished.size()) == count;
    if (!unfinished.empty() && !open && (none || written) && IsComplete()) {
      report_->indexed = true;
      if (!none) RemoveLeftovers(transfer_, {});
      return true;
    }
    if (!unfinished.empty()) {
      stored::AddUnfinished(
          transfer_.directory, unfinished, count,
          "run these again with --process-index, then --finalize", findings_);
      return false;
    }
    for (size_t i = 0; i < transfer_.outputs.size(); ++i) {
      if (!CheckWritten(i)) return false;
    }
    if (!PutIndex(write_index)) return false;
    RemoveLeftovers(transfer_, {});
    stored::RemoveJournals(transfer_.directory, transfer_.tag, count);
    return true;
  }

  void Merge(const Checksums& recorded, int64_t index, int64_t count) {
    const ProcessShare share{index, count, {}};
    std::vector<int64_t> sizes;
    for (const OutputFile& output : transfer_.outputs) {
      sizes.push_back(output.size);
    }
    const std::vector<bool> own = OwnOutputs(sizes, share);
    for (size_t i = 0; i < own.size(); ++i) {
      if (own[i]) checksums_[i] = recorded[i];
    }
  }

  // Returns whether the set is complete: all outputs exist, and the index
  // exists and is not kResumeIndex.
  bool IsComplete() const {
    if (transfer_.index_name.empty() ||
        IsResumeIndex(transfer_.PathOf(transfer_.index_name))) {
      return false;
    }
    std::error_code error;
    if (!std::filesystem::exists(transfer_.PathOf(transfer_.index_name),
                                 error)) {
      return false;
    }
    return std::all_of(transfer_.outputs.begin(), transfer_.outputs.end(),
                       [&](const OutputFile& output) {
                         return IsFileOf(transfer_.PathOf(output.name), output);
                       });
  }

  // Checks that all pieces of an output are recorded, and that the file has the
  // output's size and header. With `verify`, also checks the checksums of all
  // pieces.
  bool CheckWritten(size_t output) {
    const OutputFile& file = transfer_.outputs[output];
    const std::string path = transfer_.PathOf(file.name);
    const auto& known = checksums_[output];
    const bool all = std::all_of(known.begin(), known.end(),
                                 [](const auto& crc) { return !!crc; });
    if (!all || !IsFileOf(path, file)) {
      findings_.Add(code::kMissing, Place{MakeSource(path, {})},
                    "`" + path + "` is not complete",
                    "run its process again, then --finalize");
      return false;
    }
    return !options_.verify || CheckOutput(output, path);
  }

  const Transfer& transfer_;
  const RunOptions& options_;
  RunReport* report_;
  Findings& findings_;
  OutputSet outputs_;
  Checksums checksums_;
  std::vector<bool> own_;
  std::vector<std::string> made_;  // folders that this run created
  std::string key_;
  int64_t written_ = 0;
  int64_t total_ = 0;
};

}  // namespace

bool RefuseInputs(const Transfer& transfer, Findings& findings) {
  std::vector<std::string> paths;
  for (const OutputFile& output : transfer.outputs) {
    paths.push_back(transfer.PathOf(output.name));
    paths.push_back(PartPath(transfer, output));
  }
  if (!transfer.index_name.empty()) {
    paths.push_back(transfer.PathOf(transfer.index_name));
  }
  return std::any_of(paths.begin(), paths.end(), [&](const std::string& path) {
    return RefuseInput(path, findings);
  });
}

bool RunTransfer(const Transfer& transfer, const WriteIndex& write_index,
                 const RunOptions& options, RunReport* report,
                 Findings& findings) {
  return Runner(transfer, options, report, findings).Run(write_index);
}

}  // namespace shardc
