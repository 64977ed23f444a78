// Directory: exec/machine. The simulated mesh: devices, buffers, collectives
// and the ledger of bytes sent.
// Its files include headers of these directories: source, model, floats, comm,
// exec/kernels.
//
// Simulates a mesh of devices as a bulk-synchronous machine: steps that every
// device runs on its own buffers alternate with collectives and reshards. Only
// collectives and reshards read the buffers of other devices.
#ifndef SHARDC_EXEC_MACHINE_MACHINE_H_
#define SHARDC_EXEC_MACHINE_MACHINE_H_

#include <algorithm>
#include <any>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/collective.h"
#include "comm/reshard.h"
#include "model/mesh.h"
#include "source/process.h"

namespace shardc::exec {

// The bytes that leave each device, by collective. `by[c]` is indexed by device
// id. It is empty if collective c sent nothing.
struct SentBytes {
  std::array<std::vector<int64_t>, kCollectiveCount> by;

  // Adds `sent`, which is indexed by device id, to the bytes of `kind`.
  void Add(Collective kind, const std::vector<int64_t>& sent);
  void Add(const SentBytes& other);
  const std::vector<int64_t>& Of(Collective kind) const {
    return by[static_cast<size_t>(kind)];
  }
  // Returns the largest number of bytes that any device sent in collectives of
  // this kind.
  int64_t Most(Collective kind) const;
  int64_t Total() const;
  // Compares all numbers; an empty list equals a list of zeros.
  bool operator==(const SentBytes& other) const;
};

struct LedgerEntry {
  Collective kind = Collective::kAllGather;
  AxisGroup axes;
  int64_t group_size = 1;
  // Indexed by device id: bytes that leave the device.
  std::vector<int64_t> sent;
  int64_t step = 0;  // index of the collective in program order
  std::string what;  // name of the tensor that was sent
};

class Ledger {
 public:
  void Record(Collective kind, AxisGroup axes, int64_t group_size,
              std::vector<int64_t> sent, std::string_view what);
  // Records the bytes that devices sent to each other in a run with several
  // processes. This does not change the ledger's entries, whose bytes are
  // computed by formulas. `bytes` is indexed by the sending device; `crossed`
  // of these bytes went to other ranks (processes).
  void Moved(Collective kind, const std::vector<int64_t>& bytes,
             int64_t crossed);
  // Adds the moved bytes of `other`, but not its entries.
  void AddMoved(const Ledger& other);
  const SentBytes& moved() const { return moved_; }
  int64_t crossed() const { return crossed_; }
  const std::vector<LedgerEntry>& entries() const { return entries_; }
  int64_t steps() const { return static_cast<int64_t>(entries_.size()); }
  SentBytes Sent() const;

  // Return the bytes that a collective sent, added over all entries: the
  // largest sum of any device, and the sum over all devices.
  int64_t MostSent(Collective kind) const;
  int64_t TotalSent(Collective kind) const;
  int64_t TotalSent() const;  // the sum over all collectives
  // Returns the bytes that each device sent in all collectives, indexed by
  // device id. The list is empty if there are no entries.
  std::vector<int64_t> SentByDevice() const;

 private:
  std::vector<LedgerEntry> entries_;
  SentBytes moved_;
  int64_t crossed_ = 0;
};

// Declares how the processes of one simulated mesh communicate. Each process
// (rank) holds consecutive devices of the mesh. Without a transport, one
// process holds all devices.

using Packet = std::vector<std::byte>;

// Appends the bytes of all elements of a contiguous range to `out`.
template <class Range>
void PutAll(const Range& all, Packet& out) {
  const auto bytes = std::as_bytes(std::span(all));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// Fills `all` with elements from the front of `left`, and removes these
// elements from `left`. Returns false if `left` has too few elements.
template <class Range>
bool TakeAll(std::span<const std::byte>& left, Range&& all) {
  const auto to = std::as_writable_bytes(std::span(all));
  if (to.size() > left.size()) return false;
  std::copy_n(left.begin(), to.size(), to.begin());
  left = left.subspan(to.size());
  return true;
}

// Communication between the ranks of a run. Every rank must make the same calls
// in the same order.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Sends `out[r]` to rank r. Returns the packets that the ranks sent to this
  // rank, indexed by sender.
  virtual std::vector<Packet> Exchange(std::vector<Packet> out) = 0;
  // Sends `own` to all ranks. Returns the packets that all ranks sent, indexed
  // by sender.
  virtual std::vector<Packet> Share(const Packet& own) = 0;
  // Ends the processes of all ranks. A rank calls this if it cannot continue,
  // so that the other ranks do not wait for it.
  [[noreturn]] virtual void Stop(const std::string& why) = 0;
};

// The simulated mesh: device ids, coordinates, and groups over axes.
//
// A device's id is its row-major rank over the mesh's axes: the last axis
// varies fastest. The index along an axis list (a1, ..., ak) is computed in the
// same way from the coordinates on a1, ..., ak. With dp=2 fsdp=4, the device at
// dp=1 fsdp=2 has the index 2 * 2 + 1 = 5 along [fsdp, dp], but 1 * 4 + 2 = 6
// along [dp, fsdp]: these are different layouts. An axis that the mesh lacks
// has size 1.
//
// With a transport there are n ranks (processes), and D devices in total. Rank
// r holds devices [r D / n, (r + 1) D / n); n must not exceed D. The arrays of
// devices on other ranks have a shape and no elements.

class SimMesh {
 public:
  explicit SimMesh(Mesh mesh, Transport* transport = nullptr);

