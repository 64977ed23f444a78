// Exports a plan as shardings in XLA's text format. XLA describes which device
// has which tile by a grid of device numbers, whose dimensions are the mesh's
// axes. The grid is transposed into the order in which the tensor's dimensions
// use the axes. Unused axes come last, as one dimension of replicas. Axes of
// size 1 are dropped. Dimensions that are adjacent both in the grid and in the
// tiles are merged into one, as XLA prints them. For example:
//
//   dp:2, fsdp:2, tp:4 and ["fsdp", "tp"]: the tiles use fsdp, tp and then dp;
//   fsdp and tp merge into one dimension of 8
//     ->  {devices=[2,4,2]<=[2,8]T(1,0) last_tile_dim_replicate}
//
// A slice is a group of devices with a fast network. If an axis runs over
// several slices, it is two dimensions of the grid, because all devices of one
// slice are numbered before the devices of the next slice. For example:
//
//   dp:2, tp:4, two slices along tp and [null, "tp"]: the dimensions of the
//   grid [2,2,2] are the slices, dp, and the devices of a slice along tp
//     ->  {devices=[1,4,2]<=[2,2,2]T(0,2,1) last_tile_dim_replicate}
#include <algorithm>
#include <numeric>

#include "emit/exports/exporter.h"
#include "model/mesh_layout.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

// The device numbers as a row-major grid. Each axis of the mesh is one
// dimension of the grid. An axis that runs over several slices is two
// dimensions, because slices are numbered before the devices in them.
// Dimensions of size 1 are dropped.
struct Grid {
  std::vector<int64_t> sizes;
  // For each mesh axis, the indices of its dimensions in `sizes`, the major
  // dimension first.
  std::vector<std::vector<size_t>> of_axis;
};

Grid GridOf(const Mesh& mesh) {
  Grid grid;
  grid.of_axis.resize(mesh.axes.size());
  const auto add = [&](size_t axis, int64_t size) {
    if (size == 1) return;
    grid.of_axis[axis].push_back(grid.sizes.size());
    grid.sizes.push_back(size);
  };
  if (mesh.slices > 1) {
    for (size_t i = 0; i < mesh.axes.size(); ++i) add(i, mesh.dcn[i]);
  }
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    add(i, mesh.axes[i].size / (mesh.slices > 1 ? mesh.dcn[i] : 1));
  }
  return grid;
}

struct Tiles {
  // The number of tiles along each dimension of the tensor, and then the number
  // of replicas if it is above 1.
  std::vector<int64_t> dims;
  // Indices into Grid::sizes: first the dimensions of the grid that shard the
  // tensor, in the order of the tensor's dimensions, and then the others.
  std::vector<size_t> order;
  bool split = false;  // true if at least one axis shards the tensor
  // True if the last of `dims` is the number of replicas.
  bool replicated = false;
};

Tiles TilesOf(const Mesh& mesh, const Grid& grid, const Spec& spec) {
  Tiles tiles;
  std::vector<bool> used(grid.sizes.size());
  for (const AxisGroup& group : spec) {
    int64_t parts = 1;
    for (const std::string& axis : group) {
      for (const size_t at : grid.of_axis[mesh.Find(axis).value_or(0)]) {
        used[at] = true;
        parts *= grid.sizes[at];
        tiles.order.push_back(at);
      }
    }
    tiles.dims.push_back(parts);
  }
  tiles.split = !tiles.order.empty();
  int64_t copies = 1;
  for (size_t at = 0; at < used.size(); ++at) {
    if (used[at]) continue;
    copies *= grid.sizes[at];
    tiles.order.push_back(at);
  }
  tiles.replicated = copies > 1;
  if (tiles.replicated) tiles.dims.push_back(copies);
  return tiles;
}

// Returns the grid in XLA's iota form, which has the sizes of the grid and
// their permutation: `[2,8]T(1,0)`. Dimensions that are adjacent both in the
// grid and in `order` are merged into one, here called a run.
std::string Iota(const Grid& grid, const std::vector<size_t>& order) {
  struct Run {
    size_t first;  // the run's first dimension of the grid
    int64_t size;
  };
  std::vector<Run> runs;
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t size = grid.sizes[order[i]];
    if (i > 0 && order[i] == order[i - 1] + 1) {
      runs.back().size *= size;
    } else {
      runs.push_back({order[i], size});
    }
  }
  std::vector<size_t> by_rank(runs.size());
  std::iota(by_rank.begin(), by_rank.end(), size_t{0});
  std::sort(by_rank.begin(), by_rank.end(),
            [&](size_t a, size_t b) { return runs[a].first < runs[b].first; });
  std::vector<int64_t> sizes;
  std::vector<size_t> transposed(runs.size());
  for (size_t i = 0; i < by_rank.size(); ++i) {
    sizes.push_back(runs[by_rank[i]].size);
    transposed[by_rank[i]] = i;
  }
  const std::string reshape = "[" + Join(sizes, ",") + "]";
  return runs.size() == 1 ? reshape
                          : reshape + "T(" + Join(transposed, ",") + ")";
}

