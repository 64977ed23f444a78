// Converts between device numbers and positions. A position is the row-major
// index of a device in the grid of mesh axes. A mesh may have several slices,
// and the DCN factor of an axis is the number of slices along the axis. Each
// coordinate of a position therefore determines a coordinate of the slice and a
// coordinate inside the slice. Slices are numbered in row-major order, and so
// are the devices in a slice. All devices of one slice come before the next
// slice. The devices of a process have consecutive numbers. For example, in a
// mesh with dp 2, tp 4, 2 slices along tp, and 4 processes:
//
//   position 2 has the coordinates (0, 2)
//     ->  slice 2 / 2 = 1, and inside this slice (0, 0)
//     ->  device 4, which belongs to process 2
//
// HostShape() computes the part of the mesh that belongs to one process. It
// divides the axis sizes, first to last, by the number of processes:
//
//   [2, 8, 4], 16 processes of 4 devices each  ->  [1, 1, 4]
#include "model/mesh_layout.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "source/json_writer.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc {
namespace {

// Returns the DCN factor (number of slices) of each axis, which is 1 for every
// axis in a mesh of one slice.
std::vector<int64_t> DcnOf(const Mesh& mesh) {
  if (mesh.dcn.size() == mesh.axes.size()) return mesh.dcn;
  return std::vector<int64_t>(mesh.axes.size(), 1);
}

int64_t DevicesPerProcess(const Mesh& mesh) {
  return std::max<int64_t>(1,
                           mesh.devices / std::max<int64_t>(1, mesh.processes));
}

int64_t PositionOfDevice(const Mesh& mesh, int64_t device) {
  const auto dcn = DcnOf(mesh);
  const int64_t per_slice =
      std::max<int64_t>(1, mesh.devices / std::max<int64_t>(1, mesh.slices));
  int64_t slice = device / per_slice;
  int64_t local = device % per_slice;
  std::vector<int64_t> coordinates(mesh.axes.size());
  for (size_t i = mesh.axes.size(); i > 0;) {
    --i;
    const int64_t inner = mesh.axes[i].size / dcn[i];
    coordinates[i] = (slice % dcn[i]) * inner + local % inner;
    slice /= dcn[i];
    local /= inner;
  }
  return PositionOf(mesh, coordinates);
}

// Writes nested lists for the axes from `axis` on. The next device to write is
// devices[next].
void WriteDevicesFrom(JsonWriter& json, const Mesh& mesh, size_t axis,
                      std::span<const int64_t> devices, size_t& next) {
  if (axis == mesh.axes.size()) {
    json.Object("id", devices[next++]);
    return;
  }
  json.BeginArray();
  for (int64_t i = 0; i < mesh.axes[axis].size; ++i) {
    WriteDevicesFrom(json, mesh, axis + 1, devices, next);
  }
  json.EndArray();
}

}  // namespace

std::vector<int64_t> CoordinatesOf(const Mesh& mesh, int64_t position) {
  std::vector<int64_t> out(mesh.axes.size());
  for (size_t i = out.size(); i > 0;) {
    --i;
    out[i] = position % mesh.axes[i].size;
    position /= mesh.axes[i].size;
  }
  return out;
}

int64_t PositionOf(const Mesh& mesh, std::span<const int64_t> coordinates) {
  int64_t position = 0;
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    position = position * mesh.axes[i].size + coordinates[i];
  }
  return position;
}

int64_t IndexAlong(const Mesh& mesh, std::span<const int64_t> coordinates,
                   const AxisGroup& axes) {
  int64_t index = 0;
  for (const std::string& axis : axes) {
    const auto digit = mesh.FindDigit(axis);
    if (digit)
      index = index * digit->size + digit->Of(coordinates[digit->axis]);
  }
  return index;
}

