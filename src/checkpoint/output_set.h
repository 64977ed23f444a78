// The output files of a run. They are written under hidden names and renamed
// when all files of the run are complete. After an interruption, the next run
// continues the hidden files.
#ifndef SHARDC_CHECKPOINT_OUTPUT_SET_H_
#define SHARDC_CHECKPOINT_OUTPUT_SET_H_

#include <cstddef>
#include <string>
#include <vector>

#include "checkpoint/copy.h"
#include "checkpoint/journal.h"
#include "checkpoint/transfer.h"
#include "source/finding.h"
#include "source/unfinished_set.h"

namespace shardc {

// Returns the hidden path under which an output is written until the set is
// complete.
std::string PartPath(const Transfer& transfer, const OutputFile& output);

// Returns whether the file at `path` has the output's size and header.
bool IsFileOf(const std::string& path, const OutputFile& output);

// Checks which pieces of the output the file at `path` contains. Returns for
// each piece its checksum from `expected` if the bytes in the file have this
// checksum, else nullopt. All results are nullopt if the file does not have the
// output's size and header.
std::vector<std::optional<uint32_t>> CheckFile(
    const std::string& path, const OutputFile& output,
    const std::vector<std::optional<uint32_t>>& expected);

// Returns whether the file is the mark kResumeIndex.
bool IsResumeIndex(const std::string& path);

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

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_OUTPUT_SET_H_
