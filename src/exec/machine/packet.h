// Writes values to packets, the messages between ranks, and reads them. Values
// have the same bytes as in memory, because all ranks run the same program.
#ifndef SHARDC_EXEC_MACHINE_PACKET_H_
#define SHARDC_EXEC_MACHINE_PACKET_H_

#include <algorithm>
#include <cstddef>
#include <span>

#include "exec/machine/transport.h"

namespace shardc::exec {

// Appends the bytes of all elements of a contiguous range to `out`.
template <class Range>
void PutAll(const Range& all, Packet& out) {
  const auto bytes = std::as_bytes(std::span(all));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// Fills `all` with elements from the front of `left`, and removes these
// elements from `left`. Returns false if `left` has too few elements.
template <class Range>
bool TakeAll(std::span<const std::byte>& left, Range&& all) {
  const auto to = std::as_writable_bytes(std::span(all));
  if (to.size() > left.size()) return false;
  std::copy_n(left.begin(), to.size(), to.begin());
  left = left.subspan(to.size());
  return true;
}

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_PACKET_H_
