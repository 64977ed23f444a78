// Finds out from the names in a checkpoint's folder whether a set of files is
// complete. The names of numbered files state how many files the set has. A run
// that writes a set keeps a journal and hidden part files in the folder until
// it has finished.
#ifndef SHARDC_IMPORTERS_SET_FOLDER_H_
#define SHARDC_IMPORTERS_SET_FOLDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/finding.h"
#include "source/json.h"

namespace shardc {

inline constexpr std::string_view kTensorsSuffix = ".safetensors";
inline constexpr std::string_view kShardsName = "shards.json";
// The schema of the file that replaces a set's index while the files of the set
// are being replaced.
inline constexpr std::string_view kUnfinishedSchema = "shardc.unfinished/v1";

// The parts of a numbered file name, as views into the parsed name.
// "model-00002-of-00003.safetensors" has the prefix "model-", number 2, middle
// "-of-", count 3 and suffix ".safetensors".
struct NumberedName {
  std::string_view prefix;
  std::string_view number_text;
  std::string_view middle;  // "-of-" or "_of_"
  std::string_view count_text;
  std::string_view suffix;
  int64_t number = 0;  // 10^18 for numbers of more than 18 digits
  int64_t count = 0;
};
std::optional<NumberedName> ParseNumberedName(std::string_view name);

// Returns the files in `names` that belong to the series of `name`: the same
// prefix, count and suffix. They are sorted by number, one for each number.
std::vector<std::string> FilesOfSeries(const NumberedName& name,
                                       const std::vector<std::string>& names);

// Returns whether `shardc split` gives this name to a file of shards:
// "device-00003.safetensors".
bool IsShardFileName(std::string_view name);

// Returns whether the name has the form that torch.distributed.checkpoint
// assigns to the file of a rank:
// "shard-00002-model-00001-of-00001.safetensors". The suffix is not checked.
bool IsRankFileName(std::string_view name);

// The parts of a journal's name. ".merge-00000-of-00001.journal" is the journal
// of process 0 of 1 in the run "merge".
struct JournalParts {
  std::string_view tag;
  int64_t index = 0;
  int64_t count = 0;
};
std::optional<JournalParts> ParseJournalName(std::string_view name);
// Returns the name that a part file will get when it is complete:
// "a.safetensors" for ".a.safetensors.part". Returns an empty view for other
// names.
std::string_view NameOfPart(std::string_view name);

// In the next functions `names` are the file names in the folder or, if the
// folder has an index, the file names in the index.
//
// Adds the finding `missing` and returns true if a run that writes files of the
// folder has not finished.
bool RefuseUnfinishedRun(const std::string& folder,
                         const std::vector<std::string>& names,
                         Findings& findings);
// Adds the finding `missing` and returns true if the numbers of a series have a
// gap, a number outside the count, or different counts.
bool RefuseGaps(const Place& place, const std::vector<std::string>& names,
                Findings& findings);
// Adds the finding `missing` and returns true if the folder holds shards of
// split tensors, not full tensors.
bool RefuseShards(const std::string& folder,
                  const std::vector<std::string>& names, Findings& findings);
// Adds the finding `usage` and returns true if the name of the safetensors file
// at `path` shows that the file is only a part of a checkpoint.
bool RefuseMember(const std::string& path, Findings& findings);
// Adds the finding `missing` and returns true if this JSON is the index of a
// set whose files are being replaced.
bool RefuseUnfinishedIndex(const JsonValue& root, Findings& findings);

// Detects that files were replaced while a set was being read, in which case
// its tensors could be from two different sets.
class SetWatch {
 public:
  // Records device, inode, size and time of each path. If an absent file
  // appears later, RefuseChanged reports it as changed.
  explicit SetWatch(std::vector<std::string> paths);
  // If a file differs from its recorded state, adds the finding `unreadable`
  // and returns true.
  bool RefuseChanged(Findings& findings) const;

 private:
  std::vector<std::string> paths_;
  std::vector<std::vector<int64_t>> states_;
};

// Returns whether the file begins like the index of an unfinished set. Returns
// false if the file cannot be read.
bool IsUnfinishedIndex(const std::string& path);

}  // namespace shardc

#endif  // SHARDC_IMPORTERS_SET_FOLDER_H_
