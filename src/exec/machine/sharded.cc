// A layout determines where each device's shard begins, and everything here
// follows from that. A reshard computes, for every device and every old shard,
// the overlap of the two: the device's own shard first, then shards of their
// holders in turn.
//
//   [8] over tp, on dp 2, tp 2, to replicated: each half has two holders, and
//   each of them sends its 4 elements to one of the two devices that lack them
//
// Coverage is proven with the elements' numbers as values: each device must
// hold exactly the numbers of its place, and all devices together as many
// copies of each as there are replicas.
#include "exec/machine/sharded.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "comm/reshard.h"
#include "exec/machine/agreement.h"
#include "exec/machine/crossing.h"
#include "source/index.h"
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

// Returns the devices that hold the same shard, by the shard's first position.
std::map<Shape, std::vector<int>> Holders(const SimMesh& mesh,
                                          const Shape& shape,
                                          const Spec& spec) {
  std::map<Shape, std::vector<int>> out;
  for (int d = 0; d < mesh.devices(); ++d) {
    out[LocalStart(mesh, shape, spec, d)].push_back(d);
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

// Builds the error for two replicas of the shard at `start` that differ at
// offset `at`.
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
  const auto bad = FirstDiffering(mesh, tensor, extent, groups);
  if (!bad) return std::nullopt;
  if (bad->at < 0) return OtherShape(bad->other, bad->shape, extent);
  return ReplicasDiffer(mesh, extent,
                        LocalStart(mesh, tensor.shape, tensor.spec, bad->first),
                        bad->first, bad->other, bad->at);
}

}  // namespace

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
    shared = ShareArrays(mesh, tensor, first);
  }
  size_t i = 0;
  for (const auto& [start, devices] : holders) {
    const Buffer& part =
        shared.empty() ? tensor.local[AsIndex(devices[0])] : shared[i++];
    CopyBlock(part, Shape(extent.size(), 0), out, start, extent);
  }
  return out;
}

ShardedTensor Reshard(Machine& machine, const ShardedTensor& tensor, Spec spec,
                      std::string_view what) {
  return machine.Seam<ReshardSeam>().run(
      machine, tensor, PadSpec(std::move(spec), tensor.shape.size()), what);
}

