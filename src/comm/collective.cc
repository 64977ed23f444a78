// A ring all-reduce or reduce-scatter passes chunks on: in n - 1 rounds each
// member sends one chunk to the next, so every chunk but one passes through it.
// Chunks begin at floor(jE/n), so their sizes differ by one element at most and
// add up to E.
//
// Example: all_reduce of 10 float32 over 4: chunks of 2, 3, 2 and 3 elements.
// Member 0 sends (2*10 - 3 - 2) * 4 = 60 bytes, member 1 also (20 - 2 - 3) * 4
// = 60; the group 2 * 40 * 3 = 240.
#include "comm/collective.h"

#include <array>

#include "source/checked.h"

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

namespace {

// The fewest elements of two neighbouring chunks, which a member of an
// all-reduce does not send: floor(2E/n), as chunks are split evenly.
int64_t LeastTwoChunks(int64_t elements, int64_t n) {
  const int64_t rest = elements % n;
  return 2 * (elements / n) + (rest >= n - rest ? 1 : 0);
}

}  // namespace

int64_t BusiestSent(Collective kind, int64_t elements, int64_t element_bytes,
                    int64_t n) {
  if (n == 1) return 0;
  const auto bytes = [&](int64_t count) {
    return CheckedMul(count, element_bytes).value_or(INT64_MAX);
  };
  switch (kind) {
    case Collective::kAllGather:
      return CheckedMul(n - 1, bytes(elements)).value_or(INT64_MAX);
    case Collective::kAllToAll:
      return AllToAllSent(bytes(elements), n);
    case Collective::kPpermute:
    case Collective::kBroadcast:
      return bytes(elements);
    case Collective::kReduceScatter:
      return bytes(elements - elements / n);
    case Collective::kAllReduce:
      break;
  }
  const auto sent =
      CheckedAdd(elements - LeastTwoChunks(elements, n), elements);
  return sent ? bytes(*sent) : INT64_MAX;
}

int64_t ReduceScatterSentByGroup(int64_t bytes, int64_t n) {
  return (n - 1) * bytes;
}

int64_t AllReduceSentByGroup(int64_t bytes, int64_t n) {
  return 2 * (n - 1) * bytes;
}

}  // namespace shardc
