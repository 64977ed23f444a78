// Implements reshards, which change the layout of a tensor. Each device copies
// to its new shard the parts that overlap with the old shards. If the device
// holds an old shard itself, it reads its own copy. Otherwise it receives the
// overlap from a device that holds that old shard. If several devices hold the
// same old shard, they take turns in sending.
//
// For example, a tensor [8] that is sharded over tp becomes replicated on dp=2
// tp=2. Two devices hold each half. Each of these two sends its 4 elements to
// one of the two devices that lack them.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "comm/reshard.h"
#include "exec/machine/crossing.h"
#include "exec/machine/sharded.h"
#include "source/index.h"
#include "source/size.h"

namespace shardc::exec {

ShardedTensor Reshard(Machine& machine, const ShardedTensor& tensor, Spec spec,
                      std::string_view what) {
  return machine.Seam<ReshardSeam>().run(
      machine, tensor, PadSpec(std::move(spec), tensor.shape.size()), what);
}

namespace {

// A piece is the block of an old shard that one device needs for its new shard.
// The block's position is not stored but computed from the two layouts, because
// there may be many pieces. If the tensor becomes replicated, every device
// needs a piece of every old shard.
struct Piece {
  int device = 0, holder = 0;
  size_t shard = 0;  // index of the old shard in the grid of old shards
};

// The positions at which a piece begins in the old shard (`from`) and in the
// device's new shard (`to`), and its size in each dimension.
struct Block {
  Shape from, to, size;
};

// Computes the pieces of `tensor` that every device needs for its shard of
// `out`. Old shards form a grid, and a device needs a contiguous range of the
// grid in each dimension. Shards are numbered in the row-major order of the
// grid. The pieces for two replicas of a new shard have the same sizes, so
// ForEachCounted computes the sizes only for the first replica. For example, a
// tensor of 1,024 shards becomes replicated on 1,024 devices. There are a
// million pieces, but only 1,024 sizes are computed.
class Pieces {
 public:
  Pieces(const SimMesh& mesh, const ShardedTensor& tensor,
         const ShardedTensor& out)
      : extent_(LocalShape(mesh, out.shape, out.spec)),
        source_extent_(LocalShape(mesh, out.shape, tensor.spec)),
        is_empty_(ElementsOf(out.shape) == 0) {
    for (const auto& [start, devices] :
         Holders(mesh, tensor.shape, tensor.spec)) {
      starts_.push_back(start);
      holders_.push_back(devices);
      each_held_once_ = each_held_once_ && devices.size() == 1;
    }
    first_replica_.resize(AsIndex(mesh.devices()));
    for (const auto& [start, devices] : Holders(mesh, out.shape, out.spec)) {
      for (int device : devices) first_replica_[AsIndex(device)] = devices[0];
    }
    shard_of_.resize(AsIndex(mesh.devices()));
    for (size_t shard = 0; shard < holders_.size(); ++shard) {
      for (int device : holders_[shard]) shard_of_[AsIndex(device)] = shard;
    }
    for (int device = 0; device < mesh.devices(); ++device) {
      wanted_.push_back(LocalStart(mesh, out.shape, out.spec, device));
    }
    for (size_t d = 0; d < out.shape.size(); ++d) {
      parts_.push_back(mesh.Parts(tensor.spec[d]));
    }
  }

  // Calls `body` with the number of each old shard that overlaps the device's
  // new shard, in ascending order.
  template <class F>
  void ForShards(int device, const F& body) const {
    if (is_empty_) return;
    const size_t rank = extent_.size();
    const Shape& want = wanted_[AsIndex(device)];
    Shape first(rank), last(rank);
    for (size_t d = 0; d < rank; ++d) {
      first[d] = want[d] / source_extent_[d];
      last[d] = (want[d] + extent_[d] - 1) / source_extent_[d];
    }
    Shape at = first;
    while (true) {
      body(AsIndex(OffsetOf(parts_, at)));
      size_t d = rank;
      while (true) {
        if (d == 0) return;
        --d;
        if (++at[d] <= last[d]) break;
        at[d] = first[d];
      }
    }
  }

