// Prevents conflicts between runs that write to the same folder. A run is
// refused while another run writes there and could write a file of the same
// name. For example, the hidden files and journals that an interrupted split
// has left are removed when a later split to the same folder is complete.
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
// run then finds the journal of the first. On file systems that cannot lock
// folders (some NFS servers), no lock is taken.
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

// Adds a finding (write) and returns true if another run is writing to the
// transfer's folder and could write the same files. A run that writes a set of
// files could write the same files as any other run. Two runs that each write a
// single file exclude each other only if the files have the same name.
// Processes of the same transfer, which have the same `key`, may run together.
bool RefuseOtherRuns(const Transfer& transfer, const ProcessShare& share,
                     const std::string& key, Findings& findings);

// Adds a finding (write) and returns true if the folder contains files or an
// index that readers would mistake for files of the transfer's set, or if the
// folder cannot be listed.
bool RefuseForeignFiles(const Transfer& transfer, Findings& findings);

// Removes what interrupted runs have left in the folder: journals with the tag
// of the transfer, such as `shards`, and hidden files of its set. The journal
// `own` stays, because its lock prevents other runs from starting. This
// function is called when the set is complete.
void RemoveLeftovers(const Transfer& transfer, std::string_view own);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_OTHER_RUNS_H_
