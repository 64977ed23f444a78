// Computes how mesh axes are distributed over hosts.
#ifndef SHARDC_LINT_ANALYSIS_HOSTS_H_
#define SHARDC_LINT_ANALYSIS_HOSTS_H_

#include <cstdint>

#include "model/mesh.h"

namespace shardc {

// Returns the length of the aligned block of consecutive device numbers that
// contains a group along an axis: the product of the sizes of the axis and of
// all later axes. Devices are numbered row-major, and each host has consecutive
// numbers.
inline int64_t SpanOf(const Mesh& mesh, size_t axis) {
  int64_t span = 1;
  for (size_t i = axis; i < mesh.axes.size(); ++i) span *= mesh.axes[i].size;
  return span;
}

inline int64_t DevicesPerHost(const Mesh& mesh) {
  return mesh.processes > 0 ? mesh.devices / mesh.processes : mesh.devices;
}

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_HOSTS_H_
