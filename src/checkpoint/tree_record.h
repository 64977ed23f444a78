// Records parts of a tree in the metadata of safetensors files. These are the
// parts that the names of tensors do not show: lists, keys that contain `/`,
// strings, empty nodes and random keys. If an orbax checkpoint is converted to
// safetensors and back, the result is therefore the same tree.
#ifndef SHARDC_CHECKPOINT_TREE_RECORD_H_
#define SHARDC_CHECKPOINT_TREE_RECORD_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/stored.h"
#include "source/finding.h"
#include "stored/tree.h"

namespace shardc {

// The key of the tree's record in the metadata of a safetensors file.
inline constexpr std::string_view kTreeRecordKey = "shardc.tree";

// Returns the record of the tree as JSON. Returns an empty text if the tensors'
// names show the complete tree. Each leaf must be a string or an empty node.
std::string TreeRecordText(const std::vector<StoredTensor>& tensors,
                           const std::vector<stored::Leaf>& leaves);

// Reads the tree's record from the metadata, if there is one. Sets the path of
// each tensor, and adds the leaves (strings and empty nodes). Returns false
// after a finding (schema) if the record is malformed.
bool ReadTreeRecord(Stored& stored, Findings& findings);

// A tensor and the name under which it is written, which may differ from its
// name in the checkpoint.
struct NewName {
  const StoredTensor* tensor = nullptr;
  std::string name;
};

// Returns the metadata with a new record of the tree, in which these tensors
// have their new names. StoredTensor::in_tree of the tensors must be set. The
// strings and empty nodes of the old record remain.
Metadata WithNewNames(const Metadata& metadata,
                      std::span<const NewName> tensors);

// Returns the metadata without the tree's record (kTreeRecordKey), for files
// that contain only some of the tensors.
Metadata WithoutTreeRecord(const Metadata& metadata);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_TREE_RECORD_H_
