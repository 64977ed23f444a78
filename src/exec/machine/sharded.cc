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
#include <span>
#include <utility>

#include "exec/machine/agreement.h"
#include "source/index.h"
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
  const auto bad = FirstDiffering(mesh, tensor, extent, groups);
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

}  // namespace shardc::exec
