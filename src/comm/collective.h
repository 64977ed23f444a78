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

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
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

// Defines a collective in one record. The record has the collective's names,
// the bytes that it sends, and the pattern in which devices send to each other.
// It also defines how `verify` compares and lists the collective's bytes.
//
// To add a collective, add an enumerator, a record in collective.cc, and a row
// in each table of exec/machine/collectives.cc: that for one process, and that
// for several. The formulas are in collective.h, and docs/extending.md has an
// example.

// The pattern in which the devices of a group send to each other. The time of a
// collective depends on it.
enum class Route : uint8_t {
  kChunks,  // chunks of the tensor pass through all devices of the group
  kPairs,   // a device sends a part of its data to each other device
  kShift,   // each device sends all its data to one other device
};

// An opcode of XLA, without the suffix `-start` of asynchronous opcodes.
struct XlaOpcode {
  std::string_view name = {};
  // True if the counted bytes are an upper bound: in a ragged-all-to-all, each
  // device decides at run time how much of its operand it sends.
  bool at_most = false;
};

struct CollectiveDef {
  Collective kind = Collective::kAllGather;
  // The name in reports, JSON output and project files.
  std::string_view name = {};
  // The XLA opcodes that `audit` counts as this collective. If there is only
  // one, the second element is empty.
  std::array<XlaOpcode, 2> opcodes = {};
  // Whether the result has sums or maxima of the members' elements.
  bool reduces = false;
  // Whether the result can replace a member's operand in the operand's buffer.
  bool in_place = false;

  // --- bytes ---
  //
  // Returns the bytes that one member of a group of n sends, or INT64_MAX if
  // they overflow. `elements` is the number of elements of the member's input
  // buffer.
  int64_t (*member_sent)(int64_t elements, int64_t element_bytes, int64_t n,
                         int64_t member) = nullptr;
  // Returns the bytes of the member that sends most, or INT64_MAX if they
  // overflow; n must be more than 1.
  int64_t (*busiest_sent)(int64_t elements, int64_t element_bytes,
                          int64_t n) = nullptr;
  // The bytes that the busiest member sends in a compiled program, where XLA
  // may use another algorithm. Null if they equal those of `busiest_sent`.
  int64_t (*compiled_sent)(int64_t elements, int64_t element_bytes,
                           int64_t n) = nullptr;
  // The bytes that attention sends in its backward pass, divided by the bytes
  // that its forward pass sends with this collective. It is 2 for all_gather:
  // keys are gathered again, and their gradients are reduce-scattered. It is 2
  // for ppermute: in ring attention, both keys and gradients pass around the
  // ring. It is 1 for all_to_all, because one all_to_all of the same size is
  // its inverse.
  int times_backward = 1;

  // --- verification ---
  //
  // If the devices are in several processes, members send blocks directly to
  // each other, not around a ring (exec/machine/collectives.cc). This can
  // change the bytes of each device. If only_total is true, `verify` therefore
  // compares only the sum over all devices with the formula.
  bool only_total = false;
  // Whether the JSON of `verify` lists the collective only if it sent bytes.
  bool listed_if_sent = false;

  // --- time ---
  //
  // The pattern in which the devices send, on which the time depends.
  Route route = Route::kChunks;
  // How often the bytes of the unsharded tensor pass through the group's links:
  // twice in an all-reduce, which is a reduce-scatter and an all-gather.
  int passes = 1;
};

const CollectiveDef& DefOf(Collective kind);
// Returns whether a table has one row for each collective, in the order of the
// enumerators. Rows have a member `kind`.
template <class Rows>
constexpr bool HasRowOfEachCollective(const Rows& rows) {
  size_t index = 0;
  for (const auto& row : rows) {
    if (static_cast<size_t>(row.kind) != index++) return false;
  }
  return index == kCollectiveCount;
}
// Returns the collective with this name, or nullopt.
std::optional<Collective> FindCollective(std::string_view name);

// A collective and its opcode in a compiled program. The opcode is not null.
struct CompiledCollective {
  Collective kind = Collective::kAllGather;
  const XlaOpcode* opcode = nullptr;
};
// Returns the collective that has this opcode of XLA, or nullopt.
std::optional<CompiledCollective> FindOpcode(std::string_view opcode);
// Returns the bytes that the busiest device sends in one run of a compiled
// program's collective in groups of n, or INT64_MAX if they overflow. `edges`
// is used only for a collective-permute (Route::kShift), which has a list of
// pairs of source and target. It is the largest number of pairs that have the
// same source.
int64_t CompiledSent(Collective kind, int64_t elements, int64_t element_bytes,
                     int64_t n, int64_t edges);

}  // namespace shardc

#endif  // SHARDC_COMM_COLLECTIVE_H_
