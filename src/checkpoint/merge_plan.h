// Plans the transfer that makes full tensors from pieces (or from any stored
// checkpoint), in one file or in several with a Hugging Face index.
#ifndef SHARDC_CHECKPOINT_MERGE_PLAN_H_
#define SHARDC_CHECKPOINT_MERGE_PLAN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/stored.h"
#include "checkpoint/transfer.h"
#include "source/finding.h"
#include "source/sink.h"

namespace shardc {

struct MergeOptions {
  // The output file; with `max_file_bytes`, a directory, which gets
  // `model.safetensors` if one file suffices, else
  // `model-00001-of-00003.safetensors` and so on with an index.
  std::string out;
  // The most bytes of data in a file; a larger tensor gets a file of its own.
  std::optional<int64_t> max_file_bytes;
  DtypeOf dtype;  // dtype to cast a tensor to, by name; null: no casts
  std::function<bool(const std::string&)> select;
};

// Findings: usage (no tensor is selected).
std::optional<Transfer> PlanMerge(const Stored& stored,
                                  const MergeOptions& options,
                                  Findings& findings);

// Writes the Hugging Face index of a merge's outputs.
void WriteHfIndex(const Transfer& transfer, Sink& out);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_MERGE_PLAN_H_
