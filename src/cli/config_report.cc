// Writes deployments. Ranks that hold equal parts are one group:
//
//   ranks 0 to 7: 28 parameters, 3.2 MiB
#include "cli/config_report.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

using systems::Deployment;

// The coordinates of more ranks are not listed.
constexpr int64_t kMostListed = 4096;

struct RankGroup {
  std::vector<int64_t> ranks;
  std::vector<systems::HeldParameter> held;
  std::optional<int64_t> bytes;
};

bool SameParts(const std::vector<systems::HeldParameter>& a,
               const std::vector<systems::HeldParameter>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& one, const auto& other) {
                      return one.tensor == other.tensor &&
                             one.shape == other.shape;
                    });
}

// Returns the groups of ranks with equal contents. Ranks with equal coordinates
// on all axes that divide a parameter hold the same, so they are computed once.
std::vector<RankGroup> GroupsOf(const Deployment& deployment) {
  std::vector<RankGroup> out;
  if (!deployment.manifest) return out;
  std::vector<std::string> axes;
  for (const systems::Placement& placement : deployment.placements) {
    for (const auto& dim : placement.dims) {
      for (const systems::Share& share : dim) {
        for (const std::string& axis : share.axes) {
          if (std::find(axes.begin(), axes.end(), axis) == axes.end()) {
            axes.push_back(axis);
          }
        }
      }
    }
  }
  if (deployment.stages) axes.push_back(deployment.stages->axis);
  std::map<std::vector<int64_t>, size_t> known;
  for (int64_t rank = 0; rank < deployment.world; ++rank) {
    std::vector<int64_t> key;
    for (const std::string& axis : axes) {
      key.push_back(deployment.CoordinateOf(rank, axis));
    }
    const auto found = known.find(key);
    if (found != known.end()) {
      out[found->second].ranks.push_back(rank);
      continue;
    }
    auto held = deployment.HeldBy(rank);
    const auto same = std::find_if(
        out.begin(), out.end(),
        [&](const RankGroup& group) { return SameParts(group.held, held); });
    known.emplace(std::move(key), static_cast<size_t>(same - out.begin()));
    if (same != out.end()) {
      same->ranks.push_back(rank);
    } else {
      out.push_back({{rank}, std::move(held), deployment.BytesOf(rank)});
    }
  }
  for (RankGroup& group : out)
    std::sort(group.ranks.begin(), group.ranks.end());
  return out;
}

std::string RanksText(const std::vector<int64_t>& ranks) {
  std::string out;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) ++end;
    AppendItem(out, ", ",
               end == i ? std::to_string(ranks[i])
                        : std::to_string(ranks[i]) + " to " +
                              std::to_string(ranks[end]));
    i = end + 1;
  }
  return out;
}

std::string GridText(const systems::Grid& grid) {
  return Join(grid, " ", [](const systems::GridAxis& axis) {
    return axis.name + "=" + std::to_string(axis.size);
  });
}

}  // namespace

std::string DeploymentLine(const Deployment& deployment) {
  std::string out = Counted(deployment.world, "rank");
  if (!deployment.grids.empty()) {
    out += ", " + GridText(deployment.grids.front());
  }
  if (!deployment.manifest) return out;
  std::optional<int64_t> most;
  for (const RankGroup& group : GroupsOf(deployment)) {
    if (group.bytes) most = std::max(most.value_or(0), *group.bytes);
  }
  if (most) {
    out += "; the parameters of the fullest rank are " + BytesText(*most);
  }
  return out;
}