  // Calls `body` with each piece that any device needs, in the order of the
  // devices. A device reads a piece from its own shard if it holds the old
  // shard. Otherwise the holders of the old shard take turns in sending.
  template <class F>
  void ForEach(const F& body) const {
    std::vector<size_t> turn(holders_.size(), 0);
    for (size_t device = 0; device < wanted_.size(); ++device) {
      const int id = static_cast<int>(device);
      ForShards(id, [&](size_t shard) {
        const std::vector<int>& devices = holders_[shard];
        const bool own = shard_of_[device] == shard;
        const int holder = own ? id : devices[turn[shard]++ % devices.size()];
        body(Piece{id, holder, shard});
      });
    }
  }

  // Like ForEach, but `body` has the number of elements of the piece as a
  // second argument.
  template <class F>
  void ForEachCounted(const F& body) const {
    std::vector<std::vector<int64_t>> counts(wanted_.size());
    int device = -1;
    size_t next = 0;
    ForEach([&](const Piece& piece) {
      if (piece.device != device) next = 0;
      device = piece.device;
      std::vector<int64_t>& own =
          counts[AsIndex(first_replica_[AsIndex(device)])];
      if (next == own.size()) own.push_back(CountOf(piece));
      body(piece, own[next++]);
    });
  }

  // Returns the first device with the same new shard, so that its array can be
  // copied, or -1 if that is `device` itself. Also returns -1 if any old shard
  // has several holders. The two devices could then receive from different
  // replicas, whose bits may differ.
  int SameAs(int device) const {
    const int first = first_replica_[AsIndex(device)];
    return each_held_once_ && first < device ? first : -1;
  }

  // Writes the positions and the extent of the piece to `block`. Callers use
  // one block for all pieces, so that a million pieces need no allocations.
  void Find(const Piece& piece, Block& block) const {
    const Shape& start = starts_[piece.shard];
    const Shape& want = wanted_[AsIndex(piece.device)];
    const size_t rank = start.size();
    auto& [from, to, size] = block;
    from.resize(rank);
    to.resize(rank);
    size.resize(rank);
    for (size_t d = 0; d < rank; ++d) {
      const int64_t begin = std::max(start[d], want[d]);
      const int64_t end =
          std::min(start[d] + source_extent_[d], want[d] + extent_[d]);
      from[d] = begin - start[d];
      to[d] = begin - want[d];
      size[d] = end - begin;
    }
  }

 private:
  int64_t CountOf(const Piece& piece) const {
    const Shape& start = starts_[piece.shard];
    const Shape& want = wanted_[AsIndex(piece.device)];
    Size out = 1;
    for (size_t d = 0; d < start.size(); ++d) {
      out *= std::min(start[d] + source_extent_[d], want[d] + extent_[d]) -
             std::max(start[d], want[d]);
    }
    return out.value();
  }

