// The map of a request's cache from the devices of one side to those of
// another, with the bytes of each pair of devices.
#ifndef SHARDC_KV_MAP_H_
#define SHARDC_KV_MAP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kv/side.h"
#include "model/not_known.h"
#include "plan/plan_stages.h"
#include "source/finding.h"

namespace shardc::kv {

// How the devices of the source that have the same part share the sending.
enum class Replicas : uint8_t {
  // The device with the number i of the destination reads from the replica
  // i modulo the number of replicas.
  kByDestination,
  // Each replica sends a range of the tokens, in complete pages.
  kShareTokens,
};

struct MapSettings {
  std::optional<int64_t> tokens;  // of the request
  Replicas replicas = Replicas::kByDestination;
  // Whether the sides may have different dtypes.
  bool convert = false;
};

// Layers, heads and tokens of one kind that a device sends to another.
struct Piece {
  size_t kind = 0;  // index into Map::kinds
  std::vector<LayerRange> layers;
  LayerRange heads;  // by the model's numbers
  // The first of these heads, counted among the heads of the source's device,
  // and among those of the destination's.
  int64_t from_head = 0, to_head = 0;
  // The range of the request's tokens from which tokens are sent: all of these,
  // or if tokens are sharded, those that both devices have.
  LayerRange range;
  int64_t from_part = 0, to_part = 0;  // the parts of sharded tokens
  std::optional<int64_t> tokens;       // the number of tokens that are sent
  int64_t bytes_per_token = 0;         // of all layers and heads
  std::optional<int64_t> bytes;
  // The number of descriptors: ranges of memory that are consecutive on both
  // sides. If the orders of the pages differ, one for each token and head.
  std::optional<int64_t> descriptors;
  // The number that would suffice, if it is lower: a page with one head is the
  // same memory in both orders.
  std::optional<int64_t> least_descriptors;
};

struct Pair {
  int64_t from = 0, to = 0;  // devices
  std::vector<Piece> pieces;
};

// Sums over the pairs, of one kind or of all kinds. Bytes are those of the
// source's dtypes.
struct Totals {
  // The bytes of the request, each element counted once.
  int64_t once = 0;
  int64_t sent = 0;
  int64_t pairs = 0;
  // The most bytes that a device sends, and that a device receives.
  int64_t largest_source = 0, largest_destination = 0;
  std::optional<int64_t> descriptors = 0, least_descriptors = 0;
};

struct Map {
  std::vector<Kind> kinds;
  std::vector<Pair> pairs;  // ascending by destination, then by source
  // The reasons why no map can be made. The other members are then empty.
  std::vector<std::string> refused;
  std::vector<NotKnown> not_known;
  // False if the sizes of a kind are not known, so that it is not mapped.
  bool complete = true;
  // The number of the source's devices that send nothing.
  int64_t idle = 0;
  // Set if the tokens of the request are known.
  std::optional<Totals> totals;
  std::vector<Totals> by_kind;  // indexed by kind
  // The elements (layer, head, token) of the destination, over all its devices,
  // that the proof covers, and whether it also counted each of them.
  int64_t proved = 0;
  bool enumerated = false;
};

// Returns the reasons why the sides do not have the same cache, such as other
// numbers of heads. `from_kinds` and `to_kinds` are the kinds of the two plans.
std::vector<std::string> KindsRefused(const std::vector<Kind>& from,
                                      const std::vector<Kind>& to);

// Returns the kinds `to` in the order of `from`, or nullopt if a kind of `from`
// is not in `to`.
std::optional<std::vector<Kind>> InOrderOf(const std::vector<Kind>& from,
                                           const std::vector<Kind>& to);

// Makes and proves the map. Both sides have the kinds in `kinds`. Returns
// nullopt after a finding (limit, overflow) if the sizes are too large.
std::optional<Map> MakeMap(const std::vector<Kind>& kinds, const Side& from,
                           const Side& to, const MapSettings& settings,
                           Findings& findings);

// Checks that each element that a device of the destination has to have is
// sent to it exactly once, by a device that has it, and that the local numbers
// of heads are those of both devices. Sets Map::proved and Map::enumerated.
// Returns what is wrong; empty if nothing is. The check does not use the
// functions that make the map.
std::string Prove(const Side& from, const Side& to, int64_t tokens, Map& map);

}  // namespace shardc::kv

#endif  // SHARDC_KV_MAP_H_
