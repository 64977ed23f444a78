// Counts the bytes that each device sends in a collective, by the formulas of
// collective.h. In a ring of n members, a tensor of E elements is divided into
// n chunks. Chunk j begins at floor(jE/n), so the sizes of chunks differ by at
// most one element. Chunk and member numbers are modulo n.
//
// A reduce-scatter has n - 1 rounds. In each round, every member sends one
// chunk to the next member, so a member sends every chunk except one. An
// all-reduce is a reduce-scatter and then an all-gather. In the reduce-scatter,
// member i sends all chunks except chunk i + 1. In the all-gather, member i
// sends all chunks except chunk i + 2.
//
// For example, an all-reduce of 10 float32 values over 4 members has chunks c0
// to c3 of 2, 3, 2 and 3 elements. Member 0 sends 10 - 3 elements (without c1)
// and then 10 - 2 (without c2): 15 elements, or 60 bytes. Each other member
// sends 60 bytes too, so the group sends 240.
#include "comm/collective.h"

#include <algorithm>
#include <iterator>

#include "source/size.h"

namespace shardc {

int64_t ChunkElements(int64_t elements, int64_t n, int64_t j) {
  // Computes floor((j+1)E/n) - floor(jE/n) without the product jE, which could
  // overflow.
  const int64_t each = elements / n, rest = elements % n;
  return each + (j + 1) * rest / n - j * rest / n;
}

int64_t AllGatherSent(int64_t input_bytes, int64_t n) {
  return (Size(n - 1) * input_bytes).value();
}

int64_t ReduceScatterSent(int64_t elements, int64_t element_bytes, int64_t n,
                          int64_t member) {
  if (n == 1) return 0;
  // In a ring reduce-scatter chunk i starts at member i + 1 and ends, summed,
  // at member i. A member therefore sends every chunk except the one that ends
  // at it.
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

// Returns the smallest sum of the sizes of two neighbouring chunks. The sum is
// floor(2E/n), because chunks are split evenly. In an all-reduce, member i
// sends 2E elements less the elements of chunks i + 1 and i + 2. So the busiest
// member is the one for which these two chunks are the smallest.
int64_t LeastTwoChunks(int64_t elements, int64_t n) {
  const int64_t rest = elements % n;
  return 2 * (elements / n) + (rest >= n - rest ? 1 : 0);
}

int64_t Bytes(int64_t elements, int64_t element_bytes) {
  return (Size(elements) * element_bytes).value();
}

constexpr CollectiveDef kDefs[] = {
    {
        .kind = Collective::kAllGather,
        .name = "all_gather",
        .opcodes = {{{"all-gather"}}},
        .member_sent =
            [](int64_t elements, int64_t bytes, int64_t n, int64_t) {
              return AllGatherSent(Bytes(elements, bytes), n);
            },
        .busiest_sent =
            [](int64_t elements, int64_t bytes, int64_t n) {
              return AllGatherSent(Bytes(elements, bytes), n);
            },
        .times_backward = 2,
    },
    {
        .kind = Collective::kReduceScatter,
        .name = "reduce_scatter",
        .opcodes = {{{"reduce-scatter"}}},
        .reduces = true,
        .member_sent = ReduceScatterSent,
        .busiest_sent =
            [](int64_t elements, int64_t bytes, int64_t n) {
              return Bytes(elements - elements / n, bytes);
            },
    },
    {
        .kind = Collective::kAllReduce,
        .name = "all_reduce",
        .opcodes = {{{"all-reduce"}}},
        .reduces = true,
        .in_place = true,
        .member_sent = AllReduceSent,
        .busiest_sent =
            [](int64_t elements, int64_t bytes, int64_t n) {
              const Size sent =
                  Size(elements - LeastTwoChunks(elements, n)) + elements;
              return (sent * bytes).value();
            },
        .only_total = true,
        .passes = 2,
    },
    {
        .kind = Collective::kAllToAll,
        .name = "all_to_all",
        .opcodes = {{{"all-to-all"}, {"ragged-all-to-all", true}}},
        .member_sent =
            [](int64_t elements, int64_t bytes, int64_t n, int64_t) {
              return AllToAllSent(Bytes(elements, bytes), n);
            },
        .busiest_sent =
            [](int64_t elements, int64_t bytes, int64_t n) {
              return AllToAllSent(Bytes(elements, bytes), n);
            },
        .route = Route::kPairs,
    },
    {
        .kind = Collective::kPpermute,
        .name = "ppermute",
        .opcodes = {{{"collective-permute"}}},
        // In a shift each device sends its block to another device. A group of
        // one device has no other device, so it sends nothing.
        .member_sent =
            [](int64_t elements, int64_t bytes, int64_t n, int64_t) {
              return n == 1 ? 0 : Bytes(elements, bytes);
            },
        .busiest_sent = [](int64_t elements, int64_t bytes,
                           int64_t) { return Bytes(elements, bytes); },
        .times_backward = 2,
        .route = Route::kShift,
    },
    {
        .kind = Collective::kBroadcast,
        .name = "broadcast",
        .opcodes = {{{"collective-broadcast"}}},
        // A broadcast runs along a chain, whose last device sends nothing.
        .member_sent =
            [](int64_t elements, int64_t bytes, int64_t n, int64_t member) {
              return member + 1 == n ? 0 : Bytes(elements, bytes);
            },
        .busiest_sent = [](int64_t elements, int64_t bytes,
                           int64_t) { return Bytes(elements, bytes); },
        // A compiled broadcast is assumed to pass n chunks around a ring, in
        // which each member sends all chunks but one.
        .compiled_sent =
            [](int64_t elements, int64_t bytes, int64_t n) {
              return AllToAllSent(Bytes(elements, bytes), n);
            },
        .only_total = true,
        .listed_if_sent = true,
    },
};
static_assert(HasRowOfEachCollective(kDefs));

}  // namespace

const CollectiveDef& DefOf(Collective kind) {
  return kDefs[static_cast<size_t>(kind)];
}

std::string_view CollectiveName(Collective kind) { return DefOf(kind).name; }

std::optional<Collective> FindCollective(std::string_view name) {
  const auto* const found =
      std::ranges::find(kDefs, name, &CollectiveDef::name);
  if (found == std::end(kDefs)) return std::nullopt;
  return found->kind;
}

std::optional<CompiledCollective> FindOpcode(std::string_view opcode) {
  for (const CollectiveDef& of : kDefs) {
    for (const XlaOpcode& one : of.opcodes) {
      if (!one.name.empty() && one.name == opcode) {
        return CompiledCollective{of.kind, &one};
      }
    }
  }
  return std::nullopt;
}

int64_t BusiestSent(Collective kind, int64_t elements, int64_t element_bytes,
                    int64_t n) {
  return n == 1 ? 0 : DefOf(kind).busiest_sent(elements, element_bytes, n);
}

int64_t CompiledSent(Collective kind, int64_t elements, int64_t element_bytes,
                     int64_t n, int64_t edges) {
  const CollectiveDef& of = DefOf(kind);
  if (of.route == Route::kShift) {
    return (Size(elements) * element_bytes * edges).value();
  }
  if (of.compiled_sent == nullptr || n == 1) {
    return BusiestSent(kind, elements, element_bytes, n);
  }
  return of.compiled_sent(elements, element_bytes, n);
}

}  // namespace shardc
