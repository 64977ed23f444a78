// Treats device numbers as mixed-radix numbers, whose digits are coordinates on
// the axes. The least significant digits are the coordinates inside a slice (a
// group of devices with fast links), from the last axis to the first. The
// coordinates of the slice follow in the same order. The stride of a digit is
// the product of the sizes of all less significant digits. For example, the
// mesh dp 2, tp 4 of one slice has these digits:
//
//   tp: size 4, stride 1
//   dp: size 2, stride 4
//
// If tp is divided over two slices, tp has two digits:
//
//   tp inside a slice:  size 2, stride 1
//   dp:                 size 2, stride 2
//   tp over slices:     size 2, stride 4
#include "picture/device_set.h"

#include <algorithm>

namespace shardc::picture {

int64_t DeviceSet::count() const {
  int64_t out = 1;
  for (const Digit& digit : digits) out *= digit.size;
  return out;
}

int64_t DeviceSet::At(int64_t index) const {
  int64_t out = first;
  for (const Digit& digit : digits) {
    out += index % digit.size * digit.stride;
    index /= digit.size;
  }
  return out;
}

std::optional<int64_t> DeviceSet::Step() const {
  for (size_t i = 1; i < digits.size(); ++i) {
    if (digits[i].stride != digits[i - 1].stride * digits[i - 1].size) {
      return std::nullopt;
    }
  }
  return digits.empty() ? 1 : digits.front().stride;
}

MeshDigits::MeshDigits(const Mesh& mesh) : axes_(mesh.axes.size()) {
  const bool sliced = mesh.dcn.size() == mesh.axes.size();
  int64_t stride = 1;
  for (size_t i = axes_.size(); i > 0;) {
    --i;
    const int64_t slices = sliced ? std::max<int64_t>(1, mesh.dcn[i]) : 1;
    axes_[i].inner = std::max<int64_t>(1, mesh.axes[i].size / slices);
    axes_[i].near = {stride, axes_[i].inner};
    stride *= axes_[i].inner;
  }
  for (size_t i = axes_.size(); i > 0;) {
    --i;
    const int64_t slices = mesh.axes[i].size / axes_[i].inner;
    axes_[i].far = {stride, slices};
    stride *= slices;
  }
}

int64_t MeshDigits::Offset(size_t axis, int64_t coordinate) const {
  const Axis& of = axes_[axis];
  return coordinate % of.inner * of.near.stride +
         coordinate / of.inner * of.far.stride;
}

DeviceSet MeshDigits::Along(const std::vector<bool>& free,
                            int64_t first) const {
  DeviceSet out{first, {}};
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (!free[i]) continue;
    for (const DeviceSet::Digit& digit : {axes_[i].near, axes_[i].far}) {
      if (digit.size > 1) out.digits.push_back(digit);
    }
  }
  std::sort(out.digits.begin(), out.digits.end(),
            [](const DeviceSet::Digit& a, const DeviceSet::Digit& b) {
              return a.stride < b.stride;
            });
  return out;
}

std::vector<int64_t> CoordinatesAlong(const Mesh& mesh, const AxisGroup& axes,
                                      int64_t piece) {
  std::vector<int64_t> out(axes.size());
  for (size_t i = axes.size(); i > 0;) {
    --i;
    const int64_t size = mesh.SizeOf(axes[i]);
    out[i] = piece % size;
    piece /= size;
  }
  return out;
}

}  // namespace shardc::picture
