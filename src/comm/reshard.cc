// Finds the collective that changes a tensor from one spec to another, and the
// elements that it sends. If a dimension is sharded over [a, b], each of its
// blocks is a part of a block over [a] alone. So removing b joins blocks
// (all_gather). Adding b splits a block that the device already has, without
// communication. Any other change of a dimension's axes exchanges blocks
// between devices (ppermute). If an axis moves to another dimension, blocks are
// exchanged along two dimensions (all_to_all).
//
// For example, on the mesh x=2 y=2, a change from [x, y] to [[x, y], null] is
// an all_to_all over only y: y moves from the second dimension to the first,
// and x stays.
#include "comm/reshard.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/manifest.h"
#include "model/mesh.h"
#include "model/mesh_layout.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc {

// Counts the elements that each device sends when a tensor is resharded. A spec
// divides a tensor into blocks, which are shards (model/mesh_layout.h). A
// device receives the overlap of the block that it needs with every block that
// it does not hold. In each dimension, a block of one spec overlaps only a
// range of blocks of the other spec, so only the blocks in these ranges are
// looked up. For example:
//
//   8 rows, held in blocks of 4 and needed in blocks of 2: the needed block 3
//   (rows 6 and 7) overlaps only the held block 1 (rows 4 to 7)

// A spec on a mesh, and a function that returns a device's coordinates in the
// mesh.
struct Sharding {
  const Mesh& mesh;
  const Spec& spec;
  std::function<std::vector<int64_t>(int64_t device)> coordinates;
};

namespace {

// Returns the index of a device's block along each dimension.
std::vector<int64_t> BlockOf(const Sharding& sharding, size_t rank,
                             int64_t device) {
  const std::vector<int64_t> at = sharding.coordinates(device);
  std::vector<int64_t> out(rank);
  for (size_t d = 0; d < rank; ++d) {
    out[d] = IndexAlong(sharding.mesh, at, AxesAt(sharding.spec, d));
  }
  return out;
}

// The blocks of each dimension. Consecutive blocks of a dimension are adjacent.
using Blocks = std::vector<std::vector<ShardRange>>;

Blocks BlocksOf(const Sharding& sharding, const Shape& shape) {
  Blocks out(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    const AxisGroup axes = AxesAt(sharding.spec, d);
    const std::vector<int64_t> sizes = AxisSizes(sharding.mesh, axes);
    const int64_t parts = sharding.mesh.Parts(axes).value_or(1);
    for (int64_t i = 0; i < parts; ++i) {
      out[d].push_back(RangeOfShard(shape[d], sizes, i));
    }
  }
  return out;
}

// The devices that hold a block, and the number of devices that have been sent
// a part of it. The holders take turns: the next sender is number `sent` modulo
// the number of holders.
struct Holders {
  std::vector<int64_t> devices;
  size_t sent = 0;
};

// Iterates over the blocks of a spec that overlap one block of another spec.
// In each dimension, the indices of the overlapping blocks are a range.
class Overlaps {
 public:
  // `have` are the blocks that devices hold. `want` is the range of the needed
  // block in each dimension, which is not empty.
  Overlaps(const Blocks& have, std::vector<ShardRange> want)
      : have_(have), want_(std::move(want)), first_(have.size()) {
    for (size_t d = 0; d < have.size(); ++d) {
      // Of several blocks with the same begin, only the last is not empty.
      const auto after =
          std::upper_bound(have[d].begin(), have[d].end(), want_[d].begin,
                           [](int64_t begin, const ShardRange& block) {
                             return begin < block.begin;
                           });
      first_[d] = after - have[d].begin() - 1;
    }
    at_ = first_;
  }

  const std::vector<int64_t>& block() const { return at_; }

  int64_t Elements() const {
    Size out = 1;
    for (size_t d = 0; d < at_.size(); ++d) {
      const ShardRange& held = have_[d][AsIndex(at_[d])];
      out *= std::min(held.end(), want_[d].end()) -
             std::max(held.begin, want_[d].begin);
    }
    return out.value();
  }

  // Moves to the next block; returns false after the last one.
  bool Next() {
    for (size_t d = at_.size(); d > 0; --d) {
      const size_t i = d - 1;
      const auto next = AsIndex(++at_[i]);
      if (next < have_[i].size() && have_[i][next].begin < want_[i].end()) {
        return true;
      }
      at_[i] = first_[i];
    }
    return false;
  }

 private:
  const Blocks& have_;
  std::vector<ShardRange> want_;
  std::vector<int64_t> first_, at_;
};

}  // namespace

