// Assigns parts to files: per device, per process, or per distinct set of
// devices.
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

// Parts of a tensor that are divided by one spec: all of it, or the layers of
// one stage.
struct LaidSlice {
  Partition cut;
  int64_t first_part = 0;      // number in the tensor of the slice's first part
  std::vector<int32_t> ranks;  // of the pipeline, that hold it; empty: all
};

// The parts of one tensor. A tensor that exists at one coordinate of an axis
// only has that coordinate.
struct TensorLayout {
  std::vector<LaidSlice> slices;
  std::optional<std::pair<size_t, int64_t>> placement = {};  // axis, coordinate
  size_t stage_axis = 0;  // of the mesh, if slices have ranks

  int64_t parts() const;
  // The part that a device with these coordinates holds; nullopt: none.
  std::optional<int64_t> PartOn(const std::vector<int64_t>& coordinates) const;
};

struct PartLayout {
  uint32_t tensor = 0;
  uint32_t part = 0;
  std::vector<int64_t> devices;  // per process: the devices that read it
};

struct FileLayout {
  std::string name;
  std::vector<int64_t> devices;   // devices that read from it, ascending
  std::vector<PartLayout> parts;  // in the tensors' order
};

// Device d belongs to process d / (devices / processes). With files per process
// or per shard, each part is in exactly one file; among the processes that hold
// a part, successive tensors take turns, so that replicated tensors are
// distributed evenly. A file per shard holds all parts that exactly the same
// devices hold.
std::vector<FileLayout> LayoutFiles(const std::vector<TensorLayout>& tensors,
                                    const Mesh& mesh, Per per);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_LAYOUT_H_
