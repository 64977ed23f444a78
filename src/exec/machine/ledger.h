// The ledger: a record of the bytes that each collective of a run sent. The
// formulas for these bytes are in src/comm.
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

// The bytes that leave each device, by collective. `by[c]` is indexed by device
// id. It is empty if collective c sent nothing.
struct SentBytes {
  std::array<std::vector<int64_t>, kCollectiveCount> by;

  // Adds `sent`, which is indexed by device id, to the bytes of `kind`.
  void Add(Collective kind, const std::vector<int64_t>& sent);
  void Add(const SentBytes& other);
  const std::vector<int64_t>& Of(Collective kind) const {
    return by[static_cast<size_t>(kind)];
  }
  // Returns the largest number of bytes that any device sent in collectives of
  // this kind.
  int64_t Most(Collective kind) const;
  int64_t Total() const;
  // Compares all numbers; an empty list equals a list of zeros.
  bool operator==(const SentBytes& other) const;
};

struct LedgerEntry {
  Collective kind = Collective::kAllGather;
  AxisGroup axes;
  int64_t group_size = 1;
  // Indexed by device id: bytes that leave the device.
  std::vector<int64_t> sent;
  int64_t step = 0;  // index of the collective in program order
  std::string what;  // name of the tensor that was sent
};

class Ledger {
 public:
  void Record(Collective kind, AxisGroup axes, int64_t group_size,
              std::vector<int64_t> sent, std::string_view what);
  // Records the bytes that devices sent to each other in a run with several
  // processes. This does not change the ledger's entries, whose bytes are
  // computed by formulas. `bytes` is indexed by the sending device; `crossed`
  // of these bytes went to other ranks (processes).
  void Moved(Collective kind, const std::vector<int64_t>& bytes,
             int64_t crossed);
  // Adds the moved bytes of `other`, but not its entries.
  void AddMoved(const Ledger& other);
  const SentBytes& moved() const { return moved_; }
  int64_t crossed() const { return crossed_; }
  const std::vector<LedgerEntry>& entries() const { return entries_; }
  int64_t steps() const { return static_cast<int64_t>(entries_.size()); }
  SentBytes Sent() const;

  // Return the bytes that a collective sent, added over all entries: the
  // largest sum of any device, and the sum over all devices.
  int64_t MostSent(Collective kind) const;
  int64_t TotalSent(Collective kind) const;
  int64_t TotalSent() const;  // the sum over all collectives
  // Returns the bytes that each device sent in all collectives, indexed by
  // device id. The list is empty if there are no entries.
  std::vector<int64_t> SentByDevice() const;

 private:
  std::vector<LedgerEntry> entries_;
  SentBytes moved_;
  int64_t crossed_ = 0;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_LEDGER_H_