DevicePlace PlaceOf(const Mesh& mesh, int64_t position) {
  const auto dcn = DcnOf(mesh);
  DevicePlace place;
  place.position = position;
  place.coordinates = CoordinatesOf(mesh, position);
  int64_t local = 0;
  int64_t per_slice = 1;
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const int64_t inner = mesh.axes[i].size / dcn[i];
    place.slice = place.slice * dcn[i] + place.coordinates[i] / inner;
    local = local * inner + place.coordinates[i] % inner;
    per_slice *= inner;
  }
  place.device = place.slice * per_slice + local;
  place.process = place.device / DevicesPerProcess(mesh);
  return place;
}

DevicePlace PlaceOfDevice(const Mesh& mesh, int64_t device) {
  return PlaceOf(mesh, PositionOfDevice(mesh, device));
}

std::vector<int64_t> DeviceOrder(const Mesh& mesh) {
  std::vector<int64_t> out;
  if (mesh.slices == 1) return out;
  for (int64_t position = 0; position < mesh.devices; ++position) {
    out.push_back(PlaceOf(mesh, position).device);
  }
  if (std::is_sorted(out.begin(), out.end())) out.clear();
  return out;
}

void WriteDeviceGrid(JsonWriter& json, const Mesh& mesh,
                     std::span<const int64_t> devices) {
  size_t next = 0;
  WriteDevicesFrom(json, mesh, 0, devices, next);
}

// Infers the slices from the list of device numbers, from the last axis to the
// first. Inside a slice, a step along an axis adds a fixed number to the device
// number: the product of the later axes' sizes within a slice. The number of
// indices that follow this pattern is the axis's size within a slice. An
// example with dp 2, tp 4 and the device numbers 0 1 4 5, 2 3 6 7:
//
//   tp: 0 1, and then 4 instead of 2  ->  2 in a slice, so 4 / 2 = 2 slices
//   dp: 0, and then 2                 ->  2 in a slice, so 1 slice
bool SetDeviceOrder(std::span<const int64_t> devices, Mesh& mesh) {
  if (std::ssize(devices) != mesh.devices) return false;
  Mesh made = mesh;
  made.slices = 1;
  made.dcn.assign(mesh.axes.size(), 1);
  // The distance in `devices` between neighbours along axis i.
  int64_t stride = 1;
  // The difference of device numbers between neighbours along axis i that are
  // in the same slice.
  int64_t local_stride = 1;
  for (size_t i = mesh.axes.size(); i > 0;) {
    --i;
    const int64_t size = mesh.axes[i].size;
    int64_t inner = 1;
    while (inner < size &&
           devices[AsIndex(inner * stride)] == inner * local_stride) {
      ++inner;
    }
    if (size % inner != 0) return false;
    made.dcn[i] = size / inner;
    made.slices *= made.dcn[i];
    stride *= size;
    local_stride *= inner;
  }
  if (made.slices == 1) made.dcn.clear();
  for (int64_t position = 0; position < made.devices; ++position) {
    if (devices[AsIndex(position)] != PlaceOf(made, position).device) {
      return false;
    }
  }
  mesh = std::move(made);
  return true;
}

std::vector<int64_t> PositionsOfProcess(const Mesh& mesh, int64_t process) {
  const int64_t count = DevicesPerProcess(mesh);
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(PositionOfDevice(mesh, process * count + i));
  }
  return out;
}

std::optional<std::vector<int64_t>> HostShape(std::span<const int64_t> global,
                                              int64_t local_devices,
                                              int64_t processes) {
  const auto total = CheckedProduct(global);
  if (!total || total != CheckedMul(local_devices, processes)) {
    return std::nullopt;
  }
  std::vector<int64_t> out(global.begin(), global.end());
  int64_t remaining = processes;
  for (int64_t& size : out) {
    if (remaining <= 1) break;
    const int64_t taken = std::min(size, remaining);
    if (taken <= 0) return std::nullopt;
    size /= taken;
    remaining /= taken;
  }
  const auto product = CheckedProduct(out);
  if (!product || *product != local_devices) return std::nullopt;
  return out;
}

