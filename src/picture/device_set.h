// Directory: picture. Computes, as values, what pictures of a plan show: which
// devices hold a shard, grids, bars, a treemap, and folded parameters.
// Its files include headers of these directories: source, model, roles, comm,
// plan.
//
// This header represents a set of devices without listing the devices. A device
// number is written with digits, which are coordinates on the mesh axes. An
// axis is one digit, or two digits if several slices divide the axis. A set
// consists of its first device and of the digits that may have any value.
#ifndef SHARDC_PICTURE_DEVICE_SET_H_
#define SHARDC_PICTURE_DEVICE_SET_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/mesh.h"
#include "model/spec.h"

namespace shardc::picture {

// The device numbers `first` + k1 * stride1 + k2 * stride2 + ..., where each k
// ranges from 0 to the size of its digit, exclusive.
struct DeviceSet {
  struct Digit {
    int64_t stride = 1;
    int64_t size = 1;
    bool operator==(const Digit&) const = default;
  };
  int64_t first = 0;
  std::vector<Digit> digits;  // sorted by stride; all sizes are above 1

  int64_t count() const;
  int64_t At(int64_t index) const;  // the number at `index` in ascending order
  int64_t last() const { return At(count() - 1); }
  // Returns the difference between neighbouring numbers; 1 if there is a single
  // device, and nullopt if the difference is not constant.
  std::optional<int64_t> Step() const;
};

// Computes device numbers from coordinates on a mesh.
class MeshDigits {
 public:
  explicit MeshDigits(const Mesh& mesh);

  // Returns the offset that a coordinate on an axis adds to a device number.
  int64_t Offset(size_t axis, int64_t coordinate) const;
  // Returns the devices that differ from `first` only along free axes; `first`
  // is one of them. `free` is indexed by mesh axis. The coordinates of `first`
  // along free axes must be 0.
  DeviceSet Along(const std::vector<bool>& free, int64_t first) const;

 private:
  struct Axis {
    int64_t inner = 1;  // number of devices along the axis inside a slice
    // The digit inside a slice, and the digit across slices.
    DeviceSet::Digit near, far;
  };
  std::vector<Axis> axes_;
};

// Returns the coordinates of the shard with index `piece` along a list of axes.
// The first axis is the most significant.
std::vector<int64_t> CoordinatesAlong(const Mesh& mesh, const AxisGroup& axes,
                                      int64_t piece);

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_DEVICE_SET_H_