// Returns the list of device numbers in the order of the tiles.
std::string DeviceList(const Grid& grid, const std::vector<size_t>& order) {
  std::vector<int64_t> strides(grid.sizes.size(), 1);
  for (size_t i = strides.size(); i > 1; --i) {
    strides[i - 2] = strides[i - 1] * grid.sizes[i - 1];
  }
  std::vector<int64_t> coordinates(grid.sizes.size());
  std::vector<int64_t> devices;
  while (true) {
    devices.push_back(std::inner_product(coordinates.begin(), coordinates.end(),
                                         strides.begin(), int64_t{0}));
    size_t i = order.size();
    while (i > 0 && ++coordinates[order[i - 1]] == grid.sizes[order[i - 1]]) {
      coordinates[order[--i]] = 0;
    }
    if (i == 0) return Join(devices, ",");
  }
}

std::string TiledText(const Mesh& mesh, const Grid& grid, const Spec& spec,
                      bool listed) {
  const Tiles tiles = TilesOf(mesh, grid, spec);
  if (!tiles.split) return "{replicated}";
  return "{devices=[" + Join(tiles.dims, ",") + "]" +
         (listed ? DeviceList(grid, tiles.order)
                 : "<=" + Iota(grid, tiles.order)) +
         (tiles.replicated ? " last_tile_dim_replicate}" : "}");
}

// Returns the device numbers in row-major order of the mesh, in iota form:
// `([2,2,2]T(1,0,2))`. Returns an empty text if the numbers are 0, 1, 2 and so
// on.
std::string DeviceIds(const Grid& grid) {
  std::vector<size_t> order;
  for (const std::vector<size_t>& axis : grid.of_axis) {
    order.insert(order.end(), axis.begin(), axis.end());
  }
  if (std::is_sorted(order.begin(), order.end())) return {};
  return "(" + Iota(grid, order) + ")";
}

std::string NamedText(const Mesh& mesh, const Grid& grid, const Spec& spec) {
  std::string out;
  for (const MeshAxis& axis : mesh.axes) {
    out += (out.empty() ? "{mesh['" : ",'") + axis.name +
           "'=" + std::to_string(axis.size);
  }
  out += "]";
  if (const std::string devices = DeviceIds(grid); !devices.empty()) {
    out += ", device_ids=" + devices;
  }
  if (spec.empty()) return out + ", replicated}";
  return out + ", [" +
         Join(spec, ", ",
              [](const AxisGroup& group) {
                return "{" +
                       Join(group, ", ",
                            [](const std::string& axis) {
                              return "'" + axis + "'";
                            }) +
                       "}";
              }) +
         "]}";
}

void WriteHlo(const Request& request, Sink& out, Findings& findings) {
  const ReadPlan& plan = request.plan;
  const std::string& form = request.options.form;
  if (!NoPlacements(plan, "hlo", findings) ||
      !ShapesKnown(plan, "hlo", findings) ||
      !EvenShards(plan, {"hlo", kPaddedByXla, request.options.mode},
                  findings)) {
    return;
  }
  if (form == "list" && plan.mesh.devices > kMostListed) {
    findings.Add(code::kLimit, {},
                 "`--form list` would list " + CountText(plan.mesh.devices) +
                     " devices for each parameter",
                 "`--form iota` expresses the same list in a few numbers");
    return;
  }
  const Grid grid = GridOf(plan.mesh);
  const auto text = [&](const ReadParam& param) {
    const Spec spec =
        Padded(param.SpecOf(request.options.mode), param.type.shape->size());
    return form == "mesh" ? NamedText(plan.mesh, grid, spec)
                          : TiledText(plan.mesh, grid, spec, form == "list");
  };
  if (!request.options.json) {
    for (const ReadParam& param : plan.params) {
      out.Append(JsonString(param.name) + ": " + text(param) + "\n");
    }
    return;
  }
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("mesh", WrittenBy(WriteMesh, plan.mesh,
                                plan.mesh.slices > 1 ? MeshDetail::kAll
                                                     : MeshDetail::kSizes));
  json.Key("params");
  json.BeginObject(JsonLayout::kLines);
  for (const ReadParam& param : plan.params) {
    json.Member(param.name, text(param));
  }
  json.EndObject();
  json.EndObject();
  out.Put('\n');
}

}  // namespace

constexpr Exporter kHlo{.name = "hlo",
                        .what = "XLA's sharding of each parameter",
                        .formats = "text|json",
                        .flags = "--mode --form",
                        .write = WriteHlo,
                        .kv_form = KvForm::kDevices};

}  // namespace shardc::exports
