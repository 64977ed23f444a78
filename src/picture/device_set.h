// Room: picture. What pictures of a plan show, as values: which devices hold a
// piece, grids, bars, a treemap, folded parameters. Knows source, model, comm,
// plan and the roles of lint; no output format.
//
// Devices of a mesh by their numbers, without a list of them: an axis is a
// digit, of two where several slices divide it.
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

// Numbers `first` + the sum of a multiple of each stride.
struct DeviceSet {
  struct Digit {
    int64_t stride = 1;
    int64_t size = 1;
    bool operator==(const Digit&) const = default;
  };
  int64_t first = 0;
  std::vector<Digit> digits;  // ascending strides, sizes above 1

  int64_t count() const;
  int64_t At(int64_t index) const;  // in ascending order
  int64_t last() const { return At(count() - 1); }
  // Between neighbours, where it is the same for all; 1 of a single device.
  std::optional<int64_t> Step() const;
};

class MeshDigits {
 public:
  explicit MeshDigits(const Mesh& mesh);

  // What a coordinate of an axis adds to a device's number.
  int64_t Offset(size_t axis, int64_t coordinate) const;
  // The devices from `first` on along the axes that are `free`, by axis.
  DeviceSet Along(const std::vector<bool>& free, int64_t first) const;

 private:
  struct Axis {
    int64_t inner = 1;  // its size inside a slice
    DeviceSet::Digit near, far;
  };
  std::vector<Axis> axes_;
};

// Coordinates of one piece along a list of axes, the first the major one.
std::vector<int64_t> CoordinatesAlong(const Mesh& mesh, const AxisGroup& axes,
                                      int64_t piece);

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_DEVICE_SET_H_