  const Mesh& mesh() const { return mesh_; }
  int devices() const { return devices_; }
  // Returns null if this process holds all devices.
  Transport* transport() const { return transport_; }
  // This process holds devices [first_held, end_held).
  int first_held() const { return first_held_; }
  int end_held() const { return end_held_; }
  bool Holds(int device) const {
    return device >= first_held_ && device < end_held_;
  }
  int RankOf(int device) const;
  int64_t SizeOf(std::string_view axis) const;
  bool Has(std::string_view axis) const;
  // Returns the product of the axes' sizes: the number of shards of a dimension
  // that is sharded over them.
  int64_t Parts(const AxisGroup& axes) const;

  int64_t Coordinate(int device, std::string_view axis) const;
  // Returns the device's index along the axes, in [0, Parts(axes)).
  int64_t Index(int device, const AxisGroup& axes) const;
  // Returns the groups of devices that have equal coordinates on all axes not
  // in the list. The members of a group are in the order of Index(). The groups
  // are in the order of their first members' ids.
  std::vector<std::vector<int>> Groups(const AxisGroup& axes) const;
  // Returns the coordinates of a device for messages, such as "dp=1 tp=3".
  std::string DeviceText(int device) const;

 private:
  Mesh mesh_;
  int devices_ = 1;
  Transport* transport_;
  int first_held_ = 0, end_held_ = 1;
  std::vector<std::vector<int64_t>> coordinates_;  // [device][mesh axis]
};

inline AxisGroup DropTrivial(const SimMesh& mesh, const AxisGroup& axes) {
  return DropTrivial(mesh.mesh(), axes);
}
inline bool IsPrefix(const SimMesh& mesh, const AxisGroup& prefix,
                     const AxisGroup& whole) {
  return IsPrefix(mesh.mesh(), prefix, whole);
}

// Declares Seams, which let tests replace steps of a run. A seam is one
// replaceable step: a test can replace it by a function that observes the step
// or injects a fault. Each folder declares the seams of its own programs as
// structs of functions. The default functions are the correct ones. A machine
// stores the seams that were replaced in its run, and programs get every seam
// from the machine.

class Seams {
 public:
  // Stores the seam, in place of an earlier seam of the same type.
  template <class Seam>
  void Set(Seam seam) {
    if (auto* const held = const_cast<Seam*>(Find<Seam>())) {
      *held = std::move(seam);
    } else {
      held_.emplace_back(std::move(seam));
    }
  }
  // Returns the seam that was set, or a seam with the default functions.
  template <class Seam>
  const Seam& Get() const {
    static const Seam kRight{};
    const Seam* const held = Find<Seam>();
    return held != nullptr ? *held : kRight;
  }

 private:
  template <class Seam>
  const Seam* Find() const {
    for (const std::any& any : held_) {
      if (const auto* held = std::any_cast<Seam>(&any)) return held;
    }
    return nullptr;
  }

  std::vector<std::any> held_;
};

class Machine {
 public:
  // `threads` is the number of host threads that simulate the devices. It never
  // changes a result.
  explicit Machine(const SimMesh& mesh, int threads = 1, Seams seams = {});

  const SimMesh& mesh() const { return *mesh_; }
  int devices() const { return mesh_->devices(); }
  Ledger& ledger() { return ledger_; }
  const Ledger& ledger() const { return ledger_; }
  // Runs `body(device)` for every device of this rank. `body` may write only to
  // that device's buffers.
  void Local(const std::function<void(int)>& body) const;
  // Returns the seam of type T (a replaceable step, see Seams) that was passed
  // to the constructor, or the default seam.
  template <class T>
  const T& Seam() const {
    return seams_.Get<T>();
  }

 private:
  const SimMesh* mesh_;
  std::unique_ptr<ThreadPool> pool_;  // null if there is one thread
  Seams seams_;
  Ledger ledger_;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_MACHINE_H_
