// Plans a transfer that joins pieces to full tensors. The pieces may come from
// any stored checkpoint. The tensors are written to one file, or to several
// files with a Hugging Face index.
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
  // Whether the output is a tree such as orbax (`--to`), not safetensors files.
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

#endif  // SHARDC_CHECKPOINT_MERGE_PLAN_H_
