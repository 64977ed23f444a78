// Scatters tensors to devices, gathers them, and checks layouts. A layout
// determines where each device's shard begins. To check that a layout covers a
// tensor, each element of the tensor is set to the element's row-major number
// (UniqueIds). CheckCoverage then checks that each device has exactly the
// numbers of its shard, and that each number occurs as often as there are
// replicas. For example:
//
//   [4] sharded over tp on dp=2 tp=2: devices 0 and 2 hold 0 1, devices 1 and 3
//   hold 2 3, and each number occurs twice
#include "exec/machine/sharded.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "comm/reshard.h"
#include "exec/machine/agreement.h"
#include "exec/machine/collectives.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::exec {
namespace {

AxisGroup NamedAxes(const Spec& spec) {
  AxisGroup out;
  for (const AxisGroup& group : spec) {
    out.insert(out.end(), group.begin(), group.end());
  }
  return out;
}

LayoutError OtherShape(int device, const Shape& shape, const Shape& extent) {
  LayoutError why;
  why.message = "device " + std::to_string(device) + " holds " +
                ShapeText(shape) + " where its layout has " + ShapeText(extent);
  why.devices = {device};
  return why;
}

// Returns the error for the devices `first` and `other`, whose replicas of the
// shard at `start` differ at offset `at`.
LayoutError ReplicasDiffer(const SimMesh& mesh, const Shape& extent,
                           const Shape& start, int first, int other,
                           int64_t at) {
  LayoutError why;
  why.devices = {first, other};
  why.position = PositionOf(extent, at);
  for (size_t d = 0; d < start.size(); ++d) why.position[d] += start[d];
  why.message = "replicas differ on devices " + std::to_string(first) + " (" +
                mesh.DeviceText(first) + ") and " + std::to_string(other) +
                " (" + mesh.DeviceText(other) + ") at " +
                ShapeText(why.position);
  return why;
}

std::optional<LayoutError> CheckReplicasOfRanks(const SimMesh& mesh,
                                                const ShardedTensor& tensor,
                                                const Shape& extent) {
  const auto holders = Holders(mesh, tensor.shape, tensor.spec);
  std::vector<const std::vector<int>*> groups;
  for (const auto& [start, devices] : holders) groups.push_back(&devices);
  const auto bad = FirstDiffering(mesh, tensor.local, extent, groups);
  if (!bad) return std::nullopt;
  if (bad->at < 0) return OtherShape(bad->other, bad->shape, extent);
  return ReplicasDiffer(mesh, extent,
                        LocalStart(mesh, tensor.shape, tensor.spec, bad->first),
                        bad->first, bad->other, bad->at);
}

}  // namespace

ShardedTensor Scatter(const SimMesh& mesh, const Buffer& global, Spec spec) {
  ShardedTensor out;
  out.shape = global.shape;
  out.dtype = global.dtype;
  out.spec = PadSpec(std::move(spec), global.shape.size());
  const Shape extent = LocalShape(mesh, out.shape, out.spec);
  for (int d = 0; d < mesh.devices(); ++d) {
    if (!mesh.Holds(d)) {
      out.local.push_back(Buffer::Hollow(extent, out.dtype));
      continue;
    }
    out.local.push_back(
        SliceBlock(global, LocalStart(mesh, out.shape, out.spec, d), extent));
  }
  return out;
}

void ShapeElsewhere(const SimMesh& mesh, ShardedTensor& tensor) {
  ShapeElsewhere(mesh, LocalShape(mesh, tensor.shape, tensor.spec),
                 tensor.dtype, tensor.local);
}

ShardedTensor OnEveryDevice(const SimMesh& mesh, const Shape& shape,
                            const Spec& spec, const Buffer& local) {
  ShardedTensor out{shape, local.dtype, spec,
                    PerDevice(AsIndex(mesh.devices()))};
  for (int d = mesh.first_held(); d < mesh.end_held(); ++d) {
    out.local[AsIndex(d)] = local;
  }
  ShapeElsewhere(mesh, out);
  return out;
}

