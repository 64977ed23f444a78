// What devices owe each other in one step, carried over ranks.
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

// A block on its way, in its dtype's own width where that loses nothing.
struct Parcel {
  int from = 0, to = 0;
  Buffer block;  // of one dimension
};
void PutParcel(int from, int to, const Buffer& block, Packet& out);
// Nothing where the bytes are no parcels.
bool TakeParcels(std::span<const std::byte> bytes, std::vector<Parcel>& out);

class Crossing {
 public:
  explicit Crossing(const SimMesh& mesh);

  // From a device that is held here to another. Where that is held here too,
  // only counted: whoever takes it reads what the sender has.
  void Send(int from, int to, const Buffer& block);
  // By all ranks, once everything was sent.
  void Deliver();
  // What a device that is held elsewhere sent to one that is held here.
  Buffer Take(int from, int to, Shape shape);

  // Bytes that devices held here sent to others, by device; and how many of
  // them went to another rank.
  const std::vector<int64_t>& sent() const { return sent_; }
  int64_t crossed() const { return crossed_; }

 private:
  const SimMesh& mesh_;
  std::vector<Packet> out_;  // by rank
  std::map<std::pair<int, int>, Buffer> arrived_;
  std::vector<int64_t> sent_;
  int64_t crossed_ = 0;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_CROSSING_H_
