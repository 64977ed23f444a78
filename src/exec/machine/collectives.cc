// Implements the collectives for a mesh whose devices are all in one process.
// Groups of devices are processed one after the other, by reading and writing
// the devices' arrays in memory. The ledger gets the bytes that each device
// would send on a real mesh, by the formulas of comm/collective.h. For
// all_gather, reduce_scatter and all_reduce these formulas assume a ring. A
// reduction is computed once for all members of a group, in ascending order of
// members. Every member therefore has the same bits, for any number of threads.
// For example:
//
//   all_gather over tp=4 of 8 bytes each  ->  32 bytes; each sends 3 * 8
#include "exec/machine/collectives.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "comm/collective.h"
#include "exec/kernels/kernels.h"
#include "floats/convert.h"
#include "source/size.h"

namespace shardc::exec {
namespace {

// Implements the collectives for a mesh whose devices are in several processes
// (ranks). Members of a group send blocks directly to each other. In one
// exchange, all ranks send and receive at the same time. An all_reduce is two
// exchanges. In the first, each member receives one chunk of the elements from
// all other members, and reduces this chunk in ascending order of members. In
// the second, it sends the reduced chunk to all members. The bits are the same
// as in one process, and the members send as many elements in total as in a
// ring.
//
// For example, an all_reduce of 5 elements over tp=2. Member 0 reduces elements
// 0 and 1, and member 1 reduces elements 2 to 4. First, member 0 sends elements
// 2 to 4, and member 1 sends elements 0 and 1. Then member 0 sends its 2 sums,
// and member 1 its 3 sums. In total, 10 = 2 (n - 1) 5 elements are sent, with n
// = 2.

// Returns elements [begin, end) of `from`, in row-major order, as an array of
// one dimension.
Buffer Stretch(const Buffer& from, int64_t begin, int64_t end) {
  Buffer out;
  out.shape = {end - begin};
  out.dtype = from.dtype;
  const auto cut = [&](const auto& source, auto& target) {
    if (!source.empty()) {
      target.assign(source.begin() + begin, source.begin() + end);
    }
  };
  cut(from.real, out.real);
  cut(from.integers, out.integers);
  cut(from.wide, out.wide);
  return out;
}

class Across {
 public:
  Across(Machine& machine, const CollectiveCall& call)
      : machine_(machine),
        mesh_(machine.mesh()),
        call_(call),
        in_(*call.in),
        sample_(in_[AsIndex(mesh_.first_held())]),
        n_(mesh_.Parts(call.axes)),
        groups_(mesh_.Groups(call.axes)),
        out_(in_.size()) {}

  PerDevice Run() {
    struct Row {
      Collective kind;
      void (Across::*run)();
    };
    static constexpr Row kRows[] = {
        {Collective::kAllGather, &Across::AllGather},
        {Collective::kReduceScatter, &Across::ReduceScatter},
        {Collective::kAllReduce, &Across::AllReduce},
        {Collective::kAllToAll, &Across::AllToAll},
        {Collective::kPpermute, &Across::Ppermute},
        {Collective::kBroadcast, &Across::Broadcast},
    };
    static_assert(HasRowOfEachCollective(kRows));
    (this->*kRows[static_cast<size_t>(call_.kind)].run)();
    const Buffer& got = out_[AsIndex(mesh_.first_held())];
    ShapeElsewhere(mesh_, got.shape, got.dtype, out_);
    RecordCall(machine_, groups_, call_);
    return std::move(out_);
  }

 private:
  using Group = std::vector<int>;

  // Calls body(group, index in the group, device) for each device of this rank.
  void ForHeld(const std::function<void(const Group&, int64_t, int)>& body) {
    for (const Group& group : groups_) {
      for (int64_t i = 0; i < n_; ++i) {
        const int device = group[AsIndex(i)];
        if (mesh_.Holds(device)) body(group, i, device);
      }
    }
  }

