// Compares values of a run with the reference. Each device has a part of a
// value, which is compared with the same part of the reference:
//
//   [4, 8] over dp=2: the device with rows 2 and 3 is compared with elements 16
//   to 31 of the reference
#include "verify/step/differences.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "exec/machine/agreement.h"
#include "source/index.h"

namespace shardc::verify {
namespace {

using exec::Buffer;

double ElementOf(const Buffer& buffer, size_t i) {
  if (buffer.IsWide()) return buffer.wide[i];
  return buffer.IsReal() ? static_cast<double>(buffer.real[i])
                         : static_cast<double>(buffer.integers[i]);
}

}  // namespace

double Difference(const Buffer& got, const std::vector<double>& want) {
  double most = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double x = ElementOf(got, i);
    if (x == want[i]) continue;
    const double off = std::abs(x - want[i]);
    if (!(off <= most)) most = std::isnan(off) ? INFINITY : off;
  }
  return most;
}

double DifferenceHere(const exec::SimMesh& mesh,
                      const exec::ShardedTensor& tensor,
                      const std::vector<double>& want) {
  // Maps the start index of each part of the tensor to the last device of this
  // rank (process) that holds the part.
  std::map<Shape, int> last;
  for (int d = mesh.first_held(); d < mesh.end_held(); ++d) {
    last[exec::LocalStart(mesh, tensor.shape, tensor.spec, d)] = d;
  }
  if (last.size() == 1 &&
      tensor.local[AsIndex(last.begin()->second)].Elements() ==
          static_cast<int64_t>(want.size())) {
    return Difference(tensor.local[AsIndex(last.begin()->second)], want);
  }
  const Buffer right{tensor.shape, Dtype::kF64, {}, {}, want};
  double most = 0;
  for (const auto& [start, device] : last) {
    const Buffer& part = tensor.local[AsIndex(device)];
    most = std::max(
        most,
        Difference(part, exec::SliceBlock(right, start, part.shape).wide));
  }
  return most;
}

Buffer GatherAnyway(const exec::SimMesh& mesh, exec::Transport* transport,
                    const exec::ShardedTensor& tensor) {
  std::vector<int> all(AsIndex(mesh.devices()));
  std::iota(all.begin(), all.end(), 0);
  exec::PerDevice shared;
  if (transport != nullptr) shared = exec::ShareArrays(mesh, tensor, all);
  Buffer out = Buffer::Zeros(tensor.shape, tensor.dtype);
  for (const int device : all) {
    const Buffer& part =
        (shared.empty() ? tensor.local : shared)[AsIndex(device)];
    exec::CopyBlock(part, Shape(part.shape.size(), 0), out,
                    exec::LocalStart(mesh, tensor.shape, tensor.spec, device),
                    part.shape);
  }
  return out;
}

}  // namespace shardc::verify