std::optional<LayoutError> CheckReplicas(const SimMesh& mesh,
                                         const ShardedTensor& tensor) {
  const Shape extent = LocalShape(mesh, tensor.shape, tensor.spec);
  if (mesh.transport() != nullptr) {
    return CheckReplicasOfRanks(mesh, tensor, extent);
  }
  for (const auto& [start, devices] :
       Holders(mesh, tensor.shape, tensor.spec)) {
    const Buffer& first = tensor.local[AsIndex(devices[0])];
    for (int device : devices) {
      const Buffer& other = tensor.local[AsIndex(device)];
      if (other.shape != extent) {
        return OtherShape(device, other.shape, extent);
      }
      const int64_t at =
          device == devices[0] ? -1 : FirstDifference(first, other);
      if (at < 0) continue;
      return ReplicasDiffer(mesh, extent, start, devices[0], device, at);
    }
  }
  return std::nullopt;
}

std::optional<Buffer> Gather(const SimMesh& mesh, const ShardedTensor& tensor,
                             LayoutError& why) {
  if (auto bad = CheckReplicas(mesh, tensor)) {
    why = std::move(*bad);
    return std::nullopt;
  }
  const Shape extent = LocalShape(mesh, tensor.shape, tensor.spec);
  Buffer out = Buffer::Zeros(tensor.shape, tensor.dtype);
  const auto holders = Holders(mesh, tensor.shape, tensor.spec);
  std::vector<Buffer> shared;
  if (mesh.transport() != nullptr) {
    std::vector<int> first;
    for (const auto& [start, devices] : holders) first.push_back(devices[0]);
    shared = ShareArrays(mesh, tensor.local, extent, first);
  }
  size_t i = 0;
  for (const auto& [start, devices] : holders) {
    const Buffer& part =
        shared.empty() ? tensor.local[AsIndex(devices[0])] : shared[i++];
    CopyBlock(part, Shape(extent.size(), 0), out, start, extent);
  }
  return out;
}

Buffer UniqueIds(const Shape& shape) {
  Buffer out = Buffer::Zeros(shape, Dtype::kI32);
  for (size_t i = 0; i < out.integers.size(); ++i) {
    out.integers[i] = static_cast<int32_t>(i);
  }
  return out;
}

namespace {

LayoutError Misplaced(const SimMesh& mesh, const ShardedTensor& tensor,
                      int device, int64_t id, Shape position) {
  LayoutError why;
  const bool known = id >= 0 && id < ElementsOf(tensor.shape);
  why.message = "device " + std::to_string(device) + " (" +
                mesh.DeviceText(device) + ") holds element " +
                (known ? ShapeText(PositionOf(tensor.shape, id))
                       : "id " + std::to_string(id)) +
                " where " + ShapeText(position) + " belongs";
  why.devices = {device};
  why.position = std::move(position);
  const AxisGroup named = NamedAxes(tensor.spec);
  if (!named.empty()) why.axis = named.front();
  return why;
}

// Each element of a tensor is set to its own row-major number. Counts how often
// each number occurs on the devices. With a correct layout, all numbers are in
// runs of consecutive numbers. A run is counted by two additions: the run 4 5 6
// adds 1 at number 4 and -1 at number 7, and prefix sums then give the counts.
// Numbers outside of runs are counted one by one. Memory for them is allocated
// only if there are such numbers.
class Tally {
 public:
  explicit Tally(int64_t count) : count_(count), begin_(AsIndex(count), 0) {}

