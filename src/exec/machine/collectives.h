// Collectives over any set of mesh axes. Each reads one buffer per device, all
// of the same shape and dtype, and returns one buffer per device. A collective
// adds an entry to the ledger, the record of bytes sent, unless its groups have
// only one member.
//
// Members of a group are ordered by their index along the axis list. Reductions
// combine the members' buffers in ascending index, so replicas have equal bits.
// A real ring adds the same numbers in another order: each part of the result
// begins with another member's numbers. Its results therefore equal the results
// here only within rounding errors.
//
// The functions from AllGather to Broadcast build a CollectiveCall and pass it
// to the machine's CollectiveSeam, which a test may replace.
#ifndef SHARDC_EXEC_MACHINE_COLLECTIVES_H_
#define SHARDC_EXEC_MACHINE_COLLECTIVES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/machine/buffer.h"
#include "exec/machine/machine.h"

namespace shardc::exec {

using PerDevice = std::vector<Buffer>;  // indexed by device id

// Gives the arrays of all devices that other ranks (processes) hold the shape
// `extent` and no elements. Does nothing if this process holds all devices.
void ShapeElsewhere(const SimMesh& mesh, const Shape& extent, Dtype dtype,
                    PerDevice& local);

enum class Reduce : uint8_t { kSum, kMax };
// The source and the target of a transfer, as indices in a group.
using Edge = std::pair<int64_t, int64_t>;

// The arguments of a collective. Each collective reads only some of the fields:
// for example, only ppermute reads `edges`.
struct CollectiveCall {
  Collective kind = Collective::kAllGather;
  AxisGroup axes = {};
  const PerDevice* in = nullptr;
  // The dimension that all_gather joins, reduce_scatter scatters, or all_to_all
  // splits.
  size_t dim = 0;
  size_t concat_dim = 0;  // the dimension that all_to_all joins
  Reduce reduce = Reduce::kSum;
  bool rounds = false;  // true: the reduced value is rounded to the dtype
  std::span<const Edge> edges = {};
  int64_t root = 0;
  std::string_view what = {};  // the tensor's name, for the ledger
};
// Runs the collective itself, without the machine's CollectiveSeam.
PerDevice RunCollective(Machine& machine, const CollectiveCall& call);

// Adds the call to the ledger, with the bytes that each device of this rank
// sends, unless the groups have one member. `groups` are those of the call's
// axes (SimMesh::Groups).
void RecordCall(Machine& machine, const std::vector<std::vector<int>>& groups,
                const CollectiveCall& call);

struct CollectiveSeam {
  std::function<PerDevice(Machine&, const CollectiveCall&)> run = RunCollective;
};

// Concatenates the members' shards along `dim`.
PerDevice AllGather(Machine& machine, const AxisGroup& axes,
                    const PerDevice& in, size_t dim, std::string_view what);
// Adds the members' buffers; member i then keeps slice i of `dim`. The size of
// the group must divide `dim`.
PerDevice ReduceScatter(Machine& machine, const AxisGroup& axes,
                        const PerDevice& in, size_t dim, std::string_view what,
                        bool rounds = false);
PerDevice AllReduce(Machine& machine, const AxisGroup& axes,
                    const PerDevice& in, Reduce reduce, std::string_view what,
                    bool rounds = false);
// Member i sends slice j of `split_dim` to member j. Each member concatenates
// the slices it receives along `concat_dim`, ordered by sender.
PerDevice AllToAll(Machine& machine, const AxisGroup& axes, const PerDevice& in,
                   size_t split_dim, size_t concat_dim, std::string_view what);
// Sends buffers along `edges`, pairs of (source, target) group indices. No two
// edges may have the same target. A device that is not a target receives zeros.
PerDevice Ppermute(Machine& machine, const AxisGroup& axes, const PerDevice& in,
                   const std::vector<Edge>& edges, std::string_view what);
// Every member receives the buffer of the member with group index `root`.
PerDevice Broadcast(Machine& machine, const AxisGroup& axes,
                    const PerDevice& in, int64_t root, std::string_view what);

// Adds `part` to `total` element by element, or stores the larger element.
void Accumulate(const Buffer& part, Reduce reduce, Buffer& total);

// Returns the edges of one ring step: (i, (i + 1) mod n) for each i below n.
std::vector<Edge> RingEdges(int64_t n);

// A block that device `from` sends to device `to`.
struct Parcel {
  int from = 0, to = 0;
  Buffer block;  // the elements, as an array of one dimension
};
// Appends a parcel to `out`. Elements are written with the width of their dtype
// if that preserves every value, else with the width of the array in host
// memory.
void PutParcel(int from, int to, const Buffer& block, Packet& out);
// Appends the parcels in `bytes` to `out`. Returns false if the bytes end
// inside a parcel.
bool TakeParcels(std::span<const std::byte> bytes, std::vector<Parcel>& out);

class Crossing {
 public:
  explicit Crossing(const SimMesh& mesh);

  // Sends a block from a device of this rank. If the receiver is on this rank
  // as well, only the bytes are counted: the receiver reads the sender's
  // buffer.
  void Send(int from, int to, const Buffer& block);
  // Exchanges the blocks. Every rank must call this after its last Send.
  void Deliver();
  // Returns the block that a device on another rank sent to a device of this
  // rank. Stops all ranks if no such block arrived or its size differs from
  // `shape`.
  Buffer Take(int from, int to, Shape shape);

  // The bytes that each device of this rank sent, and the number of bytes that
  // went to other ranks.
  const std::vector<int64_t>& sent() const { return sent_; }
  int64_t crossed() const { return crossed_; }

 private:
  const SimMesh& mesh_;
  std::vector<Packet> out_;  // indexed by rank
  std::map<std::pair<int, int>, Buffer> arrived_;
  std::vector<int64_t> sent_;
  int64_t crossed_ = 0;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_COLLECTIVES_H_
