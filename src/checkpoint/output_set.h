// The output files of a run. They are written under hidden names, continued
// after an interruption, and renamed when all files of the run are complete.
#ifndef SHARDC_CHECKPOINT_OUTPUT_SET_H_
#define SHARDC_CHECKPOINT_OUTPUT_SET_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/copy.h"
#include "checkpoint/journal.h"
#include "checkpoint/transfer.h"
#include "source/finding.h"

namespace shardc {

// Returns the hidden path of an output, which it has until the set is complete.
std::string PartPath(const Transfer& transfer, const OutputFile& output);

// Returns whether the file at `path` has the output's size and header.
bool IsFileOf(const std::string& path, const OutputFile& output);

// Checks the file at `path` against the output. For each of the `expected`
// pieces, returns the expected checksum if the file has the output's size and
// header and the bytes of the piece have this checksum, else nullopt.
std::vector<std::optional<uint32_t>> CheckFile(
    const std::string& path, const OutputFile& output,
    const std::vector<std::optional<uint32_t>>& expected);

// The text of the index while the files of a new set replace the files of an
// earlier one. No reader accepts it as the index of a set. Its message is to
// run the same command again.
inline constexpr std::string_view kResumeIndex =
    "{\"schema\": \"shardc.unfinished/v1\",\n"
    " \"message\": \"a run was interrupted while it put a new set in place of "
    "an earlier one; run the same command again\"}\n";
bool IsResumeIndex(const std::string& path);

class OutputSet {
 public:
  // With `reuse`, the files of an earlier set are overwritten in place.
  // Otherwise they are kept until the new set is complete.
  OutputSet(const Transfer& transfer, bool reuse)
      : transfer_(transfer), reuse_(reuse), states_(transfer.outputs.size()) {}

  // Finds the pieces that an interrupted run has completed, and sets their
  // `checksums`. Removes hidden files that have no such piece, unless they are
  // reused.
  void TakeUp(const std::vector<bool>& own, const Journal& journal,
              Checksums& checksums);
  // Returns whether the output already has its own name and all its pieces.
  bool Complete(size_t output) const { return states_[output].complete; }

  // Opens an output's hidden file with its full size and its header. Returns
  // false after the finding `write`.
  bool Open(size_t output, CopyTarget* target, Findings& findings);
  bool Close(size_t output, CopyTarget* target, bool sync, Findings& findings);
  // Renames all hidden files to their own names. If there are hidden files, and
  // an earlier index or an earlier file of the set exists, kResumeIndex first
  // replaces the index; a set without an index gets none. The caller writes the
  // new index afterwards. Returns false after a finding.
  bool Publish(Findings& findings);
  // After a failure, removes the hidden files. Unless kResumeIndex marks the
  // set, also removes the files that Publish has renamed to unused names.
  // Returns false if one of these files could not be removed; the folder then
  // has files of an incomplete set that no index marks.
  bool Discard();

 private:
  struct State {
    bool part = false;      // whether the hidden file exists
    bool complete = false;  // whether the file exists under its own name
    bool created = false;   // whether this run renamed it to an unused name
  };
  bool Refuse(const std::string& path, Findings& findings) const;
  // Replaces the index, if the set has one, by kResumeIndex.
  bool RetireIndex(Findings& findings);
  // Returns whether publishing replaces files that readers may take for a set.
  bool ReplacesFiles() const;

  const Transfer& transfer_;
  bool reuse_ = false;
  std::vector<State> states_;
};

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_OUTPUT_SET_H_