NodeRanks RanksOf(int64_t tensor_parallel, int64_t sequence_parallel,
                  int64_t local_devices, int64_t processes, int64_t process) {
  NodeRanks out;
  const auto total = CheckedMul(tensor_parallel, sequence_parallel);
  out.mp_nodes = std::max<int64_t>(
      1, total.value_or(1) / std::max<int64_t>(1, local_devices));
  out.dp_nodes = processes / out.mp_nodes;
  out.dp_rank = process / out.mp_nodes;
  out.mp_rank = process % out.mp_nodes;
  return out;
}

NodeRanks RanksOf(const Mesh& mesh, const AxisRules& axes, int64_t process) {
  const AxisGroup tensor = axes.Value(AxisRule::kTensorParallel).axes;
  AxisGroup sequence = axes.Value(AxisRule::kSequenceParallel).axes;
  // If both rules name an axis, its devices must be counted only once.
  std::erase_if(sequence,
                [&](const std::string& axis) { return IsAmong(axis, tensor); });
  return RanksOf(mesh.Parts(tensor).value_or(1),
                 mesh.Parts(sequence).value_or(1), DevicesPerProcess(mesh),
                 mesh.processes, process);
}

// Divides a dimension into shards, one axis after the other. Over one axis of
// size n, a shard has ceil(size / n) elements, as in torch.chunk. If n does not
// divide the size, the last shards have fewer elements, or none. The next axis
// of the dimension divides each of these shards in the same way, as DTensor
// does for several placements `Shard(dim)` in the order of the mesh:
//
//   10 rows over [a 2, b 4]: a divides them into 0:5 and 5:10, and b divides
//   these into 0:2, 2:4, 4:5, 5:5 and 5:7, 7:9, 9:10, 10:10
//
// A shard over [a, b] is thus always a part of the shard over [a]. A single
// division into a * b = 8 parts would give 0:2, 2:4, 4:6 and so on, and the
// fourth part would need rows of both shards over [a]. The largest shard has
// the same size in both, because
// ceil(ceil(size / a) / b) = ceil(size / (a * b)).

namespace {

// Narrows a range to part `index` of its `parts` parts.
ShardRange PartOf(const ShardRange& range, int64_t parts, int64_t index) {
  const int64_t share = ShareOf(range.size, parts);
  // `index` * `share` may overflow if the range has fewer elements than parts.
  if (share > 0 && index >= ShareOf(range.size, share)) {
    return {range.end(), 0};
  }
  const int64_t begin = index * share;
  return {range.begin + begin, std::min(share, range.size - begin)};
}

}  // namespace

std::vector<int64_t> AxisSizes(const Mesh& mesh, const AxisGroup& group) {
  std::vector<int64_t> out;
  out.reserve(group.size());
  for (const std::string& axis : group) out.push_back(mesh.SizeOf(axis));
  return out;
}

ShardRange RangeOfShard(int64_t size, std::span<const int64_t> axis_sizes,
                        int64_t index) {
  int64_t inner = 1;  // the product of the sizes of the axes after this one
  for (const int64_t axis : axis_sizes) inner *= axis;
  ShardRange out{0, size};
  for (const int64_t axis : axis_sizes) {
    inner /= axis;
    out = PartOf(out, axis, index / inner);
    index %= inner;
  }
  return out;
}

ShardRange RangeAlong(const Mesh& mesh, std::span<const int64_t> coordinates,
                      const AxisGroup& group, int64_t size) {
  ShardRange out{0, size};
  for (const std::string& axis : group) {
    const auto digit = mesh.FindDigit(axis);
    if (digit) {
      out = PartOf(out, digit->size, digit->Of(coordinates[digit->axis]));
    }
  }
  return out;
}

Shape ShardShape(const Mesh& mesh, Shape shape, const Spec& spec) {
  for (size_t d = 0; d < shape.size() && d < spec.size(); ++d) {
    shape[d] = ShareOf(shape[d], mesh.Parts(spec[d]).value_or(1));
  }
  return shape;
}

