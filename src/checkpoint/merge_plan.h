// From pieces (or any stored checkpoint) to the transfer that makes whole
// tensors of them again, in one file or several with a Hugging Face index.
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
  // A file; with `max_file_bytes` a directory, of `model.safetensors` where
  // all fits in one file, else of `model-00001-of-00003.safetensors` and so
  // on and their index.
  std::string out;
  std::optional<int64_t> max_file_bytes;  // of data; a larger tensor is alone
  DtypeOf dtype;  // of a tensor that is cast, by name; all stay where absent
  std::function<bool(const std::string&)> select;
};

// Findings: usage (nothing is selected).
std::optional<Transfer> PlanMerge(const Stored& stored,
                                  const MergeOptions& options,
                                  Findings& findings);

// The Hugging Face index of a merge's outputs.
void WriteHfIndex(const Transfer& transfer, Sink& out);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_MERGE_PLAN_H_
