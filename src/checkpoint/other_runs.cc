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
#include "checkpoint/other_runs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/journal.h"
#include "importers/set_folder.h"
#include "source/directory.h"
#include "source/wording.h"

namespace shardc {
namespace {

constexpr std::chrono::milliseconds kPause(10);
constexpr std::chrono::seconds kLongestWait(10);

bool LockNow(int fd) {
  int status = 0;
  do {
    status = ::flock(fd, LOCK_EX | LOCK_NB);
  } while (status != 0 && errno == EINTR);
  return status == 0;
}

int OpenForLock(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

void Refuse(const Transfer& transfer, const std::string& why,
            Findings& findings) {
  findings.Add(code::kWrite, Place{MakeSource(transfer.directory, {})},
               "cannot write in `" + transfer.directory + "`: " + why);
}

// Returns whether a process holds the lock of the journal at `path`.
bool IsLive(const std::string& path) {
  const int fd = OpenForLock(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  const bool live = !LockNow(fd) && errno == EWOULDBLOCK;
  ::close(fd);
  return live;
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
                              name[series.size()] >= '0' &&
                              name[series.size()] <= '9';
                     });
}

std::vector<std::string> NamesInFolder(const Transfer& transfer) {
  std::error_code error;
  return NamesIn(transfer.directory, error)
      .value_or(std::vector<std::string>());
}

}  // namespace

std::optional<StartLock> StartLock::Take(const std::string& folder,
                                         Findings& findings) {
  const auto refuse = [&](const std::string& why) {
    findings.Add(code::kWrite, Place{MakeSource(folder, {})},
                 "cannot write in `" + folder + "`: " + why);
    return std::nullopt;
  };
  const int fd = OpenForLock(folder, O_RDONLY | O_DIRECTORY);
  if (fd < 0) return refuse(::strerror(errno));
  StartLock lock(fd);
  const auto end = std::chrono::steady_clock::now() + kLongestWait;
  while (!LockNow(fd)) {
    if (errno != EWOULDBLOCK) break;  // the file system supports no locks
    if (std::chrono::steady_clock::now() > end) {
      return refuse("another run is starting there");
    }
    std::this_thread::sleep_for(kPause);
  }
  return lock;
}

StartLock::StartLock(StartLock&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

StartLock::~StartLock() { Release(); }

void StartLock::Release() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

bool RefuseOtherRuns(const Transfer& transfer, const ProcessShare& share,
                     const std::string& key, Findings& findings) {
  const bool set = WritesSet(transfer.tag);
  for (const std::string& name : NamesInFolder(transfer)) {
    const auto journal = ParseJournalName(name);
    if (!journal) continue;
    const bool same = journal->tag == transfer.tag;
    // Journal::Open checks the lock of this run's own journal, so it is
    // skipped.
    if (same && journal->index == share.index &&
        journal->count == share.count) {
      continue;
    }
    const std::string path = transfer.PathOf(name);
    const bool sibling = same && share.count > 1 &&
                         journal->count == share.count &&
                         Journal::Read(path, key, transfer).has_value();
    if (sibling || !(set || same || WritesSet(journal->tag))) continue;
    if (!IsLive(path)) continue;
    Refuse(transfer, "another run is writing there (`" + name + "`)", findings);
    return true;
  }
  return false;
}

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

void RemoveLeftovers(const Transfer& transfer, std::string_view own) {
  const auto names = NamesInFolder(transfer);
  for (const std::string& name : names) {
    if (InSeries(transfer, NameOfPart(name))) {
      ::unlink(transfer.PathOf(name).c_str());
    }
  }
  for (const std::string& name : names) {
    const auto journal = ParseJournalName(name);
    if (journal && journal->tag == transfer.tag && name != own) {
      ::unlink(transfer.PathOf(name).c_str());
    }
  }
}

}  // namespace shardc
