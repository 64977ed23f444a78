// How processes that hold one mesh's devices between them reach each other.
// Each holds a run of devices; without a transport one process holds all.
#ifndef SHARDC_EXEC_MACHINE_TRANSPORT_H_
#define SHARDC_EXEC_MACHINE_TRANSPORT_H_

#include <cstddef>
#include <string>
#include <vector>

namespace shardc::exec {

using Packet = std::vector<std::byte>;

// Every rank makes the same calls in the same order.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // `out[r]` goes to rank r; what each rank sent here, by rank.
  virtual std::vector<Packet> Exchange(std::vector<Packet> out) = 0;
  // What every rank gave, by rank, for all of them.
  virtual std::vector<Packet> Share(const Packet& own) = 0;
  // Ends all ranks: they are no longer at the same call.
  [[noreturn]] virtual void Stop(const std::string& why) = 0;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_TRANSPORT_H_
