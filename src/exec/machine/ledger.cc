// Entries in the order of the program. What a device sends is added up over
// entries before devices are compared, so that the most is one device's:
//
//   all_gather by 2 devices of 8 and 0 bytes, then of 0 and 6
//     ->  the most 8, in total 14
#include "exec/machine/ledger.h"

#include <algorithm>
#include <utility>

namespace shardc::exec {

void Ledger::Record(Collective kind, AxisGroup axes, int64_t group_size,
                    std::vector<int64_t> sent, std::string_view what) {
  entries_.push_back({kind, std::move(axes), group_size, std::move(sent),
                      static_cast<int64_t>(entries_.size()),
                      std::string(what)});
}

int64_t Ledger::MostSent(Collective kind) const {
  std::vector<int64_t> sum;
  for (const LedgerEntry& entry : entries_) {
    if (entry.kind != kind) continue;
    sum.resize(std::max(sum.size(), entry.sent.size()), 0);
    for (size_t d = 0; d < entry.sent.size(); ++d) sum[d] += entry.sent[d];
  }
  return sum.empty() ? 0 : *std::max_element(sum.begin(), sum.end());
}

int64_t Ledger::TotalSent(Collective kind) const {
  int64_t out = 0;
  for (const LedgerEntry& entry : entries_) {
    if (entry.kind != kind) continue;
    for (int64_t bytes : entry.sent) out += bytes;
  }
  return out;
}

int64_t Ledger::TotalSent() const {
  int64_t out = 0;
  for (int64_t bytes : SentByDevice()) out += bytes;
  return out;
}

std::vector<int64_t> Ledger::SentByDevice() const {
  std::vector<int64_t> sum;
  for (const LedgerEntry& entry : entries_) {
    sum.resize(std::max(sum.size(), entry.sent.size()), 0);
    for (size_t d = 0; d < entry.sent.size(); ++d) sum[d] += entry.sent[d];
  }
  return sum;
}

}  // namespace shardc::exec
