// What an output records besides the bytes of its tensors. `shards.json`
// (schema `shardc.shards/v1`) lists the pieces of each parameter. For each
// piece, it has the file, the position and the devices that hold it. The
// metadata of safetensors files have the parts of a tree that the names of
// tensors do not show.
#ifndef SHARDC_CHECKPOINT_SHARDS_INDEX_H_
#define SHARDC_CHECKPOINT_SHARDS_INDEX_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/stored.h"
#include "checkpoint/transfer.h"
#include "importers/set_folder.h"
#include "model/axis_rules.h"
#include "model/mesh.h"
#include "plan/read.h"
#include "source/finding.h"
#include "source/json.h"
#include "source/sink.h"
#include "stored/tree.h"

namespace shardc {

enum class Per : uint8_t { kDevice, kProcess, kShard };
std::string_view PerName(Per per);  // such as "device"
std::optional<Per> ParsePer(std::string_view text);

struct IndexedParam {
  std::string name;
  Shape shape;  // shape of the full tensor
  Dtype dtype = Dtype::kF32;
  Spec spec;
  // The parts of dimensions, each of which the axes of `spec` divide. The boxes
  // of the pieces are positions in SplitShape(shape, EqualAmong(dim_parts)),
  // and shares of the parts with stated sizes (SizedPartsOf).
  DimParts dim_parts = {};
  std::optional<ReadPlacement> placement;
  // The pipeline ranks that hold the parameter, if the plan has pipeline
  // stages. A rank is a coordinate on the mesh axis `axis`; `of` lists the
  // ranks.
  struct Ranks {
    std::string axis;
    std::vector<int32_t> of;
  };
  std::optional<Ranks> ranks;
};

struct IndexedPiece {
  uint32_t param = 0;  // index into ShardsIndex::params
  std::string key;     // name of the tensor in the file
  Box box;
  std::optional<uint32_t> checksum;
  // The devices that read the piece. If empty, all devices of the file read it.
  std::vector<int64_t> devices;
};

struct IndexedFile {
  std::string name;
  int64_t bytes = 0;
  std::vector<int64_t> devices;  // devices that read from the file
  std::vector<IndexedPiece> pieces;
};

struct ShardsIndex {
  std::string fingerprint;  // fingerprint of the plan
  Mode mode = Mode::kTrain;
  Per per = Per::kDevice;
  Mesh mesh;
  Metadata metadata;
  std::vector<IndexedParam> params;  // in the order of the checkpoint
  std::vector<IndexedFile> files;
};

void WriteShardsIndex(const ShardsIndex& index, Sink& out);

// Parses an index. Returns nullopt after a finding: schema, number, dtype,
// overflow, path (a file outside the directory), reference (a parameter that is
// not listed), missing (the index of an unfinished run), or a finding of
// ParsePlanMesh.
std::optional<ShardsIndex> ParseShardsIndex(const JsonDocument& document,
                                            Findings& findings);

// Records parts of a tree in the metadata of safetensors files. These are the
// parts that the names of tensors do not show: lists, keys that contain `/`,
// strings, empty nodes and random keys. If an orbax checkpoint is converted to
// safetensors and back, the result is therefore the same tree.

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

#endif  // SHARDC_CHECKPOINT_SHARDS_INDEX_H_
