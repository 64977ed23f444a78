// Directory: comm. Formulas of the bytes that devices send and hold:
// collectives, resharding, the KV cache, parameters.
// Its files include headers of these directories: source, model.
//
// The table has the bytes that a device sends in a collective. n is the number
// of devices in the group, b is the number of bytes of the device's input
// buffer, and F is the number of bytes of the unsharded tensor:
//   all_gather, ring            (n-1) b = F (n-1)/n
//   reduce_scatter, ring        F (n-1)/n          (b = F)
//   all_reduce = the two above  2 F (n-1)/n
//   all_to_all                  b (n-1)/n
//   ppermute                    b for each edge to another device
//   broadcast, pipelined chain  F, the chain's last device 0
// and 0 for n = 1. Sources: P. Patarasuk and X. Yuan, "Bandwidth optimal
// all-reduce algorithms for clusters of workstations", 2009 (a ring sends the
// least bytes possible); the same factors turn time into bus bandwidth in
// nccl-tests. An all_reduce splits its E elements into n chunks. If n does not
// divide E, chunk j has c[j] = floor((j+1)E/n) - floor(jE/n) elements. Member i
// then sends 2E - c[i+1] - c[i+2] elements (indices mod n), which AllReduceSent
// counts exactly.
#ifndef SHARDC_COMM_COLLECTIVE_H_
#define SHARDC_COMM_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardc {

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

// These functions return the bytes that one device of a group of n sends, by
// the formulas at the top of this file, or INT64_MAX on overflow. `elements` is
// the size of the unsharded tensor, and `member` the device's group index.
int64_t AllGatherSent(int64_t input_bytes, int64_t n);
int64_t ReduceScatterSent(int64_t elements, int64_t element_bytes, int64_t n,
                          int64_t member);
int64_t AllReduceSent(int64_t elements, int64_t element_bytes, int64_t n,
                      int64_t member);
int64_t AllToAllSent(int64_t input_bytes, int64_t n);
// Returns the bytes that one device sends in a ring of n. In each of n - 1
// rounds, every device passes a buffer to the next device. Every buffer
// therefore reaches every device.
int64_t RingPassSent(int64_t input_bytes, int64_t n);
// Returns the number of elements of chunk j when `elements` are split into n
// chunks.
int64_t ChunkElements(int64_t elements, int64_t n, int64_t j);

// Returns the bytes that the busiest member of a group sends. `elements` is the
// size of each member's input: the unsharded tensor for reduce_scatter,
// all_reduce and broadcast, and the member's shard for all other collectives.
int64_t BusiestSent(Collective kind, int64_t elements, int64_t element_bytes,
                    int64_t n);

}  // namespace shardc

#endif  // SHARDC_COMM_COLLECTIVE_H_
