// Writes a planned transfer as a tree in a checkpoint format of another system.
#ifndef SHARDC_CHECKPOINT_TREE_OUTPUT_H_
#define SHARDC_CHECKPOINT_TREE_OUTPUT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/ownership.h"
#include "checkpoint/shards_index.h"
#include "checkpoint/transfer.h"
#include "source/finding.h"
#include "stored/tree.h"
#include "stored/write.h"

namespace shardc {

// An output format of the commands merge and reshard.
struct OutputFormat {
  std::string_view name;  // such as "orbax"
  std::optional<stored::WriteForm> form;
  // A function that writes a tree. Null for safetensors files, which
  // RunTransfer writes.
  bool (*write)(std::span<const stored::ArrayToWrite> arrays,
                std::span<const stored::Leaf> leaves,
                const stored::BoxSource& source,
                const stored::WriteOptions& options, Findings& findings);
};
// Returns all formats, the default one first.
std::span<const OutputFormat> OutputFormats();

struct TreeOutput {
  std::string folder;
  // The specs and the mesh that are saved with the arrays. If null, the arrays
  // are saved without a sharding.
  const ShardsIndex* index = nullptr;
  int64_t memory_bytes = 0;
  int threads = 1;
  ProcessShare share;
  bool finalize = false;  // write no chunks, only complete the checkpoint
  bool verify = false;    // read everything back after writing
};

// Writes the transfer's tensors and the leaves (values that are not arrays) as
// a tree. Ignores `transfer.outputs`. The chunks of a tensor are its parts or
// smaller. The path of a tensor in the tree is TransferTensor::in_tree. If this
// is empty, because the source is safetensors files without a recorded tree,
// the tensor's name is split at `/`. Returns false after a finding of the
// writer, or after the finding dtype or unreadable (also for a source that has
// changed).
bool WriteTransfer(const Transfer& transfer,
                   const std::vector<stored::Leaf>& leaves,
                   const OutputFormat& format, const TreeOutput& output,
                   stored::WriteReport* report, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_TREE_OUTPUT_H_
