// Opens what split, merge and reshard read: a set of safetensors files, the
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
  // The form of tree that is to be written; nullopt: safetensors files, which
  // hold no elements that a tree stores unlike safetensors, such as int4.
  std::optional<stored::WriteForm> form;
  // Leaves of a tree that cannot be written are left out instead of refused.
  bool arrays_only = false;
  // Refuses chunks that need more memory; nullopt: no limit.
  std::optional<int64_t> memory_bytes;
};

// Opens a tree and finds every chunk of the selected arrays, so that a missing
// one is reported before anything is written. The tensors are the selected
// arrays, in the order of the tree, and the leaves are those that the form to
// be written can hold. Findings, for each array at fault: dtype (safetensors
// lacks it), inexpressible (a codec, or a leaf that the form cannot hold),
// name, limit, and those of the room.
std::optional<Stored> ReadStoredTree(const std::string& path,
                                     const InputOptions& options,
                                     Findings& findings);

// Opens a tree or files of safetensors (ReadStored). The leaves of files are
// those that their metadata records (tree_record.h).
std::optional<Stored> ReadFullInput(const std::string& path,
                                    const InputOptions& options,
                                    Findings& findings);

// The same, or a folder of pieces that an earlier split has written.
std::optional<Stored> ReadInput(const std::string& path,
                                const InputOptions& options,
                                Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_INPUT_H_