  using ShapeOf = std::function<Shape(int64_t from, int64_t to)>;
  using BlockOf =
      std::function<Buffer(const Buffer& own, int64_t from, int64_t to)>;
  using Join = std::function<void(int device, int64_t i, std::vector<Buffer>)>;

  // Sends a block from every member i to every other member j of its group. The
  // block is block(array, i, j), where `array` is the array of member i in
  // `in`, and has the shape `shape(i, j)`. Then calls join(device, i, blocks)
  // for each device of this rank, where i is the device's index in its group.
  // `blocks` are the blocks from all members, its own included, in the order of
  // the senders.
  void Everyone(const PerDevice& in, const ShapeOf& shape, const BlockOf& block,
                const Join& join) {
    Crossing crossing(mesh_);
    ForHeld([&](const Group& group, int64_t i, int device) {
      for (int64_t j = 0; j < n_; ++j) {
        if (j == i) continue;
        crossing.Send(device, group[AsIndex(j)],
                      block(in[AsIndex(device)], i, j));
      }
    });
    Deliver(crossing);
    ForHeld([&](const Group& group, int64_t i, int device) {
      std::vector<Buffer> blocks;
      for (int64_t j = 0; j < n_; ++j) {
        const int from = group[AsIndex(j)];
        blocks.push_back(mesh_.Holds(from)
                             ? block(in[AsIndex(from)], j, i)
                             : crossing.Take(from, device, shape(j, i)));
      }
      join(device, i, std::move(blocks));
    });
  }

  void Deliver(Crossing& crossing) {
    if (n_ == 1) return;
    if (Apart()) crossing.Deliver();
    machine_.ledger().Moved(call_.kind, crossing.sent(), crossing.crossed());
  }

  // Returns true if there is a group whose members are on several ranks.
  bool Apart() const {
    return std::any_of(groups_.begin(), groups_.end(), [&](const Group& g) {
      return std::any_of(g.begin(), g.end(), [&](int device) {
        return mesh_.RankOf(device) != mesh_.RankOf(g.front());
      });
    });
  }

  static Buffer Joined(const std::vector<Buffer>& blocks, size_t dim) {
    std::vector<const Buffer*> parts;
    for (const Buffer& block : blocks) parts.push_back(&block);
    return ConcatDim(parts, dim);
  }

  Buffer Reduced(std::vector<Buffer> blocks) const {
    Buffer total = std::move(blocks[0]);
    for (size_t i = 1; i < blocks.size(); ++i) {
      Accumulate(blocks[i], call_.reduce, total);
    }
    if (call_.rounds) RoundTo(total);
    return total;
  }

  void AllGather() {
    Everyone(
        in_, [&](int64_t, int64_t) { return sample_.shape; }, EntireBuffer,
        [&](int device, int64_t, std::vector<Buffer> blocks) {
          out_[AsIndex(device)] = Joined(blocks, call_.dim);
        });
  }

  static Buffer EntireBuffer(const Buffer& own, int64_t, int64_t) {
    return own;
  }

  // Sends slice j of dimension `call_.dim` to member j, for all j.
  void Slices(const Join& join) {
    Shape slice = sample_.shape;
    slice[call_.dim] /= n_;
    const int64_t length = slice[call_.dim];
    Everyone(
        in_, [&](int64_t, int64_t) { return slice; },
        [&](const Buffer& own, int64_t, int64_t j) {
          return SliceDim(own, call_.dim, j * length, length);
        },
        join);
  }

  void ReduceScatter() {
    Slices([&](int device, int64_t, std::vector<Buffer> blocks) {
      out_[AsIndex(device)] = Reduced(std::move(blocks));
    });
  }

  void AllToAll() {
    Slices([&](int device, int64_t, std::vector<Buffer> blocks) {
      out_[AsIndex(device)] = Joined(blocks, call_.concat_dim);
    });
  }

