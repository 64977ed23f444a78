// Records in the metadata of safetensors files the parts of a tree that the
// names of tensors do not show: lists, keys that contain `/`, strings, empty
// nodes and random keys. An orbax checkpoint that is converted to safetensors
// and back is then the same tree.
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

// The key of the record in the metadata.
inline constexpr std::string_view kTreeRecordKey = "shardc.tree";

// Returns the record as JSON, or an empty text if the names of the tensors show
// the complete tree. All leaves must be strings or empty nodes.
std::string TreeRecordText(const std::vector<StoredTensor>& tensors,
                           const std::vector<stored::Leaf>& leaves);

// Reads the record, if there is one: sets the places of the tensors, and adds
// the leaves. Returns false after a finding (schema) if it is malformed.
bool ReadTreeRecord(Stored& stored, Findings& findings);

// A tensor that is written under another name than it has in the checkpoint.
struct NewName {
  const StoredTensor* tensor = nullptr;
  std::string name;
};

// Returns the metadata with a record for these tensors under their new names.
// Their places in the tree must be known. The leaves of the old record remain.
Metadata WithNewNames(const Metadata& metadata,
                      std::span<const NewName> tensors);

// Returns the metadata without the record, for files that contain only some of
// the tensors.
Metadata WithoutTreeRecord(const Metadata& metadata);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_TREE_RECORD_H_
