// Plans the transfer of a stored checkpoint to the pieces of a sharding plan,
// for the commands split and reshard.
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
#include "source/sink.h"

namespace shardc {

struct ShardOptions {
  std::string out;  // the output directory
  Per per = Per::kDevice;
  // The mode (train, prefill or decode) whose specs are used. If nullopt, it is
  // the only mode of the plan, or train if the plan has several modes.
  std::optional<Mode> mode;
  std::optional<int64_t> processes;  // overrides the mesh's number of processes
  DtypeOf dtype;  // returns the dtype to cast a tensor to; null: no casts
  // Returns whether the tensor of this name is written; null: all are written.
  std::function<bool(const std::string&)> select;
  // Whether the output is a tree such as orbax (`--as`), not safetensors files.
  // In a tree, each element of a dtype of less than 8 bits, such as F4, takes
  // one byte.
  bool tree = false;
};

struct ShardJob {
  Transfer transfer;
  ShardsIndex index;  // the content of `shards.json`, without checksums
  std::vector<std::string> notes;
};

// Returns the transfer and its index, or nullopt after findings: an empty
// selection (usage), every difference between the names and shapes of the plan
// and the checkpoint (reference, size), an illegal spec (spec), sizes that are
// too large (limit), a number of processes that does not divide the number of
// devices (device-count), two pieces with the same name in a file (name).
std::optional<ShardJob> PlanShards(const Stored& stored, const ReadPlan& plan,
                                   const ShardOptions& options,
                                   Findings& findings);

// Writes `shards.json` with the checksums of all pieces.
void WriteFinishedIndex(const ShardsIndex& index, const Checksums& checksums,
                        Sink& out);

// Returns the dtype in which a tensor is written. It is the tensor's own dtype
// if `wanted` requests no cast for its name or the cast is not supported. Adds
// the finding (dtype) if it is requested by name and not supported.
Dtype CastTo(Dtype from, const std::string& name, const DtypeOf& wanted,
             Findings& findings);

// Adds the finding (usage) that the selection contains no parameter. `params`
// is the number of parameters to select from.
void AddNothingSelected(size_t params, Findings& findings);

// Plans a transfer that joins pieces to full tensors. The pieces may come from
// any stored checkpoint. The tensors are written to one file, or to several
// files with a Hugging Face index.

struct MergeOptions {
  // The output file. With `max_file_bytes` it is a directory. If one file
  // suffices, the directory gets `model.safetensors`. Otherwise it gets
  // `model-00001-of-00003.safetensors` and so on, and an index.
  std::string out;
  // The largest number of bytes of data in a file. A larger tensor gets its own
  // file.
  std::optional<int64_t> max_file_bytes;
  DtypeOf dtype;  // returns the dtype to cast a tensor to; null: no casts
  // Returns whether the tensor of this name is merged; null: all are merged.
  std::function<bool(const std::string&)> select;
  // Whether the output is a tree such as orbax (`--as`), not safetensors files.
  // In a tree, each element of a dtype of less than 8 bits, such as F4, takes
  // one byte.
  bool tree = false;
};

// Returns the transfer. Returns nullopt after the finding usage (`select` is
// set and selects no tensor) or the finding size (a piece of a tensor begins or
// ends inside a byte of a file).
std::optional<Transfer> PlanMerge(const Stored& stored,
                                  const MergeOptions& options,
                                  Findings& findings);

// Writes the Hugging Face index of a merge's outputs.
void WriteHfIndex(const Transfer& transfer, Sink& out);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_SHARD_PLAN_H_
