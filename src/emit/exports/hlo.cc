// XLA's text of a sharding. The device numbers of the tiles come from the
// mesh's grid: axes of size 1 are dropped, and the others are transposed into
// the order in which the dimensions use them. Unused axes come last, as one
// dimension of replicas. Axes that are neighbours in the mesh and in the tiles
// are merged into one, as XLA prints them:
//
//   dp:2, fsdp:2, tp:4 and ["fsdp", "tp"]: the tiles use fsdp, tp and then dp;
//   fsdp and tp merge into one axis of 8
//     ->  {devices=[2,4,2]<=[2,8]T(1,0) last_tile_dim_replicate}
#include <algorithm>
#include <numeric>

#include "emit/exports/exporter.h"
#include "emit/exports/view.h"
#include "model/mesh_layout.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

// The longest list of devices that is written out in a sharding.
constexpr int64_t kMostListed = 1 << 16;

struct Tiles {
  std::vector<int64_t> dims;  // one per dimension, then one of replicas
  std::vector<size_t> order;  // indices of the mesh's axes of size > 1
  bool split = false;         // whether any axis shards it
  bool replicated = false;    // the last of `dims` counts replicas
};

Tiles TilesOf(const Mesh& mesh, const Spec& spec) {
  Tiles tiles;
  std::vector<bool> used(mesh.axes.size());
  for (const AxisGroup& group : spec) {
    int64_t parts = 1;
    for (const std::string& axis : group) {
      const size_t at = mesh.Find(axis).value_or(0);
      used[at] = true;
      if (mesh.axes[at].size == 1) continue;
      parts *= mesh.axes[at].size;
      tiles.order.push_back(at);
    }
    tiles.dims.push_back(parts);
  }
  tiles.split = !tiles.order.empty();
  int64_t copies = 1;
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    if (used[i] || mesh.axes[i].size == 1) continue;
    copies *= mesh.axes[i].size;
    tiles.order.push_back(i);
  }
  tiles.replicated = copies > 1;
  if (tiles.replicated) tiles.dims.push_back(copies);
  return tiles;
}

template <class Numbers>
std::string Listed(const Numbers& numbers) {
  std::string out;
  for (const auto number : numbers) {
    out += (out.empty() ? "" : ",") + std::to_string(number);
  }
  return out;
}

// `<=[2,8]T(1,0)`
std::string Iota(const Mesh& mesh, const std::vector<size_t>& order) {
  // The position of each axis of size > 1 among the axes of size > 1.
  std::vector<size_t> rank(mesh.axes.size());
  for (size_t i = 0, next = 0; i < mesh.axes.size(); ++i) {
    rank[i] = next;
    next += mesh.axes[i].size > 1 ? 1 : 0;
  }
  struct Run {
    size_t first;  // rank of its first axis
    int64_t size;
  };
  std::vector<Run> runs;
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t size = mesh.axes[order[i]].size;
    if (i > 0 && rank[order[i]] == rank[order[i - 1]] + 1) {
      runs.back().size *= size;
    } else {
      runs.push_back({rank[order[i]], size});
    }
  }
  std::vector<size_t> by_rank(runs.size());
  std::iota(by_rank.begin(), by_rank.end(), size_t{0});
  std::sort(by_rank.begin(), by_rank.end(),
            [&](size_t a, size_t b) { return runs[a].first < runs[b].first; });
  std::vector<int64_t> sizes;
  std::vector<size_t> turned(runs.size());
  for (size_t i = 0; i < by_rank.size(); ++i) {
    sizes.push_back(runs[by_rank[i]].size);
    turned[by_rank[i]] = i;
  }
  const std::string reshape = "<=[" + Listed(sizes) + "]";
  return runs.size() == 1 ? reshape : reshape + "T(" + Listed(turned) + ")";
}

// The device numbers in the order of the tiles.
std::string DeviceList(const Mesh& mesh, const std::vector<size_t>& order) {
  std::vector<int64_t> coordinates(mesh.axes.size());
  std::vector<int64_t> devices;
  while (true) {
    devices.push_back(PositionOf(mesh, coordinates));
    size_t i = order.size();
    while (i > 0 &&
           ++coordinates[order[i - 1]] == mesh.axes[order[i - 1]].size) {
      coordinates[order[--i]] = 0;
    }
    if (i == 0) return Listed(devices);
  }
}

std::string TiledText(const Mesh& mesh, const Spec& spec, bool listed) {
  const Tiles tiles = TilesOf(mesh, spec);
  if (!tiles.split) return "{replicated}";
  return "{devices=[" + Listed(tiles.dims) + "]" +
         (listed ? DeviceList(mesh, tiles.order) : Iota(mesh, tiles.order)) +
         (tiles.replicated ? " last_tile_dim_replicate}" : "}");
}

std::string NamedText(const Mesh& mesh, const Spec& spec) {
  std::string out;
  for (const MeshAxis& axis : mesh.axes) {
    out += (out.empty() ? "{mesh['" : ",'") + axis.name +
           "'=" + std::to_string(axis.size);
  }
  if (spec.empty()) return out + "], replicated}";
  out += "], [";
  for (size_t d = 0; d < spec.size(); ++d) {
    out += d == 0 ? "{" : ", {";
    for (size_t i = 0; i < spec[d].size(); ++i) {
      out += (i == 0 ? "'" : ", '") + spec[d][i] + "'";
    }
    out += "}";
  }
  return out + "]}";
}

void WriteHlo(const Request& request, Sink& out, Findings& findings) {
  const ReadPlan& plan = request.plan;
  const std::string& form = request.options.form;
  if (!NoPlacements(plan, "hlo", findings) ||
      !ShapesKnown(plan, "hlo", findings)) {
    return;
  }
  if (form == "list" && plan.mesh.devices > kMostListed) {
    findings.Add(code::kLimit, {},
                 "`--form list` would list " + CountText(plan.mesh.devices) +
                     " devices for each parameter",
                 "`--form iota` expresses the same list in a few numbers");
    return;
  }
  const auto text = [&](const ReadParam& param) {
    const Spec spec =
        Padded(param.SpecOf(request.options.mode), param.type.shape->size());
    return form == "mesh" ? NamedText(plan.mesh, spec)
                          : TiledText(plan.mesh, spec, form == "list");
  };
  if (!request.options.json) {
    for (const ReadParam& param : plan.params) {
      out.Append(JsonString(param.name) + ": " + text(param) + "\n");
    }
    return;
  }
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Key("mesh");
  WriteMesh(json, plan.mesh, MeshDetail::kSizes);
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

constexpr Exporter kHlo{"hlo", "XLA's sharding of each parameter", "text|json",
                        "--mode --form", WriteHlo};

}  // namespace shardc::exports
