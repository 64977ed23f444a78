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

// A range of a tensor that one spec divides into parts. It is the complete
// tensor, or the layers of one pipeline stage.
struct LaidSlice {
  Partition cut;
  int64_t first_part = 0;      // number of parts in the slices before it
  std::vector<int32_t> ranks;  // pipeline ranks with this slice; empty: all
};

// The parts of one tensor. `placement` is set if only the devices at one
// coordinate of a mesh axis hold the tensor, such as an expert's weights, which
// only the devices at ep=3 hold.
struct TensorLayout {
  std::vector<LaidSlice> slices;
  std::optional<std::pair<size_t, int64_t>> placement = {};  // axis, coordinate
  // Index of the mesh axis of pipeline ranks, if any slice has `ranks`.
  size_t stage_axis = 0;

  int64_t parts() const;
  // Returns the part that a device with these coordinates holds. Returns
  // nullopt if the device holds no part: it is not at the placement's
  // coordinate, or its pipeline rank holds no slice of the tensor.
  std::optional<int64_t> PartOn(const std::vector<int64_t>& coordinates) const;
};

struct PartLayout {
  uint32_t tensor = 0;
  uint32_t part = 0;
  // The devices that hold the part; set only if there is one file for each
  // process. Otherwise all devices of the file hold each of its parts.
  std::vector<int64_t> devices;
};

struct FileLayout {
  std::string name;
  std::vector<int64_t> devices;   // devices that read from the file, ascending
  std::vector<PartLayout> parts;  // in the order of the tensors
};

// Returns the files with their parts. PlaceOf (model/mesh_layout.h) assigns
// devices to processes. If `per` is a process or a shard, each part is in
// exactly one file. If several processes hold a part, the one that stores it
// changes from tensor to tensor, so that replicated tensors are distributed
// evenly. A file for a shard contains all parts that exactly the same devices
// hold.
std::vector<FileLayout> LayoutFiles(const std::vector<TensorLayout>& tensors,
                                    const Mesh& mesh, Per per);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_LAYOUT_H_
