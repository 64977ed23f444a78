// Room: picture. What pictures of a plan show, as values: which devices hold a
// shard, grids, bars, a treemap, folded parameters.
// Includes: source, model, roles, comm, plan.
//
// A set of devices by their numbers, without listing them: an axis is one digit
// of a device's number, or two if several slices divide it.
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

// The numbers `first` + k1 * stride1 + k2 * stride2 + ... for all 0 <= k < size
// of each digit.
struct DeviceSet {
  struct Digit {
    int64_t stride = 1;
    int64_t size = 1;
    bool operator==(const Digit&) const = default;
  };
  int64_t first = 0;
  std::vector<Digit> digits;  // ascending strides, sizes above 1

  int64_t count() const;
  int64_t At(int64_t index) const;  // the number at `index`, ascending
  int64_t last() const { return At(count() - 1); }
  // Returns the step between neighbours, which is 1 for a single device;
  // nullopt if it is not constant.
  std::optional<int64_t> Step() const;
};

class MeshDigits {
 public:
  explicit MeshDigits(const Mesh& mesh);

  // Returns the offset that a coordinate of an axis adds to a device's number.
  int64_t Offset(size_t axis, int64_t coordinate) const;
  // Returns `first` and the devices that differ from it only along `free` axes.
  // `free` has an entry for each axis of the mesh. The coordinates of `first`
  // along free axes must be 0.
  DeviceSet Along(const std::vector<bool>& free, int64_t first) const;

 private:
  struct Axis {
    int64_t inner = 1;  // devices along the axis inside a slice
    DeviceSet::Digit near, far;
  };
  std::vector<Axis> axes_;
};

// Returns the coordinates of a shard index along a list of axes, the first axis
// most significant.
std::vector<int64_t> CoordinatesAlong(const Mesh& mesh, const AxisGroup& axes,
                                      int64_t piece);

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_DEVICE_SET_H_
