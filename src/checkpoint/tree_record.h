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

// The key under which the metadata of a safetensors file contains the record.
inline constexpr std::string_view kTreeRecordKey = "shardc.tree";

// Returns the record as JSON, or an empty text if the names of the tensors show
// the complete tree. Each leaf must be a string or an empty node.
std::string TreeRecordText(const std::vector<StoredTensor>& tensors,
                           const std::vector<stored::Leaf>& leaves);

// Reads the record from the metadata, if there is one. Sets the places of the
// tensors, and adds the leaves. Returns false after a finding (schema) if the
// record is malformed.
bool ReadTreeRecord(Stored& stored, Findings& findings);

// A tensor and the name under which it is written, which may differ from its
// name in the checkpoint.
struct NewName {
  const StoredTensor* tensor = nullptr;
  std::string name;
};

// Returns the metadata with a record for these tensors under their new names.
// StoredTensor::in_tree of the tensors must be set. The leaves of the old
// record remain.
Metadata WithNewNames(const Metadata& metadata,
                      std::span<const NewName> tensors);

// Returns the metadata without the record, for files that contain only some of
// the tensors.
Metadata WithoutTreeRecord(const Metadata& metadata);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_TREE_RECORD_H_
