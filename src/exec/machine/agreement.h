// Functions with which all ranks (processes) of a mesh agree on a result, so
// that each rank continues with the same value. Without a transport, one
// process holds all devices. FirstDiffering and ShareArrays may then not be
// called, and the other functions need no other rank.
#ifndef SHARDC_EXEC_MACHINE_AGREEMENT_H_
#define SHARDC_EXEC_MACHINE_AGREEMENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/machine/buffer.h"
#include "exec/machine/collectives.h"
#include "exec/machine/machine.h"

namespace shardc::exec {

// An error in a layout or in another input of an operation, with the devices
// and the element that it concerns.
struct LayoutError {
  std::string message;  // starts in lower case, without a period
  std::string help;
  // The mesh axis that causes the error; empty if no axis does.
  std::string axis;
  std::vector<int> devices;  // the devices that the error concerns
  Shape position;  // global index of the first element that the error concerns
  // `tensor` is the name of the input with the error; it may be empty. If the
  // error is that axes do not divide a dimension's size, `dimension` is the
  // index of this dimension.
  std::string tensor;
  std::optional<size_t> dimension;
};

// Returns, for each number, its sum over all ranks. All ranks must pass equally
// many numbers.
std::vector<int64_t> SumOverRanks(Transport* transport,
                                  std::vector<int64_t> own);
// Returns a ledger (record of bytes sent) with the bytes of all ranks' devices.
// All ranks must have recorded the same collectives in the same order.
Ledger SumOverRanks(Transport* transport, const Ledger& own);

// Each rank passes its own error, if it has one, and its `order`, for example
// the row of the wrong element. Returns on all ranks the error with the lowest
// `order`, or nullopt if no rank passed an error. If several errors have this
// `order`, the error of the lowest rank is returned.
std::optional<LayoutError> FirstError(const SimMesh& mesh,
                                      std::optional<LayoutError> own,
                                      int64_t order = 0);

// The first difference among the arrays of a group of devices, which should be
// equal. `other` is the device whose array differs from the array of the
// group's first device, `first`. `at` is the offset of the first element that
// differs. If the array of `other` has a wrong shape, `at` is -1. In this case
// `other` may be the group's first device, so that `other` equals `first`.
struct Differing {
  int first = 0, other = 0;
  int64_t at = -1;
  Shape shape = {};  // shape of the array of `other`, if `at` is -1
};
// Returns the first difference between devices of one group, or nullopt if
// there is no difference. The devices of a group should hold the same shard, of
// shape `extent`. Digests of 128 bits are compared first, and the arrays only
// if digests differ.
std::optional<Differing> FirstDiffering(
    const SimMesh& mesh, const PerDevice& local, const Shape& extent,
    const std::vector<const std::vector<int>*>& groups);

// Returns the array of each listed device, of shape `extent`. All ranks get all
// of these arrays.
std::vector<Buffer> ShareArrays(const SimMesh& mesh, const PerDevice& local,
                                const Shape& extent,
                                const std::vector<int>& devices);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_AGREEMENT_H_
