// Sends blocks from devices to other devices in one step. Blocks for devices of
// another rank (process) are sent to that rank.
#ifndef SHARDC_EXEC_MACHINE_CROSSING_H_
#define SHARDC_EXEC_MACHINE_CROSSING_H_

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "exec/machine/buffer.h"
#include "exec/machine/mesh_sim.h"
#include "exec/machine/transport.h"

namespace shardc::exec {

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

#endif  // SHARDC_EXEC_MACHINE_CROSSING_H_
