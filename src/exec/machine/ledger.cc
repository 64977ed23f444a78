// Implements the ledger, the record of bytes sent. It has one entry for each
// collective, in program order. MostSent first adds each device's bytes over
// all entries of one kind of collective. It then returns the maximum over the
// devices. Adding the maxima of the entries would count too much. For example:
//
//   two all_gathers: two devices send 8 and 0 bytes, then 0 and 6
//     ->  maximum 8, not 8 + 6; total 14
#include "exec/machine/ledger.h"

#include <algorithm>
#include <utility>

#include "source/size.h"

namespace shardc::exec {

void SentBytes::Add(Collective kind, const std::vector<int64_t>& sent) {
  if (std::all_of(sent.begin(), sent.end(),
                  [](int64_t bytes) { return bytes == 0; })) {
    return;
  }
  std::vector<int64_t>& to = by[static_cast<size_t>(kind)];
  to.resize(std::max(to.size(), sent.size()), 0);
  for (size_t d = 0; d < sent.size(); ++d) {
    to[d] = (Size(to[d]) + sent[d]).value();
  }
}

void SentBytes::Add(const SentBytes& other) {
  for (size_t kind = 0; kind < kCollectiveCount; ++kind) {
    Add(static_cast<Collective>(kind), other.by[kind]);
  }
}

int64_t SentBytes::Most(Collective kind) const {
  const std::vector<int64_t>& of = Of(kind);
  return of.empty() ? 0 : *std::max_element(of.begin(), of.end());
}

int64_t SentBytes::Total() const {
  Size out = 0;
  for (const auto& of : by) {
    for (const int64_t sent : of) out += sent;
  }
  return out.value();
}

bool SentBytes::operator==(const SentBytes& other) const {
  for (size_t kind = 0; kind < kCollectiveCount; ++kind) {
    std::vector<int64_t> a = by[kind], b = other.by[kind];
    a.resize(std::max(a.size(), b.size()), 0);
    b.resize(a.size(), 0);
    if (a != b) return false;
  }
  return true;
}

SentBytes Ledger::Sent() const {
  SentBytes out;
  for (const LedgerEntry& entry : entries_) out.Add(entry.kind, entry.sent);
  return out;
}

void Ledger::Record(Collective kind, AxisGroup axes, int64_t group_size,
                    std::vector<int64_t> sent, std::string_view what) {
  entries_.push_back({kind, std::move(axes), group_size, std::move(sent),
                      static_cast<int64_t>(entries_.size()),
                      std::string(what)});
}

void Ledger::Moved(Collective kind, const std::vector<int64_t>& bytes,
                   int64_t crossed) {
  moved_.Add(kind, bytes);
  crossed_ += crossed;
}

void Ledger::AddMoved(const Ledger& other) {
  moved_.Add(other.moved_);
  crossed_ += other.crossed_;
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
