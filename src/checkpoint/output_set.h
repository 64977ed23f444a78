// The output files of a run: written under hidden names, taken up again when
// a run was interrupted, and given their own names only when whole.
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

// What an output is called until the set is whole.
std::string PartPath(const Transfer& transfer, const OutputFile& output);

// Whether the file at `path` has the output's size and header.
bool IsFileOf(const std::string& path, const OutputFile& output);

// The pieces among `expected` that the file at `path` really holds: size and
// header are the output's, and each piece's bytes have its checksum. All
// others are nothing.
std::vector<std::optional<uint32_t>> CheckFile(
    const std::string& path, const OutputFile& output,
    const std::vector<std::optional<uint32_t>>& expected);

// While files of a new set replace those of an earlier one the index is this:
// no reader takes the mixture for a set, and it says what to do.
inline constexpr std::string_view kResumeIndex =
    "{\"schema\": \"shardc.unfinished/v1\",\n"
    " \"message\": \"a run was interrupted while it put a new set in place of "
    "an earlier one; run the same command again\"}\n";
bool IsResumeIndex(const std::string& path);

class OutputSet {
 public:
  // `reuse`: an earlier set's files become the new ones' space instead of
  // standing until the new set is whole.
  OutputSet(const Transfer& transfer, bool reuse)
      : transfer_(transfer), reuse_(reuse), states_(transfer.outputs.size()) {}

  // Fills `checksums` with the pieces that an interrupted run completed.
  void TakeUp(const std::vector<bool>& own, const Journal& journal,
              Checksums& checksums);
  // Whether a file lacks pieces.
  bool Complete(size_t output) const { return states_[output].complete; }

  // Opens an output's hidden file, of full size and with its header. Findings:
  // write.
  bool Open(size_t output, CopyTarget* target, Findings& findings);
  bool Close(size_t output, CopyTarget* target, bool sync, Findings& findings);
  // Gives all hidden files their names. An earlier set's index becomes the
  // one above before; the new one comes after.
  bool Publish(Findings& findings);
  // After a failure: no hidden file stays.
  void Discard();

 private:
  struct State {
    bool part = false;      // a hidden file is there, ours
    bool complete = false;  // under its own name
  };
  bool Refuse(const std::string& path, Findings& findings) const;
  bool RetireIndex(Findings& findings);

  const Transfer& transfer_;
  bool reuse_ = false;
  std::vector<State> states_;
};

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_OUTPUT_SET_H_
