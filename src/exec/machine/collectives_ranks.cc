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
#include "exec/machine/collectives_ranks.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "comm/collective_def.h"
#include "exec/machine/agreement.h"
#include "exec/machine/crossing.h"
#include "source/index.h"

namespace shardc::exec {
namespace {

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

}  // namespace

PerDevice RunAcrossRanks(Machine& machine, const CollectiveCall& call) {
  return Across(machine, call).Run();
}

}  // namespace shardc::exec
