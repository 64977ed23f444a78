// Parses the names that DCP's safetensors writer gives to its files. Such a
// name states the rank and the number of files of the model, so that missing
// files are detected.
#ifndef SHARDC_STORED_SHARD_NAMES_H_
#define SHARDC_STORED_SHARD_NAMES_H_

#include <optional>
#include <string>
#include <string_view>

#include "source/finding.h"
#include "stored/tree.h"

namespace shardc::stored {

// The parts of a file name. For example,
// "shard-00002-model-00001-of-00003.safetensors" has rank 2, prefix "model-",
// number 1 and count 3.
struct ShardName {
  // Counted from 1; nullopt: the name states no rank.
  std::optional<int64_t> rank;
  // The part between the rank and the number, a view of the parsed file name.
  std::string_view prefix;
  int64_t number = 0;
  int64_t count = 0;
};
// Parses a file name. Returns nullopt for names that do not end in
// "-NUMBER-of-COUNT.safetensors".
std::optional<ShardName> ParseShardName(std::string_view name);

// Adds the finding `missing` and returns true if the names in the folder show
// one of these faults: a rank's file is absent, a numbered file is absent for
// all ranks, or the files are of two saves. Names cannot show that the files of
// the highest ranks are absent.
bool RefuseMissingShards(const Folder& folder, Findings& findings);

// Returns whether the folder has safetensors files and all their names state
// rank 1. Such files are the complete checkpoint only if a single process saved
// it.
bool HasFirstRankAlone(const Folder& folder);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_SHARD_NAMES_H_
