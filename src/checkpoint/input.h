// Opens the input of split, merge and reshard: safetensors files, the pieces of
// an earlier split, or a stored tree (orbax, zarr, PyTorch DCP).
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
  std::function<bool(const std::string&)> select;  // null: all arrays
  // The format of the tree to be written; nullopt if safetensors files are
  // written. Safetensors files cannot store some data types that trees have,
  // such as int4.
  std::optional<stored::WriteForm> form;
  // Whether values that are not arrays are left out if the output cannot store
  // them; otherwise such values are an error. If set, numbers are always left
  // out, and strings are left out if the input or the output is safetensors
  // files.
  bool arrays_only = false;
  // Chunks that need more memory than this are refused; nullopt means no limit.
  std::optional<int64_t> memory_bytes;
};

// Opens a tree and finds every chunk of the selected arrays, so that a missing
// chunk is reported before anything is written. Stored::tensors has the
// selected arrays in the order of the tree, and Stored::leaves the selected
// values that are not arrays (strings, numbers, pickled objects). If
// safetensors files are to be written, `leaves` is empty, and their metadata
// has a record of these values. Returns nullopt after findings: dtype (the
// array's type is unknown, or safetensors has no such dtype), inexpressible (a
// codec, or a value that the output format cannot store), name, limit, usage
// (nothing selected), a file that is missing or too short, and all findings of
// OpenTree.
std::optional<Stored> ReadStoredTree(const std::string& path,
                                     const InputOptions& options,
                                     Findings& findings);

// Opens a stored tree (orbax, zarr, PyTorch DCP) or, with ReadStored,
// safetensors files. If a tree is written from safetensors files, its leaves
// come from the record of the tree in the metadata of these files
// (tree_record.h).
std::optional<Stored> ReadFullInput(const std::string& path,
                                    const InputOptions& options,
                                    Findings& findings);

// Opens the pieces of an earlier split if the folder has a `shards.json`, or
// else calls ReadFullInput.
std::optional<Stored> ReadInput(const std::string& path,
                                const InputOptions& options,
                                Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_INPUT_H_
