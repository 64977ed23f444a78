// What collectives sent, entry by entry. What each costs stands in comm.
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

// Bytes that leave each device, by kind; a kind that nothing was sent by has
// no devices.
struct SentBytes {
  std::array<std::vector<int64_t>, kCollectiveCount> by;

  // `sent` by device.
  void Add(Collective kind, const std::vector<int64_t>& sent);
  void Add(const SentBytes& other);
  const std::vector<int64_t>& Of(Collective kind) const {
    return by[static_cast<size_t>(kind)];
  }
  int64_t Most(Collective kind) const;  // by one device
  int64_t Total() const;
  // Zeros and nothing are the same.
  bool operator==(const SentBytes& other) const;
};

struct LedgerEntry {
  Collective kind = Collective::kAllGather;
  AxisGroup axes;
  int64_t group_size = 1;
  std::vector<int64_t> sent;  // bytes that leave each device, by device id
  int64_t step = 0;           // position among the program's collectives
  std::string what;           // the tensor moved
};

class Ledger {
 public:
  void Record(Collective kind, AxisGroup axes, int64_t group_size,
              std::vector<int64_t> sent, std::string_view what);
  // Beside what was recorded: bytes that were handed over for it, by device,
  // and how many of them went to another rank.
  void Moved(Collective kind, const std::vector<int64_t>& bytes,
             int64_t crossed);
  // What the other moved, and nothing of what it recorded.
  void AddMoved(const Ledger& other);
  const SentBytes& moved() const { return moved_; }
  int64_t crossed() const { return crossed_; }
  const std::vector<LedgerEntry>& entries() const { return entries_; }
  int64_t steps() const { return static_cast<int64_t>(entries_.size()); }
  SentBytes Sent() const;

  // Bytes of a kind, the fullest device's sum and all devices' sum.
  int64_t MostSent(Collective kind) const;
  int64_t TotalSent(Collective kind) const;
  int64_t TotalSent() const;  // over all kinds
  // By device, over all kinds; empty where nothing was recorded.
  std::vector<int64_t> SentByDevice() const;
  void Clear() { entries_.clear(); }

 private:
  std::vector<LedgerEntry> entries_;
  SentBytes moved_;
  int64_t crossed_ = 0;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_LEDGER_H_
