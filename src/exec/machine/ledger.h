// What every collective costs: bytes that leave each device.
//
// With n the group's size, b a device's input buffer and F the whole:
//   all_gather, ring            (n-1) b = F (n-1)/n
//   reduce_scatter, ring        F (n-1)/n          (b = F)
//   all_reduce = the two above  2 F (n-1)/n
//   all_to_all                  b (n-1)/n
//   ppermute                    b for each edge to another device
//   broadcast, pipelined chain  F, the chain's last device 0
// and 0 for n = 1. Sources: P. Patarasuk and X. Yuan, "Bandwidth optimal
// all-reduce algorithms for clusters of workstations", 2009 (a ring sends the
// least bytes possible); the same factors turn time into bus bandwidth in
// nccl-tests. Where n does not divide the E elements, chunk j holds
// floor((j+1)E/n) - floor(jE/n) of them and all_reduce's member i sends
// 2E - c[i+1] - c[i+2] (indices mod n); totals are exact.
#ifndef SHARDC_EXEC_MACHINE_LEDGER_H_
#define SHARDC_EXEC_MACHINE_LEDGER_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/spec.h"

namespace shardc::exec {

enum class Collective : uint8_t {
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kAllToAll,
  kPpermute,
  kBroadcast
};
inline constexpr size_t kCollectiveCount = 6;
std::string_view CollectiveName(Collective kind);  // "all_gather"

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
  const std::vector<LedgerEntry>& entries() const { return entries_; }
  int64_t steps() const { return static_cast<int64_t>(entries_.size()); }

  // Bytes of a kind, the fullest device's sum and all devices' sum.
  int64_t MostSent(Collective kind) const;
  int64_t TotalSent(Collective kind) const;
  int64_t TotalSent() const;  // over all kinds
  // By device, over all kinds; empty where nothing was recorded.
  std::vector<int64_t> SentByDevice() const;
  void Clear() { entries_.clear(); }

 private:
  std::vector<LedgerEntry> entries_;
};

// The formulas above, for one device of a group of n.
int64_t AllGatherSent(int64_t input_bytes, int64_t n);
int64_t ReduceScatterSent(int64_t elements, int64_t element_bytes, int64_t n,
                          int64_t member);
int64_t AllReduceSent(int64_t elements, int64_t element_bytes, int64_t n,
                      int64_t member);
int64_t AllToAllSent(int64_t input_bytes, int64_t n);
// Elements of chunk j when E are cut into n.
int64_t ChunkElements(int64_t elements, int64_t n, int64_t j);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_LEDGER_H_
