// A ring passes chunks on: in n - 1 rounds each member sends one chunk to the
// next, so that all but one chunk passes through it. Chunks are cut at
// floor(jE/n), so that they differ by one element at most and add up to E.
//
// Example: all_reduce of 10 float32 over 4: chunks of 2, 3, 2 and 3 elements.
// Member 0 sends (2*10 - 3 - 2) * 4 = 60 bytes, member 1 also (20 - 2 - 3) * 4
// = 60; the group 2 * 40 * 3 = 240.
#include "comm/collective.h"

#include <algorithm>
#include <array>

namespace shardc {

std::string_view CollectiveName(Collective kind) {
  static constexpr std::array<std::string_view, kCollectiveCount> kNames = {
      "all_gather", "reduce_scatter", "all_reduce",
      "all_to_all", "ppermute",       "broadcast"};
  return kNames[static_cast<size_t>(kind)];
}

int64_t ChunkElements(int64_t elements, int64_t n, int64_t j) {
  return (j + 1) * elements / n - j * elements / n;
}

int64_t AllGatherSent(int64_t input_bytes, int64_t n) {
  return (n - 1) * input_bytes;
}

int64_t ReduceScatterSent(int64_t elements, int64_t element_bytes, int64_t n,
                          int64_t member) {
  if (n == 1) return 0;
  // Every chunk passes through a member but the one that starts after it.
  return (elements - ChunkElements(elements, n, member)) * element_bytes;
}

int64_t AllReduceSent(int64_t elements, int64_t element_bytes, int64_t n,
                      int64_t member) {
  if (n == 1) return 0;
  return (2 * elements - ChunkElements(elements, n, (member + 1) % n) -
          ChunkElements(elements, n, (member + 2) % n)) *
         element_bytes;
}

int64_t AllToAllSent(int64_t input_bytes, int64_t n) {
  return input_bytes / n * (n - 1);
}

int64_t RingPassSent(int64_t input_bytes, int64_t n) {
  return (n - 1) * input_bytes;
}

int64_t BusiestSent(Collective kind, int64_t elements, int64_t element_bytes,
                    int64_t n) {
  if (n == 1) return 0;
  const int64_t bytes = elements * element_bytes;
  int64_t most = 0;
  switch (kind) {
    case Collective::kAllGather:
      return AllGatherSent(bytes, n);
    case Collective::kAllToAll:
      return AllToAllSent(bytes, n);
    case Collective::kPpermute:
    case Collective::kBroadcast:
      return bytes;
    case Collective::kReduceScatter:
    case Collective::kAllReduce:
      break;
  }
  // Where n divides, all members send the same.
  const int64_t members = elements % n == 0 ? 1 : n;
  for (int64_t i = 0; i < members; ++i) {
    most =
        std::max(most, kind == Collective::kAllReduce
                           ? AllReduceSent(elements, element_bytes, n, i)
                           : ReduceScatterSent(elements, element_bytes, n, i));
  }
  return most;
}

int64_t ReduceScatterSentByGroup(int64_t bytes, int64_t n) {
  return (n - 1) * bytes;
}

int64_t AllReduceSentByGroup(int64_t bytes, int64_t n) {
  return 2 * (n - 1) * bytes;
}

}  // namespace shardc
