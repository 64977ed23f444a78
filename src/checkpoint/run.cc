// Runs a transfer in these steps: opens the journal, keeps the pieces of an
// interrupted run whose checksums are still correct, copies the remaining
// pieces, renames the files, writes the index and removes the journal. If
// several processes write the outputs, each process writes `done` to its
// journal instead of writing the index. A run with --finalize then checks that
// every process's journal contains `done`, and writes the index.
//
//   killed after 3 of 10 pieces, run again  ->  3 kept, 7 copied
#include "checkpoint/run.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "checkpoint/copy.h"
#include "checkpoint/journal.h"
#include "checkpoint/other_runs.h"
#include "checkpoint/output_set.h"
#include "importers/set_folder.h"
#include "source/directory.h"
#include "source/file_sink.h"
#include "source/wording.h"

namespace shardc {
namespace {

constexpr size_t kSpareDescriptors = 64;
constexpr size_t kMostAtOnce = 4096;
constexpr int64_t kMostProcesses = 1'000'000;

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
    auto lock = StartLock::Take(transfer_.directory, findings_);
    if (!lock || RefuseForeignFiles(transfer_, findings_) ||
        RefuseOtherRuns(transfer_, options_.share, key_, findings_)) {
      RemoveDirectories();
      return false;
    }
    if (options_.finalize) return Finalize(write_index);
    const std::string path =
        JournalPath(options_.share.index, options_.share.count);
    auto journal = Journal::Open(path, key_, transfer_, findings_);
    lock->Release();
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
    RemoveLeftovers(transfer_, JournalName(transfer_.tag, 0, 1));
    journal->Remove();
    return true;
  }

 private:
  std::string JournalPath(int64_t index, int64_t count) const {
    return transfer_.PathOf(JournalName(transfer_.tag, index, count));
  }

  // Returns the number of processes that write the set. This is `share.count`
  // if it is above 1. Otherwise it is read from a journal's name; without
  // journals it is 1.
  int64_t Processes() const {
    if (options_.share.count > 1) return options_.share.count;
    std::error_code error;
    const auto names = NamesIn(transfer_.directory, error);
    for (const std::string& name : names.value_or(std::vector<std::string>())) {
      const auto journal = ParseJournalName(name);
      if (journal && journal->tag == transfer_.tag) {
        return std::clamp<int64_t>(journal->count, 1, kMostProcesses);
      }
    }
    return 1;
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
    const int64_t count = Processes();
    std::vector<std::string> unfinished;
    bool open = false, written = false;
    for (int64_t i = 0; i < count; ++i) {
      const auto journal =
          Journal::Read(JournalPath(i, count), key_, transfer_);
      open = open || (journal && !journal->done());
      written = written || (journal && journal->resumed());
      if (!journal || !journal->done()) {
        unfinished.push_back(std::to_string(i));
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
    if (!unfinished.empty()) return RefuseUnfinished(unfinished, count);
    for (size_t i = 0; i < transfer_.outputs.size(); ++i) {
      if (!CheckWritten(i)) return false;
    }
    if (!PutIndex(write_index)) return false;
    RemoveLeftovers(transfer_, {});
    for (int64_t i = 0; i < count; ++i) ::unlink(JournalPath(i, count).c_str());
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

  bool RefuseUnfinished(const std::vector<std::string>& unfinished,
                        int64_t count) {
    std::string list;
    for (size_t i = 0; i < unfinished.size() && i < 20; ++i) {
      list += (i == 0 ? "" : ", ") + unfinished[i];
    }
    if (unfinished.size() > 20) list += ", ...";
    findings_.Add(code::kMissing, Place{MakeSource(transfer_.directory, {})},
                  "the parts of " +
                      Counted(static_cast<int64_t>(unfinished.size()),
                              "process", "processes") +
                      " of " + std::to_string(count) +
                      " are not complete: " + list,
                  "run these again with --process-index, then --finalize");
    return false;
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
