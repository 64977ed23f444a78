// Assigns parts to files: one file for each device, for each process, or for
// each set of devices that hold the same parts.
#ifndef SHARDC_CHECKPOINT_LAYOUT_H_
#define SHARDC_CHECKPOINT_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/box.h"
#include "checkpoint/shards_index.h"
#include "model/mesh.h"

namespace shardc {

// A slice of a tensor that one spec divides into parts: the complete tensor, or
// the layers of one pipeline stage.
struct LaidSlice {
  Partition cut;
  int64_t first_part = 0;      // index of its first part in the tensor
  std::vector<int32_t> ranks;  // pipeline ranks that hold it; empty: all
};

// The parts of one tensor. `placement` is set if the tensor exists at one
// coordinate of an axis only.
struct TensorLayout {
  std::vector<LaidSlice> slices;
  std::optional<std::pair<size_t, int64_t>> placement = {};  // axis, coordinate
  size_t stage_axis = 0;  // index of the ranks' mesh axis, if slices have ranks

  int64_t parts() const;
  // Returns the part that a device with these coordinates holds. Returns
  // nullopt if it holds no part: it has another coordinate on the placement's
  // axis, or its pipeline rank holds none of the slices.
  std::optional<int64_t> PartOn(const std::vector<int64_t>& coordinates) const;
};

struct PartLayout {
  uint32_t tensor = 0;
  uint32_t part = 0;
  std::vector<int64_t> devices;  // with Per::kProcess: the devices that read it
};

struct FileLayout {
  std::string name;
  std::vector<int64_t> devices;   // devices that read from it, ascending
  std::vector<PartLayout> parts;  // in the tensors' order
};

// Returns the files. Device d belongs to process d / (devices / processes).
// With files for processes or shards, each part is in exactly one file. If
// several processes hold a part, they take turns by the number of the tensor,
// so that replicated tensors are distributed evenly. A file for a shard has all
// parts that exactly the same devices hold.
std::vector<FileLayout> LayoutFiles(const std::vector<TensorLayout>& tensors,
                                    const Mesh& mesh, Per per);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_LAYOUT_H_
