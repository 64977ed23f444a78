// Values into packets and out of them, as they lie in memory: ranks run the
// same program.
#ifndef SHARDC_EXEC_MACHINE_PACKET_H_
#define SHARDC_EXEC_MACHINE_PACKET_H_

#include <algorithm>
#include <cstddef>
#include <span>

#include "exec/machine/transport.h"

namespace shardc::exec {

// The elements of a range that lies in one piece.
template <class Range>
void PutAll(const Range& all, Packet& out) {
  const auto bytes = std::as_bytes(std::span(all));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// As many as there are in `all`, from the front of what is left; false where
// less is left.
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
