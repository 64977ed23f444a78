// The ledger: the bytes that each collective of a run sent. src/comm has the
// formulas.
#ifndef SHARDC_EXEC_MACHINE_LEDGER_H_
#define SHARDC_EXEC_MACHINE_LEDGER_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/collective.h"
#include "model/spec.h"

namespace shardc::exec {

// The bytes that leave each device, by collective. The list of a collective
// that sent nothing is empty.
struct SentBytes {
  std::array<std::vector<int64_t>, kCollectiveCount> by;

  // Adds `sent`, the bytes of each device.
  void Add(Collective kind, const std::vector<int64_t>& sent);
  void Add(const SentBytes& other);
  const std::vector<int64_t>& Of(Collective kind) const {
    return by[static_cast<size_t>(kind)];
  }
  int64_t Most(Collective kind) const;  // the maximum over devices
  int64_t Total() const;
  // Compares all numbers; an empty list equals a list of zeros.
  bool operator==(const SentBytes& other) const;
};

struct LedgerEntry {
  Collective kind = Collective::kAllGather;
  AxisGroup axes;
  int64_t group_size = 1;
  std::vector<int64_t> sent;  // by device id: bytes that leave the device
  int64_t step = 0;           // position among the program's collectives
  std::string what;           // name of the tensor that was sent
};

class Ledger {
 public:
  void Record(Collective kind, AxisGroup axes, int64_t group_size,
              std::vector<int64_t> sent, std::string_view what);
  // Records the bytes that devices really sent to each other, separately from
  // the entries. `bytes` is indexed by the sending device; `crossed` of these
  // bytes went to other ranks.
  void Moved(Collective kind, const std::vector<int64_t>& bytes,
             int64_t crossed);
  // Adds the moved bytes of `other`, without its entries.
  void AddMoved(const Ledger& other);
  const SentBytes& moved() const { return moved_; }
  int64_t crossed() const { return crossed_; }
  const std::vector<LedgerEntry>& entries() const { return entries_; }
  int64_t steps() const { return static_cast<int64_t>(entries_.size()); }
  SentBytes Sent() const;

  // Return the bytes of a collective: the largest sum of a device, and the sum
  // over all devices.
  int64_t MostSent(Collective kind) const;
  int64_t TotalSent(Collective kind) const;
  int64_t TotalSent() const;  // the sum over all collectives
  // Returns the bytes of each device over all collectives; empty if there are
  // no entries.
  std::vector<int64_t> SentByDevice() const;

 private:
  std::vector<LedgerEntry> entries_;
  SentBytes moved_;
  int64_t crossed_ = 0;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_LEDGER_H_
