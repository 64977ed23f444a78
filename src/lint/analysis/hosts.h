// Computes how mesh axes are distributed over hosts.
#ifndef SHARDC_LINT_ANALYSIS_HOSTS_H_
#define SHARDC_LINT_ANALYSIS_HOSTS_H_

#include <cstddef>
#include <cstdint>

#include "model/mesh.h"

namespace shardc {

// Returns the number of slices along an axis.
inline int64_t SlicesAlong(const Mesh& mesh, size_t axis) {
  return axis < mesh.dcn.size() ? mesh.dcn[axis] : 1;
}

// Returns the length of the aligned block of consecutive device numbers that
// contains a group along an axis: the product of the sizes, inside a slice, of
// the axis and of all later axes, or all devices if the axis spans slices. The
// devices of a slice are numbered row-major, and each host has consecutive
// numbers:
//
//   tp=4 dp=2 with two slices along dp   a group along tp: 4 device numbers
inline int64_t SpanOf(const Mesh& mesh, size_t axis) {
  if (SlicesAlong(mesh, axis) > 1) return mesh.devices;
  int64_t span = 1;
  for (size_t i = axis; i < mesh.axes.size(); ++i) {
    span *= mesh.axes[i].size / SlicesAlong(mesh, i);
  }
  return span;
}

inline int64_t DevicesPerHost(const Mesh& mesh) {
  return mesh.processes > 0 ? mesh.devices / mesh.processes : mesh.devices;
}

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_HOSTS_H_
