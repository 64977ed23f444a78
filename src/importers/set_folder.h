// Determines from the names in a checkpoint's folder whether a set of files is
// complete. The names of numbered files state how many files the set has. While
// a command of shardc writes a set, the folder contains the command's journal
// and hidden part files.
#ifndef SHARDC_IMPORTERS_SET_FOLDER_H_
#define SHARDC_IMPORTERS_SET_FOLDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/finding.h"
#include "source/json.h"
#include "source/sink.h"

namespace shardc {

inline constexpr std::string_view kTensorsSuffix = ".safetensors";
inline constexpr std::string_view kShardsName = "shards.json";

// The parts of a numbered file name, as views into the parsed name. For
// example, "model-00002-of-00003.safetensors" has the prefix "model-", number
// 2, middle "-of-", count 3 and suffix ".safetensors".
struct NumberedName {
  std::string_view prefix;
  std::string_view number_text;
  std::string_view middle;  // "-of-" or "_of_"
  std::string_view count_text;
  std::string_view suffix;
  int64_t number = 0;  // 10^18 if it has more than 18 digits
  int64_t count = 0;
};
std::optional<NumberedName> ParseNumberedName(std::string_view name);

// Returns the names in `names` with the same prefix, count and suffix as
// `name`. The names are sorted by number. Each number occurs only once.
std::vector<std::string> FilesOfSeries(const NumberedName& name,
                                       const std::vector<std::string>& names);

// Returns whether the name has the form of a file that `shardc checkpoint
// split` writes, such as "device-00003.safetensors".
bool IsShardFileName(std::string_view name);

// Returns whether the name has the form that torch.distributed.checkpoint gives
// to the file of a rank, such as
// "shard-00002-model-00001-of-00001.safetensors". The suffix is not checked.
bool IsRankFileName(std::string_view name);

// Returns the final name of a part file, such as "a.safetensors" for
// ".a.safetensors.part". Returns an empty view for other names.
std::string_view NameOfPart(std::string_view name);

// In the Refuse functions, `names` are the file names in the folder. If the
// folder has an index, `names` are the file names in the index.
//
// RefuseUnfinishedRun adds the finding `missing` and returns true if a run that
// writes files of the folder has not finished.
bool RefuseUnfinishedRun(const std::string& folder,
                         const std::vector<std::string>& names,
                         Findings& findings);
// Adds the finding `missing` and returns true if a series of numbered files is
// inconsistent. Its numbers may have a gap or exceed the count, or its names
// may state different counts.
bool RefuseGaps(const Place& place, const std::vector<std::string>& names,
                Findings& findings);
// Adds the finding `missing` and returns true if the folder contains shards of
// split tensors instead of full tensors.
bool RefuseShards(const std::string& folder,
                  const std::vector<std::string>& names, Findings& findings);
// Adds the finding `usage` and returns true if the name of the safetensors file
// at `path` shows that the file is only a part of a checkpoint.
bool RefuseMember(const std::string& path, Findings& findings);
// Adds the finding `missing` and returns true if this JSON is the index of a
// set whose files a run is replacing.
bool RefuseUnfinishedIndex(const JsonValue& root, Findings& findings);

// Detects that files were replaced while a set was read. The tensors of the set
// could then come from two different sets.
class SetWatch {
 public:
  // Records the device, inode, size and times of each path. If a file is absent
  // now and appears later, RefuseChanged reports it as changed.
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
