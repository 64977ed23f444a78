// Reads the names that DCP's safetensors writer gives to its files. A name
// states the rank, and how many files the model has, so that missing files are
// found.
#ifndef SHARDC_STORED_SHARD_NAMES_H_
#define SHARDC_STORED_SHARD_NAMES_H_

#include <optional>
#include <string>
#include <string_view>

#include "source/finding.h"
#include "stored/tree.h"

namespace shardc::stored {

// The parts of a name: "shard-00002-model-00001-of-00003.safetensors" has rank
// 2, prefix "model-", number 1 and count 3.
struct ShardName {
  std::optional<int64_t> rank;  // counted from 1; nullopt: the name states none
  std::string_view prefix;      // a view into the name
  int64_t number = 0;
  int64_t count = 0;
};
// Returns nullopt for names that do not end in "-NUMBER-of-COUNT.safetensors".
std::optional<ShardName> ParseShardName(std::string_view name);

// Adds the finding `missing` and returns true if the names in the folder show
// that a rank's file is absent, that a numbered file is absent for all ranks,
// or that the files are of two saves. Absent files of the highest ranks cannot
// be detected by names.
bool RefuseMissingShards(const Folder& folder, Findings& findings);

// Returns whether the folder has safetensors files, and the names of all state
// rank 1. They are the complete checkpoint only if a single process saved it.
bool HasFirstRankAlone(const Folder& folder);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_SHARD_NAMES_H_