  // Return the first element, and the number of elements, of the chunk that
  // member j reduces.
  int64_t ChunkBegin(int64_t j) const { return j * sample_.Elements() / n_; }
  int64_t ChunkLength(int64_t j) const {
    return ChunkBegin(j + 1) - ChunkBegin(j);
  }

  void AllReduce() {
    Everyone(
        AddChunks(),
        [&](int64_t from, int64_t) { return Shape{ChunkLength(from)}; },
        EntireBuffer,
        [&](int device, int64_t, std::vector<Buffer> chunks) {
          out_[AsIndex(device)] = Joined(chunks, 0);
          out_[AsIndex(device)].shape = sample_.shape;
        });
  }

  // Returns each device's chunk of the reduced value.
  PerDevice AddChunks() {
    PerDevice chunks(in_.size());
    Everyone(
        in_, [&](int64_t, int64_t to) { return Shape{ChunkLength(to)}; },
        [&](const Buffer& own, int64_t, int64_t to) {
          return Stretch(own, ChunkBegin(to), ChunkBegin(to + 1));
        },
        [&](int device, int64_t, std::vector<Buffer> parts) {
          chunks[AsIndex(device)] = Reduced(std::move(parts));
        });
    return chunks;
  }

  void Ppermute() {
    Crossing crossing(mesh_);
    for (const Group& group : groups_) {
      for (const auto& [source, target] : call_.edges) {
        const int from = group[AsIndex(source)], to = group[AsIndex(target)];
        if (from == to || !mesh_.Holds(from)) continue;
        crossing.Send(from, to, in_[AsIndex(from)]);
      }
    }
    Deliver(crossing);
    for (int d = mesh_.first_held(); d < mesh_.end_held(); ++d) {
      out_[AsIndex(d)] = Buffer::Zeros(sample_.shape, sample_.dtype);
    }
    for (const Group& group : groups_) {
      for (const auto& [source, target] : call_.edges) {
        const int from = group[AsIndex(source)], to = group[AsIndex(target)];
        if (!mesh_.Holds(to)) continue;
        out_[AsIndex(to)] = mesh_.Holds(from)
                                ? in_[AsIndex(from)]
                                : crossing.Take(from, to, sample_.shape);
      }
    }
  }

  void Broadcast() {
    Crossing crossing(mesh_);
    for (const Group& group : groups_) {
      const int from = group[AsIndex(call_.root)];
      if (!mesh_.Holds(from)) continue;
      for (const int to : group) {
        if (to != from) crossing.Send(from, to, in_[AsIndex(from)]);
      }
    }
    Deliver(crossing);
    ForHeld([&](const Group& group, int64_t, int device) {
      const int from = group[AsIndex(call_.root)];
      out_[AsIndex(device)] = mesh_.Holds(from)
                                  ? in_[AsIndex(from)]
                                  : crossing.Take(from, device, sample_.shape);
    });
  }

