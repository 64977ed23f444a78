// Computes results on which all ranks (processes) of a run must agree. Every
// rank sends its own values to all other ranks, and then all ranks compute the
// same result from all values.
//
// This file also compares copies of an array that are on several ranks. Each
// copy is first hashed to a digest of 128 bits. Only if two digests differ, the
// arrays themselves are exchanged, to find the first element that differs.
//
// For example, two ranks call FirstError. Rank 0 passes an error with the order
// number 5, and rank 1 one with the order number 2. Both ranks return the error
// of rank 1, whose number is lower.
#include "exec/machine/agreement.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "exec/machine/collectives.h"
#include "source/size.h"

namespace shardc::exec {
namespace {

void PutNumber(int64_t value, Packet& out) {
  PutAll(std::span(&value, 1), out);
}

void PutNumbers(const std::vector<int64_t>& values, Packet& out) {
  PutNumber(static_cast<int64_t>(values.size()), out);
  PutAll(values, out);
}

void PutText(const std::string& text, Packet& out) {
  PutNumber(static_cast<int64_t>(text.size()), out);
  PutAll(text, out);
}

// Reads a packet that another rank wrote with PutNumber, PutNumbers and
// PutText.
class PacketReader {
 public:
  explicit PacketReader(const Packet& bytes) : left_(bytes) {}

  int64_t Number() {
    int64_t out = 0;
    return TakeAll(left_, std::span(&out, 1)) ? out : 0;
  }
  std::vector<int64_t> Numbers() { return All<std::vector<int64_t>>(); }
  std::string Text() { return All<std::string>(); }

 private:
  // Reads a count and then `count` elements, or fewer if the packet ends.
  template <class Range>
  Range All() {
    constexpr size_t kWidth = sizeof(typename Range::value_type);
    Range out;
    out.resize(std::min(AsIndex(Number()), left_.size() / kWidth));
    TakeAll(left_, out);
    return out;
  }

  std::span<const std::byte> left_;
};

Packet Written(const LayoutError& why, int64_t order) {
  Packet out;
  PutNumber(order, out);
  PutText(why.message, out);
  PutText(why.help, out);
  PutText(why.axis, out);
  PutNumbers({why.devices.begin(), why.devices.end()}, out);
  PutNumbers({why.position.begin(), why.position.end()}, out);
  PutText(why.tensor, out);
  PutNumber(why.dimension ? static_cast<int64_t>(*why.dimension) : -1, out);
  return out;
}

LayoutError ReadLayoutError(PacketReader& in) {
  LayoutError out;
  out.message = in.Text();
  out.help = in.Text();
  out.axis = in.Text();
  for (const int64_t device : in.Numbers()) {
    out.devices.push_back(static_cast<int>(device));
  }
  const std::vector<int64_t> position = in.Numbers();
  out.position.assign(position.begin(), position.end());
  out.tensor = in.Text();
  if (const int64_t dim = in.Number(); dim >= 0) out.dimension = AsIndex(dim);
  return out;
}

// A digest of all bits of an array.
struct Digest {
  uint64_t first = 0x9e3779b97f4a7c15, second = 0xc2b2ae3d27d4eb4f;

  void Add(uint64_t word) {
    first = std::rotl((first ^ word) * 0xff51afd7ed558ccd, 29);
    second = (std::rotl(second, 31) + word) * 0xc4ceb9fe1a85ec53 ^ first;
  }
  template <class T>
  void Add(const std::vector<T>& all) {
    const size_t bytes = all.size() * sizeof(T);
    const auto* const from = reinterpret_cast<const std::byte*>(all.data());
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, from + at, std::min(sizeof(word), bytes - at));
      Add(word);
    }
    Add(uint64_t{bytes});
  }
};

struct Reported {
  Shape shape;
  int64_t first = 0, second = 0;
};

// Returns the shape of the array of each device in `groups`. For a group of
// several devices, also returns a digest of each array. Each rank reports the
// shapes and digests of its own devices to all ranks.
std::map<int, Reported> ReportToGroups(
    const SimMesh& mesh, const PerDevice& local,
    const std::vector<const std::vector<int>*>& groups) {
  Packet own;
  for (const std::vector<int>* group : groups) {
    for (const int device : *group) {
      if (!mesh.Holds(device)) continue;
      const Buffer& array = local[AsIndex(device)];
      Digest digest;
      if (group->size() > 1) {
        digest.Add(array.real);
        digest.Add(array.integers);
        digest.Add(array.wide);
      }
      PutNumber(device, own);
      PutNumbers({array.shape.begin(), array.shape.end()}, own);
      PutNumber(std::bit_cast<int64_t>(digest.first), own);
      PutNumber(std::bit_cast<int64_t>(digest.second), own);
    }
  }
  std::map<int, Reported> out;
  const std::vector<Packet> all = mesh.transport()->Share(own);
  for (int rank = 0; rank < mesh.transport()->ranks(); ++rank) {
    PacketReader in(all[AsIndex(rank)]);
    for (const std::vector<int>* group : groups) {
      for (const int device : *group) {
        if (mesh.RankOf(device) != rank) continue;
        Reported& reported = out[static_cast<int>(in.Number())];
        const std::vector<int64_t> shape = in.Numbers();
        reported.shape.assign(shape.begin(), shape.end());
        reported.first = in.Number();
        reported.second = in.Number();
      }
    }
  }
  return out;
}

