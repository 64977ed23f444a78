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
  Mode mode = Mode::kTrain;
  std::optional<int64_t> processes;                // instead of the mesh's
  std::optional<Dtype> dtype;                      // for the floating types
  std::function<bool(const std::string&)> select;  // all where absent
};

struct ShardJob {
  Transfer transfer;
  ShardsIndex index;  // without checksums
  std::vector<std::string> notes;
};

// Findings: every difference between the plan's and the checkpoint's names
// and shapes (reference, size), a spec that does not fit (spec), sizes that
// are too large (limit).
std::optional<ShardJob> PlanShards(const Stored& stored, const ReadPlan& plan,
                                   const ShardOptions& options,
                                   Findings& findings);

// `shards.json` with the checksums, by output and piece.
void WriteFinishedIndex(const ShardsIndex& index, const Checksums& checksums,
                        Sink& out);

// The type that a tensor is stored in under `--dtype`.
Dtype CastTo(Dtype from, const std::optional<Dtype>& wanted);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_SHARD_PLAN_H_