std::string DeploymentText(const Deployment& deployment) {
  std::string out = deployment.system->title + " " +
                    deployment.system->versions + ": " +
                    Printable(deployment.source->name()) + "\n" +
                    Counted(deployment.world, "rank") + "\n";
  for (const systems::Grid& grid : deployment.grids) {
    out += "  grid    " + GridText(grid) + "\n";
  }
  if (deployment.mesh) {
    out += "  mesh    " + MeshText(*deployment.mesh) + "\n";
  }
  if (deployment.stages) {
    const auto& stages = *deployment.stages;
    out += "  stages  layers " + Join(stages.layers, " ") + " over `" +
           stages.axis + "`" +
           (stages.virtual_stages > 1
                ? ", " + std::to_string(stages.virtual_stages) + " on a rank"
                : std::string()) +
           "\n";
  }
  for (const auto& [name, why] : deployment.not_checked) {
    out += "  not checked: " + name + ", because " + why + "\n";
  }
  if (!deployment.manifest) {
    return out + "  what a rank holds is not known: " + deployment.no_model +
           "\n";
  }
  for (const RankGroup& group : GroupsOf(deployment)) {
    out += std::string("\nrank") + (group.ranks.size() > 1 ? "s " : " ") +
           RanksText(group.ranks) + ": " +
           Counted(static_cast<int64_t>(group.held.size()), "parameter") +
           (group.bytes ? ", " + BytesText(*group.bytes) : std::string()) +
           "\n";
    for (const systems::HeldParameter& held : group.held) {
      const auto& tensor = deployment.manifest->tensors[held.tensor];
      const auto& shape = deployment.manifest->TypeOf(tensor).shape;
      out += "  " + Printable(tensor.name) + "  " + ShapeText(held.shape);
      if (shape && *shape != held.shape) out += " of " + ShapeText(*shape);
      out += "\n";
    }
  }
  return out;
}

void WriteDeploymentJson(const Deployment& deployment, Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Members("schema", "shardc.deployment/v1", "system",
               deployment.system->name, "versions", deployment.system->versions,
               "file", deployment.source->name(), "world", deployment.world);
  json.Key("derived");
  json.BeginObject(JsonLayout::kLines);
  for (const auto& [name, value] : deployment.derived) {
    json.Member(name, value);
  }
  json.EndObject();
  json.Lines("grids", deployment.grids, [&](const systems::Grid& grid) {
    return [&grid](JsonWriter& inner) {
      inner.BeginObject();
      for (const systems::GridAxis& axis : grid) {
        inner.Member(axis.name, axis.size);
      }
      inner.EndObject();
    };
  });
  if (deployment.mesh) {
    json.Key("mesh");
    WriteMesh(json, *deployment.mesh, MeshDetail::kSizes);
    json.Key("axes");
    json.BeginObject();
    for (const auto& [name, group] : deployment.axes) json.Member(name, group);
    json.EndObject();
  }
  if (deployment.stages) {
    const auto& stages = *deployment.stages;
    std::vector<int64_t> ranks;
    for (size_t s = 0; s < stages.layers.size(); ++s) {
      ranks.push_back(stages.RankOf(static_cast<int64_t>(s)));
    }
    json.Member("stages",
                Record("axis", stages.axis, "virtual", stages.virtual_stages,
                       "layers", stages.layers, "ranks", ranks));
  }
  json.Lines("step", deployment.step,
             [](const std::pair<std::string, std::string>& one) {
               return [&one](JsonWriter& inner) {
                 inner.Object("key", one.first, "value", one.second);
               };
             });
  json.Lines("not_checked", deployment.not_checked,
             [](const std::pair<std::string, std::string>& one) {
               return [&one](JsonWriter& inner) {
                 inner.Object("check", one.first, "why", one.second);
               };
             });
  if (deployment.world <= kMostListed) {
    json.Key("coordinates");
    json.BeginArray(JsonLayout::kLines);
    for (int64_t rank = 0; rank < deployment.world; ++rank) {
      json.BeginObject();
      json.Member("rank", rank);
      std::vector<std::string> written;
      for (const systems::Grid& grid : deployment.grids) {
        for (const systems::GridAxis& axis : grid) {
          if (std::find(written.begin(), written.end(), axis.name) !=
              written.end()) {
            continue;
          }
          written.push_back(axis.name);
          json.Member(axis.name, deployment.CoordinateOf(rank, axis.name));
        }
      }
      json.EndObject();
    }
    json.EndArray();
  }
  json.Member("no_model", Given(deployment.no_model));
  json.Key("ranks");
  json.BeginArray(JsonLayout::kLines);
  for (const RankGroup& group : GroupsOf(deployment)) {
    json.BeginObject(JsonLayout::kLines);
    json.Members("ranks", group.ranks, "bytes", group.bytes);
    json.Key("params");
    json.BeginObject(JsonLayout::kLines);
    for (const systems::HeldParameter& held : group.held) {
      json.Member(deployment.manifest->tensors[held.tensor].name, held.shape);
    }
    json.EndObject();
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  out.Put('\n');
}

}  // namespace shardc::cli