// Returns the offset of the first difference between the arrays of two devices.
// The arrays have the same shape. All ranks get the same result.
int64_t PlaceOf(const SimMesh& mesh, const PerDevice& local, int first,
                int other) {
  Crossing crossing(mesh);
  const bool apart = mesh.RankOf(first) != mesh.RankOf(other);
  if (apart && mesh.Holds(first)) {
    crossing.Send(first, other, local[AsIndex(first)]);
  }
  crossing.Deliver();
  Packet own;
  if (mesh.Holds(other)) {
    const Buffer& mine = local[AsIndex(other)];
    const Buffer right =
        apart ? crossing.Take(first, other, mine.shape) : local[AsIndex(first)];
    PutNumber(FirstDifference(right, mine), own);
  }
  const std::vector<Packet> all = mesh.transport()->Share(own);
  return PacketReader(all[AsIndex(mesh.RankOf(other))]).Number();
}

}  // namespace

std::vector<int64_t> SumOverRanks(Transport* transport,
                                  std::vector<int64_t> own) {
  if (transport == nullptr) return own;
  Packet mine;
  PutAll(own, mine);
  std::fill(own.begin(), own.end(), 0);
  for (const Packet& of : transport->Share(mine)) {
    if (of.size() != mine.size()) transport->Stop("ranks add unlike sums");
    std::vector<int64_t> part(own.size());
    std::span<const std::byte> left(of);
    TakeAll(left, part);
    for (size_t i = 0; i < own.size(); ++i) own[i] += part[i];
  }
  return own;
}

Ledger SumOverRanks(Transport* transport, const Ledger& own) {
  if (transport == nullptr) return own;
  std::vector<int64_t> sent;
  for (const LedgerEntry& entry : own.entries()) {
    sent.insert(sent.end(), entry.sent.begin(), entry.sent.end());
  }
  sent = SumOverRanks(transport, std::move(sent));
  Ledger out;
  auto from = sent.begin();
  for (const LedgerEntry& entry : own.entries()) {
    const auto end = from + static_cast<long>(entry.sent.size());
    out.Record(entry.kind, entry.axes, entry.group_size, {from, end},
               entry.what);
    from = end;
  }
  std::vector<int64_t> moved = {own.crossed()};
  // If no device of a rank used a collective, the rank's list of bytes for this
  // collective is empty. The list is filled with zeros, so that all ranks pass
  // equally many numbers.
  int64_t longest = 0;
  for (const LedgerEntry& entry : own.entries()) {
    longest = std::max(longest, static_cast<int64_t>(entry.sent.size()));
  }
  for (std::vector<int64_t> of : own.moved().by) {
    of.resize(AsIndex(longest), 0);
    moved.insert(moved.end(), of.begin(), of.end());
  }
  moved = SumOverRanks(transport, std::move(moved));
  for (size_t kind = 0; kind < kCollectiveCount; ++kind) {
    const auto begin = moved.begin() + 1 + static_cast<long>(kind) * longest;
    out.Moved(static_cast<Collective>(kind), {begin, begin + longest},
              kind == 0 ? moved[0] : 0);
  }
  return out;
}

std::optional<LayoutError> FirstError(const SimMesh& mesh,
                                      std::optional<LayoutError> own,
                                      int64_t order) {
  if (mesh.transport() == nullptr) return own;
  std::optional<LayoutError> out;
  int64_t lowest = 0;
  const std::vector<Packet> all =
      mesh.transport()->Share(own ? Written(*own, order) : Packet{});
  for (const Packet& of : all) {
    if (of.empty()) continue;
    PacketReader in(of);
    const int64_t rank_order = in.Number();
    if (out && rank_order >= lowest) continue;
    lowest = rank_order;
    out = ReadLayoutError(in);
  }
  return out;
}

std::optional<Differing> FirstDiffering(
    const SimMesh& mesh, const PerDevice& local, const Shape& extent,
    const std::vector<const std::vector<int>*>& groups) {
  const std::map<int, Reported> reported = ReportToGroups(mesh, local, groups);
  for (const std::vector<int>* group : groups) {
    const Reported& right = reported.at(group->front());
    for (const int device : *group) {
      const Reported& own = reported.at(device);
      if (own.shape != extent) {
        return Differing{group->front(), device, -1, own.shape};
      }
      if (own.first == right.first && own.second == right.second) continue;
      return Differing{group->front(),
                       device,
                       PlaceOf(mesh, local, group->front(), device),
                       {}};
    }
  }
  return std::nullopt;
}

std::vector<Buffer> ShareArrays(const SimMesh& mesh, const PerDevice& local,
                                const Shape& extent,
                                const std::vector<int>& devices) {
  Packet own;
  for (const int device : devices) {
    if (!mesh.Holds(device)) continue;
    PutParcel(device, device, local[AsIndex(device)], own);
  }
  std::vector<Packet> all = mesh.transport()->Share(own);
  own = {};
  std::map<int, Buffer> of;
  for (Packet& bytes : all) {
    std::vector<Parcel> parcels;
    if (!TakeParcels(bytes, parcels)) {
      mesh.transport()->Stop("an array is cut short");
    }
    bytes = {};
    for (Parcel& parcel : parcels) {
      of[parcel.from] = std::move(parcel.block);
    }
  }
  std::vector<Buffer> out;
  for (const int device : devices) {
    Buffer& array = of[device];
    if (array.Elements() != ElementsOf(extent)) {
      mesh.transport()->Stop("an array is of another size");
    }
    array.shape = extent;
    out.push_back(std::move(array));
  }
  return out;
}

}  // namespace shardc::exec
