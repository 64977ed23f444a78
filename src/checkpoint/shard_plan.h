// Plans the transfer of a stored checkpoint to the pieces of a plan, for split
// and reshard.
#ifndef SHARDC_CHECKPOINT_SHARD_PLAN_H_
#define SHARDC_CHECKPOINT_SHARD_PLAN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/shards_index.h"
#include "checkpoint/stored.h"
#include "checkpoint/transfer.h"
#include "plan/read.h"
#include "source/finding.h"

namespace shardc {

struct ShardOptions {
  std::string out;  // the output directory
  Per per = Per::kDevice;
  // The mode whose specs are used. If nullopt, it is the plan's mode if the
  // plan has only one, else train.
  std::optional<Mode> mode;
  std::optional<int64_t> processes;  // overrides the mesh's number
  DtypeOf dtype;  // dtype to cast a tensor to, by name; null: no casts
  std::function<bool(const std::string&)> select;  // null: all tensors
  // Whether the output is a tree (`--to`), in which an element of a packed type
  // has a byte of its own.
  bool tree = false;
};

struct ShardJob {
  Transfer transfer;
  ShardsIndex index;  // the index, without checksums
  std::vector<std::string> notes;
};

// Returns the transfer and its index, or nullopt after findings: an empty
// selection (usage), every difference between the names and shapes of plan and
// checkpoint (reference, size), an illegal spec (spec), sizes that are too
// large (limit), a number of processes that does not divide the devices
// (device-count), two pieces of one name in a file (name).
std::optional<ShardJob> PlanShards(const Stored& stored, const ReadPlan& plan,
                                   const ShardOptions& options,
                                   Findings& findings);

// Writes `shards.json` with the checksums of all pieces.
void WriteFinishedIndex(const ShardsIndex& index, const Checksums& checksums,
                        Sink& out);

// Returns the dtype in which a tensor is written: its own dtype if no cast is
// requested for its name or the cast is not supported.
Dtype CastTo(Dtype from, const std::string& name, const DtypeOf& wanted);

// Adds the finding (usage) that a selection contains none of `params`
// parameters.
void AddNothingSelected(size_t params, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_SHARD_PLAN_H_