std::vector<size_t> UnevenDims(const Mesh& mesh, const Shape& shape,
                               const Spec& spec) {
  std::vector<size_t> out;
  for (size_t d = 0; d < std::min(shape.size(), spec.size()); ++d) {
    const auto parts = mesh.Parts(spec[d]);
    if (shape[d] != 0 && (!parts || shape[d] % *parts != 0)) out.push_back(d);
  }
  return out;
}

// Finds a mesh in which several specs have complete axes. For each axis the
// sub-axes of all specs give the places at which it is divided; these must form
// a chain in which each divides the next. For example, tp:16 with the sub-axes
// `tp:(1)8` and `tp:(1)4`:
//
//   places 4 and 8 of 16  ->  factors tp:(1)4, tp:(4)2 and tp:(8)2.
//
// The last factor's name ends with a dot, so that names of factors that follow
// each other can be joined without the mesh.

namespace {

// Takes a number from the front of a text. Returns nullopt if it has none above
// 0.
std::optional<int64_t> TakeNumber(std::string_view& text) {
  int64_t out = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || out < 1) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return out;
}

// The products of the leading factors of an axis: 1, 8 and 16 for 16 = 8 * 2.
using Cuts = std::set<int64_t>;

bool AreFactors(const Cuts& cuts) {
  int64_t before = 1;
  for (const int64_t cut : cuts) {
    if (cut % before != 0) return false;
    before = cut;
  }
  return true;
}

}  // namespace

std::optional<SubAxis> ParseSubAxis(std::string_view name) {
  const size_t colon = name.find(":(");
  if (colon == std::string_view::npos) return std::nullopt;
  SubAxis out{.axis = name.substr(0, colon)};
  std::string_view rest = name.substr(colon + 2);
  const auto before = TakeNumber(rest);
  if (!before || !rest.starts_with(')')) return std::nullopt;
  rest.remove_prefix(1);
  const auto size = TakeNumber(rest);
  if (!size || (!rest.empty() && rest != ".")) return std::nullopt;
  out.before = *before;
  out.size = *size;
  out.last = !rest.empty();
  return out;
}

std::string SubAxisName(std::string_view axis, int64_t before, int64_t size) {
  return std::string(axis) + ":(" + std::to_string(before) + ")" +
         std::to_string(size);
}

std::string_view WholeAxis(std::string_view name) {
  const auto sub = ParseSubAxis(name);
  return sub ? sub->axis : name;
}

bool HasSubAxis(const AxisGroup& group) {
  return std::any_of(group.begin(), group.end(), [](const std::string& axis) {
    return ParseSubAxis(axis).has_value();
  });
}

bool HasSubAxis(const Spec& spec) {
  return std::any_of(spec.begin(), spec.end(),
                     [](const AxisGroup& group) { return HasSubAxis(group); });
}

std::optional<Mesh> RefinedMesh(const Mesh& mesh, std::span<const Spec> specs) {
  std::map<std::string, Cuts, std::less<>> cuts;
  for (const Spec& spec : specs) {
    for (const AxisGroup& group : spec) {
      for (const std::string& axis : group) {
        const auto sub = ParseSubAxis(axis);
        if (!sub) continue;
        Cuts& of = cuts[std::string(sub->axis)];
        of.insert(
            {1, mesh.SizeOf(sub->axis), sub->before, sub->before * sub->size});
      }
    }
  }
  if (cuts.empty()) return mesh;
  Mesh out = mesh;
  out.axes.clear();
  out.dcn.clear();
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const MeshAxis& axis = mesh.axes[i];
    int64_t slices = mesh.dcn.empty() ? 1 : mesh.dcn[i];
    const auto found = cuts.find(axis.name);
    const Cuts of = found == cuts.end() ? Cuts{1, axis.size} : found->second;
    if (!AreFactors(of) || *of.rbegin() != axis.size) return std::nullopt;
    if (of.size() <= 2) {
      out.axes.push_back(axis);
      if (!mesh.dcn.empty()) out.dcn.push_back(slices);
      continue;
    }
    int64_t before = 1;
    for (const int64_t cut : of) {
      if (cut == before) continue;
      const int64_t size = cut / before;
      MeshAxis part = axis;
      part.name = SubAxisName(axis.name, before, size);
      if (cut == axis.size) part.name += '.';
      part.size = size;
      out.axes.push_back(std::move(part));
      // The slices divide the most significant factors.
      const int64_t own = std::min(slices, size);
      if (slices % own != 0 || size % own != 0) return std::nullopt;
      slices /= own;
      if (!mesh.dcn.empty()) out.dcn.push_back(own);
      before = cut;
    }
  }
  return out;
}