// Returns the number of elements that each device sends. If several devices
// hold the same block, they take turns in sending it, in ascending order of
// their numbers. Both meshes must have the same number of devices. Shards may
// be uneven (model/mesh_layout.h).
std::vector<int64_t> CountSent(const Sharding& from, const Sharding& to,
                               const Shape& shape) {
  const size_t rank = shape.size();
  const int64_t devices = from.mesh.devices;
  std::vector<int64_t> out(AsIndex(devices), 0);
  const Blocks have = BlocksOf(from, shape);
  std::map<std::vector<int64_t>, Holders> blocks;
  for (int64_t device = 0; device < devices; ++device) {
    blocks[BlockOf(from, rank, device)].devices.push_back(device);
  }
  for (int64_t device = 0; device < devices; ++device) {
    const std::vector<int64_t> own = BlockOf(from, rank, device);
    const std::vector<int64_t> at = to.coordinates(device);
    std::vector<ShardRange> want(rank);
    bool empty = false;
    for (size_t d = 0; d < rank; ++d) {
      want[d] = RangeAlong(to.mesh, at, AxesAt(to.spec, d), shape[d]);
      empty = empty || want[d].size == 0;
    }
    if (empty) continue;
    Overlaps overlaps(have, std::move(want));
    do {
      const auto block = blocks.find(overlaps.block());
      if (overlaps.block() == own || block == blocks.end()) continue;
      Holders& holders = block->second;
      const size_t turn = holders.sent++ % holders.devices.size();
      int64_t& sum = out[AsIndex(holders.devices[turn])];
      sum = (Size(sum) + overlaps.Elements()).value();
    } while (overlaps.Next());
  }
  return out;
}

namespace {

// Returns, for each axis of more than one device, the dimension that it shards.
std::map<std::string, size_t> DimByAxis(const Mesh& mesh, const Spec& spec) {
  std::map<std::string, size_t> out;
  for (size_t dim = 0; dim < spec.size(); ++dim) {
    for (std::string& axis : DropTrivial(mesh, spec[dim])) {
      out[std::move(axis)] = dim;
    }
  }
  return out;
}

bool AnyChangesDim(const Mesh& mesh, const Spec& from, const Spec& to) {
  const auto before = DimByAxis(mesh, from), after = DimByAxis(mesh, to);
  return std::any_of(before.begin(), before.end(), [&](const auto& one) {
    const auto at = after.find(one.first);
    return at != after.end() && at->second != one.second;
  });
}

// Appends the axes that begin at `axes[begin]` to the list `out`, except those
// that `out` already contains.
void AddAxes(const AxisGroup& axes, size_t begin, AxisGroup& out) {
  for (size_t i = begin; i < axes.size(); ++i) {
    AddOnce(out, axes[i]);
  }
}

std::set<std::string_view> SizedAxes(const Mesh& mesh, const AxisGroup& group) {
  std::set<std::string_view> out;
  for (const std::string& axis : group) {
    if (mesh.SizeOf(axis) > 1) out.insert(axis);
  }
  return out;
}

}  // namespace

AxisGroup DropTrivial(const Mesh& mesh, const AxisGroup& axes) {
  AxisGroup out;
  for (const std::string& axis : axes) {
    if (mesh.SizeOf(axis) > 1) out.push_back(axis);
  }
  return out;
}

bool IsPrefix(const Mesh& mesh, const AxisGroup& prefix,
              const AxisGroup& whole) {
  const AxisGroup a = DropTrivial(mesh, prefix);
  const AxisGroup b = DropTrivial(mesh, whole);
  return a.size() <= b.size() && std::equal(a.begin(), a.end(), b.begin());
}

bool SameSplit(const Mesh& mesh, const AxisGroup& a, const AxisGroup& b) {
  if (a == b) return true;
  return SizedAxes(mesh, a) == SizedAxes(mesh, b);
}

bool SameSplit(const Mesh& mesh, const Spec& a, const Spec& b) {
  if (a == b) return true;
  for (size_t dim = 0; dim < std::max(a.size(), b.size()); ++dim) {
    if (!SameSplit(mesh, AxesAt(a, dim), AxesAt(b, dim))) return false;
  }
  return true;
}

std::optional<SpecMove> ClassifyMove(const Mesh& mesh, const Spec& from,
                                     const Spec& to) {
  SpecMove out;
  bool free = true, only_gather = true;
  for (size_t dim = 0; dim < std::max(from.size(), to.size()); ++dim) {
    const AxisGroup a = DropTrivial(mesh, AxesAt(from, dim));
    const AxisGroup b = DropTrivial(mesh, AxesAt(to, dim));
    const bool joins = IsPrefix(mesh, b, a), cuts = IsPrefix(mesh, a, b);
    free = free && cuts;
    only_gather = only_gather && (joins || cuts);
    const size_t kept = joins || cuts ? std::min(a.size(), b.size()) : 0;
    AddAxes(a, kept, out.axes);
    AddAxes(b, kept, out.axes);
  }
  if (free) return std::nullopt;
  if (AnyChangesDim(mesh, from, to)) {
    out.kind = Collective::kAllToAll;
  } else if (!only_gather) {
    out.kind = Collective::kPpermute;
  }
  return out;
}

