// The names that DCP's writer of safetensors gives to its files state the rank
// and how many files the model has, so that they show what is missing.
#ifndef SHARDC_STORED_SHARD_NAMES_H_
#define SHARDC_STORED_SHARD_NAMES_H_

#include <optional>
#include <string>
#include <string_view>

#include "source/finding.h"
#include "stored/tree.h"

namespace shardc::stored {

// "shard-00002-model-00001-of-00003.safetensors": rank 2, prefix "model-",
// number 1, count 3.
struct ShardName {
  std::optional<int64_t> rank;  // from 1; nullopt: the name states none
  std::string_view prefix;      // a view into the name
  int64_t number = 0;
  int64_t count = 0;
};
// Returns nullopt for names that do not end in "-NUMBER-of-COUNT.safetensors".
std::optional<ShardName> ParseShardName(std::string_view name);

// Adds the finding `missing` and returns true if the names in the folder show
// that a rank's file is absent, that a numbered file is absent for all ranks,
// or that the files are of two saves. Names do not show whether files of the
// highest ranks are absent.
bool RefuseMissingShards(const Folder& folder, Findings& findings);

// Returns whether the folder has the files of rank 1 and of no other: all of a
// checkpoint that one process saved, and a part of any other.
bool HasFirstRankAlone(const Folder& folder);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_SHARD_NAMES_H_
