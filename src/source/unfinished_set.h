// The mark of a set of files that a run has started to publish and has not
// finished. The mark has the name of the set's index, which is the file that is
// written last: the index of a checkpoint, a committed plan or a project file.
// No reader accepts the mark in place of the index.
#ifndef SHARDC_SOURCE_UNFINISHED_SET_H_
#define SHARDC_SOURCE_UNFINISHED_SET_H_

#include <algorithm>
#include <string_view>

namespace shardc {

inline constexpr std::string_view kUnfinishedSchema = "shardc.unfinished/v1";

// The mark while the files of a new set replace the files of an earlier set.
// Its message is an instruction to run the same command again.
inline constexpr std::string_view kResumeIndex =
    "{\"schema\": \"shardc.unfinished/v1\",\n"
    " \"message\": \"a run was interrupted while it put a new set in place of "
    "an earlier one; run the same command again\"}\n";

// Returns whether a text is the mark of an unfinished set, on one line or on
// several.
inline bool IsUnfinishedMark(std::string_view text) {
  if (!text.starts_with('{')) return false;
  text.remove_prefix(1);
  text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
  return text.starts_with(kResumeIndex.substr(1, kResumeIndex.find(',') - 1));
}

}  // namespace shardc

#endif  // SHARDC_SOURCE_UNFINISHED_SET_H_
