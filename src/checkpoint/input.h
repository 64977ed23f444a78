// Opens the input of split, merge and reshard: a set of safetensors files, the
// pieces of an earlier split, or a stored tree (orbax, zarr, PyTorch DCP).
#ifndef SHARDC_CHECKPOINT_INPUT_H_
#define SHARDC_CHECKPOINT_INPUT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/stored.h"
#include "source/finding.h"
#include "stored/write.h"

namespace shardc {

struct InputOptions {
  std::function<bool(const std::string&)> select;  // null: all
  // The format of the tree to be written; nullopt if safetensors files are
  // written. Those cannot hold elements that trees store in another way, such
  // as int4.
  std::optional<stored::WriteForm> form;
  // Leaves of a tree that cannot be written are left out instead of refused.
  bool arrays_only = false;
  // Chunks that need more memory are refused; nullopt: no limit.
  std::optional<int64_t> memory_bytes;
};

// Opens a tree and finds every chunk of the selected arrays, so that a missing
// chunk is reported before anything is written. The tensors are the selected
// arrays, in the order of the tree, and the leaves are those that the output
// format can hold. Findings, for each array with a fault: dtype (safetensors
// has no such dtype), inexpressible (a codec, or a leaf that the format cannot
// hold), name, limit, and those of reading the tree.
std::optional<Stored> ReadStoredTree(const std::string& path,
                                     const InputOptions& options,
                                     Findings& findings);

// Opens a tree, or safetensors files with ReadStored. The leaves of safetensors
// files are those that their metadata records (tree_record.h).
std::optional<Stored> ReadFullInput(const std::string& path,
                                    const InputOptions& options,
                                    Findings& findings);

// As ReadFullInput, but also opens a folder of pieces that an earlier split has
// written.
std::optional<Stored> ReadInput(const std::string& path,
                                const InputOptions& options,
                                Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_INPUT_H_