  // Counts the numbers of `run`. With a correct layout these are first, first +
  // 1, and so on. Returns the index of the first number that differs, or -1.
  int64_t Add(std::span<const int32_t> run, int64_t first) {
    const auto length = static_cast<int64_t>(run.size());
    int64_t wrong = -1;
    for (int64_t j = 0; j < length && wrong < 0; ++j) {
      if (run[AsIndex(j)] != first + j) wrong = j;
    }
    if (wrong < 0 && first >= 0 && first + length <= count_) {
      if (length == 0) return -1;
      ++begin_[AsIndex(first)];
      if (first + length < count_) --begin_[AsIndex(first + length)];
      return -1;
    }
    single_.resize(AsIndex(count_), 0);
    for (int32_t id : run) {
      if (id >= 0 && id < count_) ++single_[AsIndex(id)];
    }
    return wrong;
  }

  // Calls visit(number, count) in ascending order of numbers, until `visit`
  // returns false. `count` is how often the number occurs.
  template <class Visit>
  void ForEach(const Visit& visit) const {
    int64_t covered = 0;
    for (size_t id = 0; id < begin_.size(); ++id) {
      covered += begin_[id];
      const int64_t alone = single_.empty() ? 0 : single_[id];
      if (!visit(static_cast<int64_t>(id), covered + alone)) return;
    }
  }

 private:
  int64_t count_;
  // Indexed by an element's number. `begin_` is the number of runs that begin
  // at the element, minus the number of runs that end just before it. `single_`
  // is how often the element occurs outside of runs.
  std::vector<int32_t> begin_, single_;
};

// Divides a shard into runs: elements that are contiguous both in the shard and
// in the full tensor. Each run has `length` elements. There is one run for each
// combination of indices of the first `outer` dimensions.
struct Runs {
  size_t outer = 0;
  int64_t length = 1;
};
Runs RunsOf(const Shape& shard, const Shape& full) {
  Runs out = {shard.size(), 1};
  while (out.outer > 0) {
    --out.outer;
    out.length *= shard[out.outer];
    if (shard[out.outer] != full[out.outer]) break;
  }
  return out;
}

}  // namespace

std::optional<LayoutError> CheckCoverage(const SimMesh& mesh,
                                         const ShardedTensor& tensor) {
  const int64_t count = ElementsOf(tensor.shape);
  int64_t parts = 1;
  for (const AxisGroup& group : tensor.spec) parts *= mesh.Parts(group);
  const int64_t replicas = mesh.devices() / parts;
  Tally tally(count);
  LayoutError why;
  for (int device = mesh.first_held(); device < mesh.end_held(); ++device) {
    const Buffer& local = tensor.local[AsIndex(device)];
    const Shape start = LocalStart(mesh, tensor.shape, tensor.spec, device);
    const int64_t elements = local.Elements();
    const auto [outer, run] = RunsOf(local.shape, tensor.shape);
    Shape first = start;
    for (int64_t i = 0; i < elements; i += run) {
      const int64_t offset = OffsetOf(tensor.shape, first);
      const int64_t wrong = tally.Add(
          std::span(local.integers).subspan(AsIndex(i), AsIndex(run)), offset);
      if (wrong >= 0 && why.message.empty()) {
        Shape position = PositionOf(local.shape, i + wrong);
        for (size_t d = 0; d < start.size(); ++d) position[d] += start[d];
        why =
            Misplaced(mesh, tensor, device, local.integers[AsIndex(i + wrong)],
                      std::move(position));
      }
      for (size_t d = outer; d > 0;) {
        --d;
        if (++first[d] < start[d] + local.shape[d]) break;
        first[d] = start[d];
      }
    }
  }
  const auto is_right = [&](int64_t id, int64_t times) {
    if (times == replicas) return true;
    why.position = PositionOf(tensor.shape, id);
    why.message = "element " + ShapeText(why.position) + " is held " +
                  Counted(times, "time") + " where " +
                  Counted(replicas, "replica") + " should hold it once" +
                  (why.message.empty() ? "" : "; " + why.message);
    return false;
  };
  if (mesh.transport() == nullptr) {
    tally.ForEach(is_right);
  } else {
    // The number of times that each element occurs on the devices of all ranks.
    std::vector<int64_t> seen(AsIndex(count));
    tally.ForEach([&](int64_t id, int64_t times) {
      seen[AsIndex(id)] = times;
      return true;
    });
    seen = SumOverRanks(mesh.transport(), std::move(seen));
    const auto first = FirstError(
        mesh, why.message.empty() ? std::nullopt : std::optional(why));
    why = first ? *first : LayoutError{};
    for (int64_t id = 0; id < count; ++id) {
      if (!is_right(id, seen[AsIndex(id)])) break;
    }
  }
  if (why.message.empty()) return std::nullopt;
  return why;
}