namespace {

// A block that one device needs of a shard: its place in the shard and in the
// device's new shard, and its extent.
struct Piece {
  int device = 0, holder = 0;
  Shape from, to, size;
};

// Returns what every device needs of `tensor` to have `out`, from its own shard
// first.
std::vector<Piece> PiecesOf(const SimMesh& mesh, const ShardedTensor& tensor,
                            const ShardedTensor& out) {
  std::vector<Piece> pieces;
  const size_t rank = tensor.shape.size();
  const Shape extent = LocalShape(mesh, out.shape, out.spec);
  const Shape source_extent = LocalShape(mesh, out.shape, tensor.spec);
  const auto holders = Holders(mesh, tensor.shape, tensor.spec);
  std::map<Shape, size_t> turn;  // the next holder to send each shard
  for (int device = 0; device < mesh.devices(); ++device) {
    const Shape want = LocalStart(mesh, out.shape, out.spec, device);
    for (const auto& [start, devices] : holders) {
      Shape from(rank), to(rank), size(rank);
      bool meets = true;
      for (size_t d = 0; d < rank; ++d) {
        const int64_t begin = std::max(start[d], want[d]);
        const int64_t end =
            std::min(start[d] + source_extent[d], want[d] + extent[d]);
        meets = meets && begin < end;
        from[d] = begin - start[d];
        to[d] = begin - want[d];
        size[d] = end - begin;
      }
      if (!meets) continue;
      int holder = device;
      if (std::find(devices.begin(), devices.end(), device) == devices.end()) {
        holder = devices[turn[start]++ % devices.size()];
      }
      pieces.push_back(
          {device, holder, std::move(from), std::move(to), std::move(size)});
    }
  }
  return pieces;
}

// Copies the pieces to their places, over ranks if there are several.
void PutPieces(Machine& machine, const ShardedTensor& tensor,
               const std::vector<Piece>& pieces, const Collective* kind,
               ShardedTensor& out) {
  const SimMesh& mesh = machine.mesh();
  std::optional<Crossing> crossing;
  if (mesh.transport() != nullptr) crossing.emplace(mesh);
  if (crossing) {
    for (const Piece& piece : pieces) {
      if (piece.holder == piece.device || !mesh.Holds(piece.holder)) continue;
      crossing->Send(piece.holder, piece.device,
                     SliceBlock(tensor.local[AsIndex(piece.holder)], piece.from,
                                piece.size));
    }
    if (std::any_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
          return mesh.RankOf(piece.holder) != mesh.RankOf(piece.device);
        })) {
      crossing->Deliver();
    }
    if (kind != nullptr) {
      machine.ledger().Moved(*kind, crossing->sent(), crossing->crossed());
    }
  }
  const Shape extent = LocalShape(mesh, out.shape, out.spec);
  for (int device = 0; device < mesh.devices(); ++device) {
    out.local.push_back(mesh.Holds(device)
                            ? Buffer::Zeros(extent, tensor.dtype)
                            : Buffer::Hollow(extent, tensor.dtype));
  }
  for (const Piece& piece : pieces) {
    if (!mesh.Holds(piece.device)) continue;
    Buffer& local = out.local[AsIndex(piece.device)];
    if (mesh.Holds(piece.holder)) {
      CopyBlock(tensor.local[AsIndex(piece.holder)], piece.from, local,
                piece.to, piece.size);
      continue;
    }
    const Buffer block = crossing->Take(piece.holder, piece.device, piece.size);
    CopyBlock(block, Shape(piece.size.size(), 0), local, piece.to, piece.size);
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
  const std::vector<Piece> pieces = PiecesOf(mesh, tensor, out);
  const int64_t bits = DtypeBits(tensor.dtype);
  std::vector<int64_t> sent_bits(AsIndex(mesh.devices()), 0);
  for (const Piece& piece : pieces) {
    if (piece.holder == piece.device) continue;
    int64_t& sent = sent_bits[AsIndex(piece.holder)];
    sent = (Size(sent) + Size(ElementsOf(piece.size)) * bits).value();
  }
  auto move = ClassifyMove(mesh.mesh(), tensor.spec, out.spec);
  PutPieces(machine, tensor, pieces, move ? &move->kind : nullptr, out);
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

Buffer UniqueIds(const Shape& shape) {
  Buffer out = Buffer::Zeros(shape, Dtype::kI32);
  for (size_t i = 0; i < out.whole.size(); ++i) {
    out.whole[i] = static_cast<int32_t>(i);
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

}  // namespace

std::optional<LayoutError> CheckCoverage(const SimMesh& mesh,
                                         const ShardedTensor& tensor) {
  const int64_t count = ElementsOf(tensor.shape);
  int64_t parts = 1;
  for (const AxisGroup& group : tensor.spec) parts *= mesh.Parts(group);
  const int64_t replicas = mesh.devices() / parts;
  // How often each element occurs over all devices.
  std::vector<int64_t> seen(AsIndex(count), 0);
  LayoutError why;
  for (int device = mesh.first_held(); device < mesh.end_held(); ++device) {
    const Buffer& local = tensor.local[AsIndex(device)];
    const Shape start = LocalStart(mesh, tensor.shape, tensor.spec, device);
    const int64_t elements = local.Elements();
    // Offsets ascend by one along the last dimension.
    const int64_t run = elements > 0 ? local.shape.back() : 0;
    for (int64_t i = 0; i < elements; i += run) {
      Shape first = PositionOf(local.shape, i);
      for (size_t d = 0; d < first.size(); ++d) first[d] += start[d];
      const int64_t offset = OffsetOf(tensor.shape, first);
      for (int64_t j = 0; j < run; ++j) {
        const int64_t id = local.whole[AsIndex(i + j)];
        if (id >= 0 && id < count) ++seen[AsIndex(id)];
        if (id == offset + j || !why.message.empty()) continue;
        first.back() += j;
        why = Misplaced(mesh, tensor, device, id, first);
      }
    }
  }
  if (mesh.transport() != nullptr) {
    seen = SumOverRanks(mesh.transport(), std::move(seen));
    const auto first = FirstError(
        mesh, why.message.empty() ? std::nullopt : std::optional(why));
    why = first ? *first : LayoutError{};
  }
  for (int64_t id = 0; id < count; ++id) {
    if (seen[AsIndex(id)] == replicas) continue;
    why.position = PositionOf(tensor.shape, id);
    why.message = "element " + ShapeText(why.position) + " is held " +
                  Counted(seen[AsIndex(id)], "time") + " where " +
                  Counted(replicas, "replica") + " should hold it once" +
                  (why.message.empty() ? "" : "; " + why.message);
    break;
  }
  if (why.message.empty()) return std::nullopt;
  return why;
}

}  // namespace shardc::exec
