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
  // Selects arrays by name; null selects all.
  std::function<bool(const std::string&)> select;
  // The format of the tree to be written; nullopt if safetensors files are
  // written. Safetensors files cannot store some data types that trees have,
  // such as int4.
  std::optional<stored::WriteForm> form;
  // Whether values that are not arrays are omitted. If false, a value that the
  // output cannot store is an error. If true, a value that the output cannot
  // store is omitted, and so are all numbers. Strings are omitted as well if
  // the input or the output is safetensors files.
  bool arrays_only = false;
  // The limit on the memory that a chunk may need; nullopt means half of the
  // free memory. The reader refuses larger chunks.
  std::optional<int64_t> memory_bytes;
};

// Opens a tree and finds every chunk of the selected arrays, so that a missing
// chunk is reported before anything is written. Stored::tensors lists the
// selected arrays in the order of the tree. Stored::leaves lists the selected
// values that are not arrays (strings, numbers, pickled objects). If
// safetensors files are to be written, `leaves` is empty, and their metadata
// contains a record of these values. Returns nullopt after findings: dtype (the
// array's type is unknown, or safetensors has no such dtype), inexpressible (a
// codec that shardc lacks, or a value that the output format cannot store),
// name, limit, usage (nothing is selected), a file that is missing or too
// short, and all findings of OpenTree.
std::optional<Stored> ReadStoredTree(const std::string& path,
                                     const InputOptions& options,
                                     Findings& findings);

// Opens a stored tree (orbax, zarr, PyTorch DCP), or safetensors files at any
// other path. If a tree is written from safetensors files, their values that
// are not tensors are restored. These are read from a record in the metadata of
// the files (tree_record.h).
std::optional<Stored> ReadFullInput(const std::string& path,
                                    const InputOptions& options,
                                    Findings& findings);

// Opens the pieces of an earlier split if `path` is a folder that contains a
// `shards.json`. Otherwise calls ReadFullInput.
std::optional<Stored> ReadInput(const std::string& path,
                                const InputOptions& options,
                                Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_INPUT_H_
