// From a stored checkpoint and a plan to the transfer that makes the plan's
// pieces, for split and reshard.
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
  std::string out;  // directory
  Per per = Per::kDevice;
  std::optional<Mode> mode;          // else the plan's only one, else train
  std::optional<int64_t> processes;  // instead of the mesh's
  DtypeOf dtype;  // of a tensor that is cast, by name; all stay where absent
  std::function<bool(const std::string&)> select;  // all where absent
};

struct ShardJob {
  Transfer transfer;
  ShardsIndex index;  // without checksums
  std::vector<std::string> notes;
};

// Findings: a selection of nothing (usage), every difference between the
// plan's and the checkpoint's names and shapes (reference, size), a spec that
// does not fit (spec), sizes that are too large (limit).
std::optional<ShardJob> PlanShards(const Stored& stored, const ReadPlan& plan,
                                   const ShardOptions& options,
                                   Findings& findings);

// `shards.json` with the checksums, by output and piece.
void WriteFinishedIndex(const ShardsIndex& index, const Checksums& checksums,
                        Sink& out);

// The type that a tensor is stored in: its own where no cast is wanted or
// possible.
Dtype CastTo(Dtype from, const std::string& name, const DtypeOf& wanted);

// That a selection leaves nothing of so many parameters (usage).
void AddNothingSelected(size_t params, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_SHARD_PLAN_H_