// Computes the shape and the start of a device's shard from the device's index
// along the axes of each dimension. For example:
//
//   [6, 8] sharded over [[dp], [tp]] on dp=2 tp=2: device 1 holds [3, 4] from
//   row 0 and column 4

Spec PadSpec(Spec spec, size_t rank) {
  if (spec.size() < rank) spec.resize(rank);
  return spec;
}

std::optional<LayoutError> CheckLayout(const SimMesh& mesh, const Shape& shape,
                                       const Spec& spec) {
  LayoutError why;
  if (spec.size() > shape.size()) {
    why.message =
        "the spec " + SpecText(spec) + " has " +
        Counted(static_cast<int64_t>(spec.size()), "entry", "entries") +
        " for rank " + std::to_string(shape.size());
    return why;
  }
  std::set<std::string> seen;
  for (size_t dim = 0; dim < spec.size(); ++dim) {
    for (const std::string& axis : spec[dim]) {
      why.axis = axis;
      if (!mesh.Has(axis)) {
        why.message = "the mesh has no axis `" + axis + "`";
        why.help = "add it to the mesh, or take it out of the axis rules";
        return why;
      }
      if (!seen.insert(axis).second) {
        why.message = "axis `" + axis + "` occurs twice in " + SpecText(spec);
        why.help =
            "an axis splits one dimension of a tensor: take it out of the "
            "other's axis rule";
        return why;
      }
    }
    const int64_t parts = mesh.Parts(spec[dim]);
    if (shape[dim] % parts != 0) {
      why.axis = spec[dim].front();
      why.dimension = dim;
      why.message = "dimension " + std::to_string(dim) + " of " +
                    ShapeText(shape) + " does not divide into " +
                    std::to_string(parts) + " parts over " +
                    GroupText(spec[dim]);
      why.help =
          "split it over axes whose sizes divide it, or leave it unsharded";
      return why;
    }
  }
  return std::nullopt;
}

Shape LocalShape(const SimMesh& mesh, const Shape& shape, const Spec& spec) {
  Shape out = shape;
  for (size_t dim = 0; dim < spec.size(); ++dim) {
    out[dim] /= mesh.Parts(spec[dim]);
  }
  return out;
}

Shape LocalStart(const SimMesh& mesh, const Shape& shape, const Spec& spec,
                 int device) {
  Shape out(shape.size(), 0);
  for (size_t dim = 0; dim < spec.size(); ++dim) {
    out[dim] =
        mesh.Index(device, spec[dim]) * (shape[dim] / mesh.Parts(spec[dim]));
  }
  return out;
}

std::map<Shape, std::vector<int>> Holders(const SimMesh& mesh,
                                          const Shape& shape,
                                          const Spec& spec) {
  std::map<Shape, std::vector<int>> out;
  for (int d = 0; d < mesh.devices(); ++d) {
    out[LocalStart(mesh, shape, spec, d)].push_back(d);
  }
  return out;
}

// Implements reshards, which change the layout of a tensor. Each device copies
// to its new shard the parts that overlap with the old shards. If the device
// holds an old shard itself, it reads its own copy. Otherwise it receives the
// overlap from a device that holds that old shard. If several devices hold the
// same old shard, they take turns in sending.
//
// For example, a tensor [8] that is sharded over tp becomes replicated on dp=2
// tp=2. Two devices hold each half. Each of these two sends its 4 elements to
// one of the two devices that lack them.

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
