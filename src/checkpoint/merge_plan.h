// Plans the transfer that joins pieces (or any stored checkpoint) to full
// tensors, in one file or in several with a Hugging Face index.
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
  // The output file. With `max_file_bytes` it is a directory, which gets
  // `model.safetensors` if one file suffices, otherwise
  // `model-00001-of-00003.safetensors` and so on with an index.
  std::string out;
  // The largest number of bytes of data in a file. A larger tensor gets a file
  // of its own.
  std::optional<int64_t> max_file_bytes;
  DtypeOf dtype;  // dtype to cast a tensor to, by name; null: no casts
  std::function<bool(const std::string&)> select;  // chooses by name; null: all
  // Whether the output is a tree (`--to`), in which an element of a packed type
  // has a byte of its own.
  bool tree = false;
};

// Returns the transfer, or nullopt after a finding: usage, if `select` is set
// and selects no tensor; size, if a piece of a tensor in a file begins or ends
// inside a byte.
std::optional<Transfer> PlanMerge(const Stored& stored,
                                  const MergeOptions& options,
                                  Findings& findings);

// Writes the Hugging Face index of a merge's outputs.
void WriteHfIndex(const Transfer& transfer, Sink& out);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_MERGE_PLAN_H_