  Shape extent_, source_extent_;  // shapes of new and old shards
  bool is_empty_;
  Shape parts_;  // number of old shards in each dimension
  // Where each old shard begins, and where each device's new shard begins.
  std::vector<Shape> starts_, wanted_;
  // Indexed by old shard: the devices that hold it.
  std::vector<std::vector<int>> holders_;
  std::vector<size_t> shard_of_;  // indexed by device: its old shard
  // Indexed by device: the first device that has the same new shard.
  std::vector<int> first_replica_;
  bool each_held_once_ = true;
};

// Sends the pieces of this rank's shards to the other devices that need them.
// If `kind` is not null, the ledger records their bytes as moved by this
// collective.
void SendPieces(Machine& machine, const ShardedTensor& tensor,
                const Pieces& places, const Collective* kind,
                Crossing& crossing) {
  const SimMesh& mesh = machine.mesh();
  Block block;
  bool crosses = false;
  places.ForEach([&](const Piece& piece) {
    crosses = crosses || mesh.RankOf(piece.holder) != mesh.RankOf(piece.device);
    if (piece.holder == piece.device || !mesh.Holds(piece.holder)) return;
    places.Find(piece, block);
    crossing.Send(piece.holder, piece.device,
                  SliceBlock(tensor.local[AsIndex(piece.holder)], block.from,
                             block.size));
  });
  if (crosses) crossing.Deliver();
  if (kind != nullptr) {
    machine.ledger().Moved(*kind, crossing.sent(), crossing.crossed());
  }
}

// Copies every piece to its place in `out`. Pieces from other ranks (processes)
// are received first.
void PutPieces(Machine& machine, const ShardedTensor& tensor,
               const Pieces& places, const Collective* kind,
               ShardedTensor& out) {
  const SimMesh& mesh = machine.mesh();
  Block block;
  std::optional<Crossing> crossing;
  if (mesh.transport() != nullptr) {
    crossing.emplace(mesh);
    SendPieces(machine, tensor, places, kind, *crossing);
  }
  const auto copied_from = [&](int device) {
    return crossing ? -1 : places.SameAs(device);
  };
  const Shape extent = LocalShape(mesh, out.shape, out.spec);
  for (int device = 0; device < mesh.devices(); ++device) {
    const bool has_elements = mesh.Holds(device) && copied_from(device) < 0;
    out.local.push_back(has_elements ? Buffer::Zeros(extent, tensor.dtype)
                                     : Buffer::Hollow(extent, tensor.dtype));
  }
  places.ForEach([&](const Piece& piece) {
    if (!mesh.Holds(piece.device) || copied_from(piece.device) >= 0) return;
    Buffer& local = out.local[AsIndex(piece.device)];
    places.Find(piece, block);
    if (mesh.Holds(piece.holder)) {
      CopyBlock(tensor.local[AsIndex(piece.holder)], block.from, local,
                block.to, block.size);
      return;
    }
    const Buffer taken = crossing->Take(piece.holder, piece.device, block.size);
    CopyBlock(taken, Shape(block.size.size(), 0), local, block.to, block.size);
  });
  for (int device = 0; device < mesh.devices(); ++device) {
    const int first = copied_from(device);
    if (first >= 0) out.local[AsIndex(device)] = out.local[AsIndex(first)];
  }
}

}  // namespace

ShardedTensor RunReshard(Machine& machine, const ShardedTensor& tensor,
                         const Spec& spec, std::string_view what) {
  const SimMesh& mesh = machine.mesh();
  ShardedTensor out;
  out.shape = tensor.shape;
  out.dtype = tensor.dtype;
  out.spec = PadSpec(spec, tensor.shape.size());
  const Shape extent = LocalShape(mesh, out.shape, out.spec);
  if (tensor.local[AsIndex(mesh.first_held())].IsHollow()) {
    out.local.assign(AsIndex(mesh.devices()),
                     Buffer::Hollow(extent, out.dtype));
    return out;
  }
  const Pieces places(mesh, tensor, out);
  const int64_t bits = DtypeBits(tensor.dtype);
  std::vector<int64_t> sent_bits(AsIndex(mesh.devices()), 0);
  places.ForEachCounted([&](const Piece& piece, int64_t elements) {
    if (piece.holder == piece.device) return;
    int64_t& sent = sent_bits[AsIndex(piece.holder)];
    sent = (Size(sent) + Size(elements) * bits).value();
  });
  auto move = ClassifyMove(mesh.mesh(), tensor.spec, out.spec);
  PutPieces(machine, tensor, places, move ? &move->kind : nullptr, out);
  if (move && std::any_of(sent_bits.begin(), sent_bits.end(),
                          [](int64_t sent) { return sent > 0; })) {
    for (int64_t& sent : sent_bits) sent = ShareOf(sent, 8);
    for (int d = 0; d < mesh.devices(); ++d) {
      if (!mesh.Holds(d)) sent_bits[AsIndex(d)] = 0;
    }
    const int64_t n = mesh.Parts(move->axes);
    machine.ledger().Record(move->kind, std::move(move->axes), n,
                            std::move(sent_bits), what);
  }
  return out;
}

}  // namespace shardc::exec