std::vector<int64_t> SentElements(const Mesh& mesh, const Shape& shape,
                                  const Spec& from, const Spec& to) {
  const auto coordinates = [&](int64_t device) {
    return CoordinatesOf(mesh, device);
  };
  return CountSent({mesh, from, coordinates}, {mesh, to, coordinates}, shape);
}

// Finds the joint mesh of two meshes over the same devices. Each axis of either
// mesh is a product of axes of the joint mesh.
//
// The devices of a mesh are numbered in row-major order of its axes. The place
// value of an axis is the product of the sizes of all axes to its right: the
// difference between the numbers of two neighbours along the axis. The place
// values of both meshes and the number of devices are sorted into one list.
// Each pair of neighbours in the list is one axis of the joint mesh, whose size
// is their quotient. For example:
//
//   dp=2 fsdp=16 tp=8   place values 128, 8, 1
//   fsdp=32 tp=8        place values 8, 1
//   joint, 256 devices  list 1, 8, 128, 256, so the axes are 2 x 16 x 8: the
//                       second mesh's fsdp is 2 x 16

namespace {

// Returns the number of devices of a mesh, and then the place value of each
// axis (the product of the sizes of all axes to its right). The result for
// dp=2 fsdp=16 tp=8 is 256, 128, 8, 1.
std::vector<int64_t> PositionsOf(const Mesh& mesh) {
  std::vector<int64_t> out(mesh.axes.size() + 1, 1);
  for (size_t i = mesh.axes.size(); i > 0; --i) {
    out[i - 1] = out[i] * mesh.axes[i - 1].size;
  }
  return out;
}

}  // namespace

std::optional<JointMesh> JointMesh::Of(const Mesh& before, const Mesh& after) {
  if (before.devices != after.devices) return std::nullopt;
  if (before.slices > 1 || after.slices > 1) return std::nullopt;
  const std::vector<int64_t> first = PositionsOf(before);
  const std::vector<int64_t> second = PositionsOf(after);
  std::set<int64_t> positions(first.begin(), first.end());
  positions.insert(second.begin(), second.end());
  JointMesh out;
  out.before_ = before;
  out.after_ = after;
  out.mesh_.devices = before.devices;
  // The place value of each axis of out.mesh_: the product of the sizes of all
  // axes to its right.
  std::vector<int64_t> low;
  int64_t above = 0;
  for (auto at = positions.rbegin(); at != positions.rend(); ++at) {
    if (above > 0) {
      if (above % *at != 0) return std::nullopt;
      out.mesh_.axes.push_back({std::to_string(low.size()), above / *at});
      low.push_back(*at);
    }
    above = *at;
  }
  const auto parts = [&](const std::vector<int64_t>& of) {
    Parts groups;
    for (size_t i = 0; i + 1 < of.size(); ++i) {
      AxisGroup& group = groups.emplace_back();
      for (size_t j = 0; j < low.size(); ++j) {
        if (low[j] >= of[i + 1] && low[j] < of[i]) {
          group.push_back(out.mesh_.axes[j].name);
        }
      }
    }
    return groups;
  };
  out.parts_before_ = parts(first);
  out.parts_after_ = parts(second);
  return out;
}

Spec JointMesh::Rewrite(const Mesh& mesh, const Parts& parts,
                        const Spec& spec) {
  Spec out;
  for (const AxisGroup& group : spec) {
    AxisGroup& to = out.emplace_back();
    for (const std::string& axis : group) {
      const auto at = mesh.Find(axis);
      if (at) to.insert(to.end(), parts[*at].begin(), parts[*at].end());
    }
  }
  return out;
}

Spec JointMesh::OfBefore(const Spec& spec) const {
  return Rewrite(before_, parts_before_, spec);
}

Spec JointMesh::OfAfter(const Spec& spec) const {
  return Rewrite(after_, parts_after_, spec);
}

AxisGroup JointMesh::NamesBefore(const AxisGroup& joint) const {
  AxisGroup out;
  for (size_t i = 0; i < parts_before_.size(); ++i) {
    const bool part =
        std::any_of(joint.begin(), joint.end(), [&](const std::string& axis) {
          return IsAmong(axis, parts_before_[i]);
        });
    if (part) out.push_back(before_.axes[i].name);
  }
  return out;
}

std::vector<int64_t> SentElements(const Mesh& before, const Mesh& after,
                                  const Shape& shape, const Spec& from,
                                  const Spec& to) {
  const auto of_before = [&](int64_t device) {
    return PlaceOfDevice(before, device).coordinates;
  };
  const auto of_after = [&](int64_t device) {
    return PlaceOfDevice(after, device).coordinates;
  };
  return CountSent({before, from, of_before}, {after, to, of_after}, shape);
}

}  // namespace shardc
