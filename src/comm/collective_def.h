// The definition of a collective: its name, the bytes that it sends, and the
// properties on which its time depends, in one record. To add a collective, add
// an enumerator, a record in collective.cc, and an entry in each executor
// (exec/machine/collectives.cc, and collectives_ranks.cc for MPI). The formulas
// are in collective.h.
#ifndef SHARDC_COMM_COLLECTIVE_DEF_H_
#define SHARDC_COMM_COLLECTIVE_DEF_H_

#include <cstdint>
#include <string_view>

#include "comm/collective.h"

namespace shardc {

// The pattern in which the devices of a group send to each other. The time of a
// collective depends on it.
enum class Route : uint8_t {
  kChunks,  // chunks of the tensor pass through all devices of the group
  kPairs,   // a device sends a part of its data to each other device
  kShift,   // each device sends all its data to one other device
};

struct CollectiveDef {
  Collective kind = Collective::kAllGather;
  std::string_view name = {};
  // True if the collective combines the members' elements by a sum or a
  // maximum.
  bool reduces = false;

  // --- bytes ---
  //
  // Returns the bytes that one member of a group of n sends, or INT64_MAX if
  // they overflow. `elements` is the size of the member's input, as for
  // BusiestSent.
  int64_t (*member_sent)(int64_t elements, int64_t element_bytes, int64_t n,
                         int64_t member) = nullptr;
  // Returns the bytes of the member that sends most, or INT64_MAX if they
  // overflow; n must be more than 1.
  int64_t (*busiest_sent)(int64_t elements, int64_t element_bytes,
                          int64_t n) = nullptr;

  // --- time ---
  //
  // The pattern in which the devices send, on which the time depends.
  Route route = Route::kChunks;
  // How often the bytes of the unsharded tensor pass through the group's links:
  // twice in an all-reduce, which is a reduce-scatter and an all-gather.
  int passes = 1;
};

const CollectiveDef& DefOf(Collective kind);

}  // namespace shardc

#endif  // SHARDC_COMM_COLLECTIVE_DEF_H_
