// Counts the bytes of ring collectives. A ring all-reduce or reduce-scatter
// passes chunks on: in n - 1 rounds each member sends one chunk to the next
// member, so each member sends every chunk but one. Chunk j begins at
// floor(jE/n), so the sizes of chunks differ by one element at most and add up
// to E.
//
// Example: all_reduce of 10 float32 over 4: chunks of 2, 3, 2 and 3 elements.
// Member 0 sends (2*10 - 3 - 2) * 4 = 60 bytes, and member 1 (2*10 - 2 - 3) * 4
// = 60. The group sends 2 * 40 * 3 = 240.
#include "comm/collective.h"

#include <array>

#include "source/size.h"

namespace shardc {

std::string_view CollectiveName(Collective kind) {
  static constexpr std::array<std::string_view, kCollectiveCount> kNames = {
      "all_gather", "reduce_scatter", "all_reduce",
      "all_to_all", "ppermute",       "broadcast"};
  return kNames[static_cast<size_t>(kind)];
}

int64_t ChunkElements(int64_t elements, int64_t n, int64_t j) {
  // Computes floor(jE/n) without the product jE, which could overflow.
  const int64_t each = elements / n, rest = elements % n;
  return each + (j + 1) * rest / n - j * rest / n;
}

int64_t AllGatherSent(int64_t input_bytes, int64_t n) {
  return (Size(n - 1) * input_bytes).value();
}

int64_t ReduceScatterSent(int64_t elements, int64_t element_bytes, int64_t n,
                          int64_t member) {
  if (n == 1) return 0;
  // A member sends every chunk except the one that starts at the next member.
  const int64_t sent = elements - ChunkElements(elements, n, member);
  return (Size(sent) * element_bytes).value();
}

int64_t AllReduceSent(int64_t elements, int64_t element_bytes, int64_t n,
                      int64_t member) {
  if (n == 1) return 0;
  const int64_t first = elements - ChunkElements(elements, n, (member + 1) % n);
  const int64_t second =
      elements - ChunkElements(elements, n, (member + 2) % n);
  return ((Size(first) + second) * element_bytes).value();
}

int64_t AllToAllSent(int64_t input_bytes, int64_t n) {
  return (Size(input_bytes) / n * (n - 1)).value();
}

int64_t RingPassSent(int64_t input_bytes, int64_t n) {
  return (Size(n - 1) * input_bytes).value();
}

namespace {

// Returns the fewest elements of two neighbouring chunks, which a member of an
// all-reduce does not send. Chunks are split evenly, so it is floor(2E/n).
int64_t LeastTwoChunks(int64_t elements, int64_t n) {
  const int64_t rest = elements % n;
  return 2 * (elements / n) + (rest >= n - rest ? 1 : 0);
}

}  // namespace

int64_t BusiestSent(Collective kind, int64_t elements, int64_t element_bytes,
                    int64_t n) {
  if (n == 1) return 0;
  const auto bytes = [&](int64_t count) {
    return (Size(count) * element_bytes).value();
  };
  switch (kind) {
    case Collective::kAllGather:
      return (Size(n - 1) * bytes(elements)).value();
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
  const Size sent = Size(elements - LeastTwoChunks(elements, n)) + elements;
  return (sent * element_bytes).value();
}

}  // namespace shardc
