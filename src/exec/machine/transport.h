// Declares how the processes of one simulated mesh communicate. Each process
// (rank) holds consecutive devices of the mesh. Without a transport, one
// process holds all devices.
#ifndef SHARDC_EXEC_MACHINE_TRANSPORT_H_
#define SHARDC_EXEC_MACHINE_TRANSPORT_H_

#include <cstddef>
#include <string>
#include <vector>

namespace shardc::exec {

using Packet = std::vector<std::byte>;

// Communication between the ranks of a run. Every rank must make the same calls
// in the same order.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Sends `out[r]` to rank r. Returns the packets that the ranks sent to this
  // rank, indexed by sender.
  virtual std::vector<Packet> Exchange(std::vector<Packet> out) = 0;
  // Sends `own` to all ranks. Returns the packets that all ranks sent, indexed
  // by sender.
  virtual std::vector<Packet> Share(const Packet& own) = 0;
  // Ends the processes of all ranks. A rank calls this if it cannot continue,
  // so that the other ranks do not wait for it.
  [[noreturn]] virtual void Stop(const std::string& why) = 0;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_TRANSPORT_H_
