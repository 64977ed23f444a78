// Handles several runs that write to the same folder. A run is refused while
// another one writes files that both could write. Files that an interrupted run
// has left are removed by the next run that completes the set.
#ifndef SHARDC_CHECKPOINT_OTHER_RUNS_H_
#define SHARDC_CHECKPOINT_OTHER_RUNS_H_

#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/ownership.h"
#include "checkpoint/transfer.h"
#include "source/finding.h"

namespace shardc {

// An exclusive lock on a folder, which a run holds while it checks for other
// runs and creates its journal. If two runs start at the same time, the second
// one then finds the journal of the first. File systems that cannot lock
// folders (some NFS servers) have no such lock.
class StartLock {
 public:
  // Waits up to ten seconds for the lock. Returns nullopt after a finding
  // (write).
  static std::optional<StartLock> Take(const std::string& folder,
                                       Findings& findings);
  StartLock(StartLock&& other) noexcept;
  StartLock& operator=(StartLock&&) = delete;
  ~StartLock();
  void Release();

 private:
  explicit StartLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

// Adds a finding (write) and returns true if another process is writing files
// to the transfer's folder that this run could write too. This is so if either
// run writes a set, unless both are processes of the same transfer (`key`). Two
// runs that write one file each, with different names, do not exclude each
// other.
bool RefuseOtherRuns(const Transfer& transfer, const ProcessShare& share,
                     const std::string& key, Findings& findings);

// Adds a finding (write) and returns true if the folder contains files or an
// index that readers would mistake for files of this set, or if the folder
// cannot be listed.
bool RefuseForeignFiles(const Transfer& transfer, Findings& findings);

// Removes the journals with the tag of the transfer, and the hidden files of
// its series, that interrupted runs have left in the folder. The journal `own`
// stays, because its lock prevents other runs from starting. Called when the
// set is complete.
void RemoveLeftovers(const Transfer& transfer, std::string_view own);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_OTHER_RUNS_H_