bool IsRefined(const Mesh& mesh) {
  return std::any_of(
      mesh.axes.begin(), mesh.axes.end(),
      [](const MeshAxis& axis) { return ParseSubAxis(axis.name).has_value(); });
}

AxisGroup RefinedGroup(const Mesh& refined, const AxisGroup& group) {
  AxisGroup out;
  for (const std::string& name : group) {
    if (refined.Find(name)) {
      out.push_back(name);
      continue;
    }
    const auto sub = ParseSubAxis(name);
    const size_t before = out.size();
    for (const MeshAxis& axis : refined.axes) {
      const auto part = ParseSubAxis(axis.name);
      if (!part || part->axis != WholeAxis(name)) continue;
      if (sub && (part->before < sub->before ||
                  part->before >= sub->before * sub->size)) {
        continue;
      }
      out.push_back(axis.name);
    }
    if (out.size() == before) out.push_back(name);
  }
  return out;
}

Spec RefinedSpec(const Mesh& refined, const Spec& spec) {
  Spec out;
  for (const AxisGroup& group : spec) {
    out.push_back(RefinedGroup(refined, group));
  }
  return out;
}

AxisGroup JoinedGroup(const AxisGroup& group) {
  if (!HasSubAxis(group)) return group;
  AxisGroup out;
  std::optional<SubAxis> open;  // the sub-axis that `out` ends with
  for (const std::string& name : group) {
    const auto sub = ParseSubAxis(name);
    const bool joins = sub && open && open->axis == sub->axis &&
                       open->before * open->size == sub->before;
    if (joins) {
      open->size *= sub->size;
      open->last = sub->last;
    } else {
      open = sub;
      out.push_back(name);
    }
    if (!open) continue;
    out.back() = open->before == 1 && open->last
                     ? std::string(open->axis)
                     : SubAxisName(open->axis, open->before, open->size);
  }
  return out;
}

Mesh JoinedMesh(const Mesh& refined) {
  Mesh out = refined;
  out.axes.clear();
  out.dcn.clear();
  for (size_t i = 0; i < refined.axes.size(); ++i) {
    const MeshAxis& axis = refined.axes[i];
    const std::string name(WholeAxis(axis.name));
    if (out.axes.empty() || out.axes.back().name != name) {
      out.axes.push_back(axis);
      out.axes.back().name = name;
      if (!refined.dcn.empty()) out.dcn.push_back(refined.dcn[i]);
      continue;
    }
    out.axes.back().size *= axis.size;
    if (!refined.dcn.empty()) out.dcn.back() *= refined.dcn[i];
  }
  return out;
}

std::optional<AxisGroup> KvHeadAxes(const Mesh& mesh, const AxisGroup& axes,
                                    int64_t heads) {
  const auto parts = mesh.Parts(axes);
  if (!parts || heads < 1) return std::nullopt;
  if (heads % *parts == 0) return axes;
  if (*parts % heads != 0) return std::nullopt;
  AxisGroup out;
  int64_t left = heads;
  for (const std::string& axis : axes) {
    if (left == 1) break;
    const int64_t size = mesh.SizeOf(axis);
    if (left % size == 0) {
      out.push_back(axis);
      left /= size;
    } else if (size % left == 0) {
      out.push_back(SubAxisName(axis, 1, left));
      left = 1;
    } else {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace shardc