  Machine& machine_;
  const SimMesh& mesh_;
  const CollectiveCall& call_;
  const PerDevice& in_;
  // The buffer of this rank's first device. The other buffers have the same
  // shape.
  const Buffer& sample_;
  int64_t n_;
  std::vector<Group> groups_;
  PerDevice out_;
};

// Computes the same bits as RunCollective. Each rank sends and receives the
// arrays of its own devices, and records the bytes that its devices send. The
// result's entries for devices of other ranks have a shape and no elements.
PerDevice RunAcrossRanks(Machine& machine, const CollectiveCall& call) {
  return Across(machine, call).Run();
}

int64_t ElementBytes(const Buffer& array) { return DtypeBits(array.dtype) / 8; }

using Group = std::vector<int>;  // device ids in the order of the group

// Reduces the arrays of a group's members in ascending order.
Buffer ReduceGroup(const Group& group, const CollectiveCall& call) {
  const PerDevice& in = *call.in;
  Buffer total = in[AsIndex(group[0])];
  for (size_t i = 1; i < group.size(); ++i) {
    Accumulate(in[AsIndex(group[i])], call.reduce, total);
  }
  if (call.rounds) RoundTo(total);
  return total;
}

void AllGatherIn(const Group& group, const CollectiveCall& call,
                 PerDevice& out) {
  std::vector<const Buffer*> parts;
  for (int member : group) parts.push_back(&(*call.in)[AsIndex(member)]);
  const Buffer whole = ConcatDim(parts, call.dim);
  for (int member : group) out[AsIndex(member)] = whole;
}

void ReduceScatterIn(const Group& group, const CollectiveCall& call,
                     PerDevice& out) {
  const Buffer total = ReduceGroup(group, call);
  const auto n = std::ssize(group);
  const int64_t length = total.shape[call.dim] / n;
  for (int64_t i = 0; i < n; ++i) {
    const int member = group[AsIndex(i)];
    out[AsIndex(member)] = SliceDim(total, call.dim, i * length, length);
  }
}

void AllReduceIn(const Group& group, const CollectiveCall& call,
                 PerDevice& out) {
  const Buffer total = ReduceGroup(group, call);
  for (int member : group) out[AsIndex(member)] = total;
}

void AllToAllIn(const Group& group, const CollectiveCall& call,
                PerDevice& out) {
  const auto n = std::ssize(group);
  for (int64_t j = 0; j < n; ++j) {
    std::vector<Buffer> slices;
    for (int member : group) {
      const Buffer& from = (*call.in)[AsIndex(member)];
      const int64_t length = from.shape[call.dim] / n;
      slices.push_back(SliceDim(from, call.dim, j * length, length));
    }
    std::vector<const Buffer*> parts;
    for (const Buffer& slice : slices) parts.push_back(&slice);
    out[AsIndex(group[AsIndex(j)])] = ConcatDim(parts, call.concat_dim);
  }
}

void PpermuteIn(const Group& group, const CollectiveCall& call,
                PerDevice& out) {
  const PerDevice& in = *call.in;
  for (int member : group) {
    const Buffer& own = in[AsIndex(member)];
    out[AsIndex(member)] = Buffer::Zeros(own.shape, own.dtype);
  }
  for (const auto& [source, target] : call.edges) {
    out[AsIndex(group[AsIndex(target)])] = in[AsIndex(group[AsIndex(source)])];
  }
}

void BroadcastIn(const Group& group, const CollectiveCall& call,
                 PerDevice& out) {
  const Buffer& from = (*call.in)[AsIndex(group[AsIndex(call.root)])];
  for (int member : group) out[AsIndex(member)] = from;
}

void SentAlongEdges(const SimMesh& mesh, const Group& group,
                    const CollectiveCall& call, std::vector<int64_t>& sent) {
  for (const auto& [source, target] : call.edges) {
    const int from = group[AsIndex(source)];
    if (source == target || !mesh.Holds(from)) continue;
    sent[AsIndex(from)] += (*call.in)[AsIndex(from)].Bytes();
  }
}

// Counts the bytes by the formula in the collective's definition. A broadcast
// sends along a chain that starts at the root, so the root is member 0 in the
// formula.
void SentByFormula(const SimMesh& mesh, const Group& group,
                   const CollectiveCall& call, std::vector<int64_t>& sent) {
  const CollectiveDef& of = DefOf(call.kind);
  const auto n = std::ssize(group);
  for (int64_t i = 0; i < n; ++i) {
    const int device = group[AsIndex(i)];
    if (!mesh.Holds(device)) continue;
    const Buffer& own = (*call.in)[AsIndex(device)];
    sent[AsIndex(device)] = of.member_sent(own.Elements(), ElementBytes(own), n,
                                           (i + n - call.root) % n);
  }
}

// How a collective runs in one process.
struct Kernel {
  Collective kind;
  // Writes the results of a group's members.
  void (*run)(const Group& group, const CollectiveCall& call, PerDevice& out);
  // Writes to `sent` the bytes that each member sends, for the members that
  // this rank holds. `sent` is indexed by device and has zeros before the call.
  void (*count)(const SimMesh& mesh, const Group& group,
                const CollectiveCall& call,
                std::vector<int64_t>& sent) = SentByFormula;
};
constexpr Kernel kKernels[] = {
    {Collective::kAllGather, AllGatherIn},
    {Collective::kReduceScatter, ReduceScatterIn},
    {Collective::kAllReduce, AllReduceIn},
    {Collective::kAllToAll, AllToAllIn},
    {Collective::kPpermute, PpermuteIn, SentAlongEdges},
    {Collective::kBroadcast, BroadcastIn},
};
static_assert(HasRowOfEachCollective(kKernels));

const Kernel& KernelOf(Collective kind) {
  return kKernels[static_cast<size_t>(kind)];
}

PerDevice Call(Machine& machine, const CollectiveCall& call) {
  return machine.Seam<CollectiveSeam>().run(machine, call);
}

}  // namespace

void Accumulate(const Buffer& part, Reduce reduce, Buffer& total) {
  if (total.IsWide()) {
    for (size_t i = 0; i < total.wide.size(); ++i) {
      double& to = total.wide[i];
      to = reduce == Reduce::kSum ? to + part.wide[i]
                                  : std::max(to, part.wide[i]);
    }
    return;
  }
  if (total.IsReal()) {
    if (reduce == Reduce::kSum) {
      AddInto(part.real, total.real);
    } else {
      MaxInto(part.real, total.real);
    }
    return;
  }
  for (size_t i = 0; i < total.integers.size(); ++i) {
    total.integers[i] = reduce == Reduce::kSum
                            ? total.integers[i] + part.integers[i]
                            : std::max(total.integers[i], part.integers[i]);
  }
}

PerDevice RunCollective(Machine& machine, const CollectiveCall& call) {
  if (machine.mesh().transport() != nullptr) {
    return RunAcrossRanks(machine, call);
  }
  const std::vector<Group> groups = machine.mesh().Groups(call.axes);
  PerDevice out(call.in->size());
  for (const Group& group : groups) {
    KernelOf(call.kind).run(group, call, out);
  }
  RecordCall(machine, groups, call);
  return out;
}

void RecordCall(Machine& machine, const std::vector<std::vector<int>>& groups,
                const CollectiveCall& call) {
  const int64_t n = machine.mesh().Parts(call.axes);
  if (n == 1) return;
  std::vector<int64_t> sent(call.in->size());
  for (const Group& group : groups) {
    KernelOf(call.kind).count(machine.mesh(), group, call, sent);
  }
  machine.ledger().Record(call.kind, call.axes, n, std::move(sent), call.what);
}

PerDevice AllGather(Machine& machine, const AxisGroup& axes,
                    const PerDevice& in, size_t dim, std::string_view what) {
  return Call(machine, {.kind = Collective::kAllGather,
                        .axes = axes,
                        .in = &in,
                        .dim = dim,
                        .what = what});
}

PerDevice ReduceScatter(Machine& machine, const AxisGroup& axes,
                        const PerDevice& in, size_t dim, std::string_view what,
                        bool rounds) {
  return Call(machine, {.kind = Collective::kReduceScatter,
                        .axes = axes,
                        .in = &in,
                        .dim = dim,
                        .rounds = rounds,
                        .what = what});
}

PerDevice AllReduce(Machine& machine, const AxisGroup& axes,
                    const PerDevice& in, Reduce reduce, std::string_view what,
                    bool rounds) {
  return Call(machine, {.kind = Collective::kAllReduce,
                        .axes = axes,
                        .in = &in,
                        .reduce = reduce,
                        .rounds = rounds,
                        .what = what});
}

PerDevice AllToAll(Machine& machine, const AxisGroup& axes, const PerDevice& in,
                   size_t split_dim, size_t concat_dim, std::string_view what) {
  return Call(machine, {.kind = Collective::kAllToAll,
                        .axes = axes,
                        .in = &in,
                        .dim = split_dim,
                        .concat_dim = concat_dim,
                        .what = what});
}

PerDevice Ppermute(Machine& machine, const AxisGroup& axes, const PerDevice& in,
                   const std::vector<Edge>& edges, std::string_view what) {
  return Call(machine, {.kind = Collective::kPpermute,
                        .axes = axes,
                        .in = &in,
                        .edges = edges,
                        .what = what});
}

PerDevice Broadcast(Machine& machine, const AxisGroup& axes,
                    const PerDevice& in, int64_t root, std::string_view what) {
  return Call(machine, {.kind = Collective::kBroadcast,
                        .axes = axes,
                        .in = &in,
                        .root = root,
                        .what = what});
}

std::vector<Edge> RingEdges(int64_t n) {
  std::vector<Edge> out;
  for (int64_t i = 0; i < n; ++i) out.emplace_back(i, (i + 1) % n);
  return out;
}

// Sends blocks of elements between devices, also between devices of different
// ranks (processes). All blocks for one rank are concatenated to one message.
// Each block has a header with its sending and its receiving device. All ranks
// exchange their messages in one call.
//
// Elements are sent with the width of their dtype. If the dtype cannot
// represent an element of a block exactly, the block is sent with the width
// that the array has in host memory. Its bytes are then counted with this
// width. For example:
//
//   device 0 on rank 0 sends BF16 [3] to devices 1 and 2 on rank 1
//     ->  rank 1 receives two headers and 2 * 6 bytes

namespace {

struct Line {
  int32_t from = 0, to = 0;
  // The dtype of the elements, and the bytes of each element in the message.
  int32_t dtype = 0, width = 0;
  int64_t elements = 0;
};

// Sets `out` to the elements of `x` as F16 or BF16. Returns false if that
// changes the bits of an element.
bool Halves(Dtype dtype, const std::vector<float>& x,
            std::vector<uint16_t>& out) {
  out.resize(x.size());
  std::vector<float> back(x.size());
  if (dtype == Dtype::kF16) {
    F32ToF16(x, out);
    F16ToF32(out, back);
  } else {
    F32ToBf16(x, out);
    Bf16ToF32(out, back);
  }
  return x.empty() ||
         std::memcmp(x.data(), back.data(), x.size() * sizeof(float)) == 0;
}

// Appends the elements of `x` as int8, for I8 and BOOL. Returns false if an
// element does not fit in 8 bits.
bool Eighths(const std::vector<int32_t>& x, std::vector<int8_t>& out) {
  for (const int32_t value : x) {
    if (value != static_cast<int8_t>(value)) return false;
    out.push_back(static_cast<int8_t>(value));
  }
  return true;
}

template <class T>
int PutWidth(const std::vector<T>& all, Packet& out) {
  PutAll(all, out);
  return sizeof(T);
}

// Appends the elements of a block. Returns the number of bytes per element.
int PutElements(const Buffer& block, Packet& out) {
  if (block.IsWide()) return PutWidth(block.wide, out);
  if (block.IsReal()) {
    std::vector<uint16_t> halves;
    if (block.dtype != Dtype::kF32 && Halves(block.dtype, block.real, halves)) {
      return PutWidth(halves, out);
    }
    return PutWidth(block.real, out);
  }
  std::vector<int8_t> eighths;
  if (DtypeBits(block.dtype) == 8 && Eighths(block.integers, eighths)) {
    return PutWidth(eighths, out);
  }
  return PutWidth(block.integers, out);
}

template <class T>
void GetAll(std::span<const std::byte> bytes, std::vector<T>& all) {
  if (!all.empty()) std::memcpy(all.data(), bytes.data(), bytes.size());
}

void GetElements(std::span<const std::byte> bytes, int width, Buffer& out) {
  if (out.IsWide()) return GetAll(bytes, out.wide);
  if (out.IsReal()) {
    if (width == sizeof(float)) return GetAll(bytes, out.real);
    std::vector<uint16_t> halves(out.real.size());
    GetAll(bytes, halves);
    if (out.dtype == Dtype::kF16) {
      F16ToF32(halves, out.real);
    } else {
      Bf16ToF32(halves, out.real);
    }
    return;
  }
  if (width == sizeof(int32_t)) return GetAll(bytes, out.integers);
  std::vector<int8_t> eighths(out.integers.size());
  GetAll(bytes, eighths);
  out.integers.assign(eighths.begin(), eighths.end());
}

}  // namespace

void ShapeElsewhere(const SimMesh& mesh, const Shape& extent, Dtype dtype,
                    PerDevice& local) {
  if (mesh.transport() == nullptr) return;
  for (int d = 0; d < mesh.devices(); ++d) {
    if (mesh.Holds(d)) continue;
    local[AsIndex(d)] = Buffer::Hollow(extent, dtype);
  }
}

void PutParcel(int from, int to, const Buffer& block, Packet& out) {
  Line line;
  line.from = from;
  line.to = to;
  line.dtype = static_cast<int32_t>(block.dtype);
  line.elements = block.Elements();
  const size_t at = out.size();
  PutAll(std::span(&line, 1), out);
  line.width = PutElements(block, out);
  std::memcpy(out.data() + at, &line, sizeof(line));
}

bool TakeParcels(std::span<const std::byte> bytes, std::vector<Parcel>& out) {
  while (!bytes.empty()) {
    Line line;
    if (!TakeAll(bytes, std::span(&line, 1))) return false;
    const size_t size = AsIndex(line.elements) * AsIndex(line.width);
    if (bytes.size() < size) return false;
    Parcel parcel;
    parcel.from = line.from;
    parcel.to = line.to;
    parcel.block =
        Buffer::Zeros({line.elements}, static_cast<Dtype>(line.dtype));
    GetElements(bytes.first(size), line.width, parcel.block);
    bytes = bytes.subspan(size);
    out.push_back(std::move(parcel));
  }
  return true;
}

Crossing::Crossing(const SimMesh& mesh)
    : mesh_(mesh),
      out_(AsIndex(mesh.transport()->ranks())),
      sent_(AsIndex(mesh.devices()), 0) {}

void Crossing::Send(int from, int to, const Buffer& block) {
  if (mesh_.Holds(to)) {
    sent_[AsIndex(from)] += block.Bytes();
    return;
  }
  Packet& out = out_[AsIndex(mesh_.RankOf(to))];
  const size_t before = out.size();
  PutParcel(from, to, block, out);
  const auto bytes = static_cast<int64_t>(out.size() - before - sizeof(Line));
  sent_[AsIndex(from)] += bytes;
  crossed_ += bytes;
}

void Crossing::Deliver() {
  Transport& transport = *mesh_.transport();
  std::vector<Packet> in = transport.Exchange(std::move(out_));
  out_.assign(in.size(), {});
  for (Packet& bytes : in) {
    std::vector<Parcel> parcels;
    if (!TakeParcels(bytes, parcels)) transport.Stop("a parcel is cut short");
    bytes = {};
    for (Parcel& parcel : parcels) {
      arrived_[{parcel.from, parcel.to}] = std::move(parcel.block);
    }
  }
}

Buffer Crossing::Take(int from, int to, Shape shape) {
  const auto found = arrived_.find({from, to});
  if (found == arrived_.end() ||
      found->second.Elements() != ElementsOf(shape)) {
    mesh_.transport()->Stop("device " + std::to_string(to) +
                            " was not sent what device " +
                            std::to_string(from) + " owes it");
  }
  Buffer out = std::move(found->second);
  arrived_.erase(found);
  out.shape = std::move(shape);
  return out;
}

}  // namespace shardc::exec
