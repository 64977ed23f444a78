// Computes how many bytes of parameters and KV cache the fullest device holds.
#ifndef SHARDC_LINT_ANALYSIS_MEMORY_H_
#define SHARDC_LINT_ANALYSIS_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/topic.h"
#include "model/mesh.h"
#include "model/mesh_layout.h"

namespace shardc {

struct MemoryUse {
  Mode mode = Mode::kTrain;
  int64_t parameters = 0;
  int64_t cache = 0;  // 0 in train, or if a size is unknown
  // The rank of the pipeline whose devices need the most memory; -1 if there is
  // no pipeline.
  int32_t rank = -1;

  int64_t Total() const { return parameters + cache; }
  std::string ToString() const;  // "12 GiB of parameters and 3 GiB of KV cache"
  std::string Device() const;    // "a device", "a device of rank 3"
};

// Returns the memory of the device that needs the most, in the planned mode in
// which this is the largest. Unknown sizes add 0. A mode is skipped if its
// bytes do not fit in 64 bits. Returns nullopt if all modes are skipped.
std::optional<MemoryUse> MostMemory(const Facts& facts);

enum AttentionDim { kBatchDim = 0, kLengthDim = 1, kHeadsDim = 2 };

// Returns the spec of an attention tensor such as `query` or `key`. Its
// dimensions are batch, length, heads and head size (bthd). Returns an empty
// spec if no tensor has this name.
Spec AttentionSpecOf(const Facts& facts, Mode mode, std::string_view tensor);
AxisGroup AttentionAxes(const Facts& facts, Mode mode, std::string_view tensor,
                        AttentionDim dim);

// Returns the bytes of the keys and values of all layers in bfloat16. Returns
// nullopt if a size is unknown or the bytes do not fit in 64 bits.
std::optional<int64_t> CacheBytes(const Facts& facts);
// Returns the bytes of the KV cache on one device in a mode. The size of each
// dimension on the device is rounded up. Returns nullopt if CacheBytes()
// returns nullopt.
std::optional<int64_t> CacheBytesPerDevice(const Facts& facts, Mode mode);

bool Plans(const Facts& facts, Mode mode);

// Each group of devices along a mesh axis is inside one block of consecutive
// device numbers. Returns the length of such a block. A block begins at a
// multiple of its length. If the axis does not span slices, the length is the
// product of the sizes that the axis and all later axes have inside a slice. If
// the axis spans slices, a block consists of complete slices. The number of
// slices in a block is the product of the numbers of slices along the axis and
// along all later axes. The slices, and the devices of a slice, are numbered
// row-major:
//
//   tp=4 dp=2, two slices along dp   blocks of 4 along tp, and of 8 along dp
inline int64_t SpanOf(const Mesh& mesh, size_t axis) {
  int64_t devices = 1;
  int64_t slices = 1;
  for (size_t i = axis; i < mesh.axes.size(); ++i) {
    devices *= mesh.axes[i].size / SlicesAlong(mesh, i);
    slices *= SlicesAlong(mesh, i);
  }
  if (SlicesAlong(mesh, axis) == 1) return devices;
  return mesh.devices / mesh.slices * slices;
}

inline int64_t DevicesPerHost(const Mesh& mesh) {
  return mesh.processes > 0 ? mesh.devices / mesh.processes : mesh.devices;
}

// Returns whether devices that communicate along an axis are on several hosts.
// A host has consecutive device numbers, and SpanOf(axis) consecutive numbers
// are a block that contains complete groups along the axis. If the length of a
// block divides the number of devices of a host, each block is on one host, and
// so are its groups. Otherwise some block, and with it a group, is on two
// hosts:
//
//   dp=3 tp=3 fsdp=6 on two hosts of 27 devices   the block of 18 devices along
//                                                 tp, 18 to 35, is on both
inline bool CrossesHosts(const Mesh& mesh, size_t axis) {
  return mesh.axes[axis].size > 1 &&
         DevicesPerHost(mesh) % SpanOf(mesh, axis) != 0;
}

// Detects that the rules use no axis of the mesh for the parameters, so that
// every device holds the whole model.

// Returns an error, with the code `code`, if the whole model is replicated over
// the mesh. Its help has the axis rules to write if the names of the mesh's
// axes differ from those that the rules use.
//
// Axes over which replicas are intended do not count: those of data and
// sequence parallelism, which shard activations, and that of pipeline stages.
// Returns nullopt if the mesh has no other axis larger than 1, or if the rules
// name no axis and the model has only scalars and small vectors. Parameters
// whose specs were corrected, as by `min_size`, count as sharded: the rules
// shard them.
std::optional<LintFinding> WholeModelReplicated(const Facts& facts,
                                                const Code& code);

// Returns the section of a rules file, such as `axes: {tensor_parallel:
// model}`, that gives a mesh axis the purpose that its name states. Returns an
// empty text if the name states none, or if the axis rules already name the
// axis.
std::string PurposeText(const Facts& facts, const std::string& axis);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_MEMORY_H_
