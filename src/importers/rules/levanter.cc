// Imports Levanter's training configuration. The configuration maps the named
// axes of haliax to the mesh axes that shard them in parameters. If an axis is
// mapped more than once, the last mapping is used:
//
//   tensor_parallel_axes: [mlp], parameter_axis_resources: {mlp: data}
//     ->  mlp: data, embed: data (the default of fsdp_axis)
//
// Newer versions of Levanter write `mesh:` and have other defaults.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "importers/rules/exact.h"
#include "importers/rules/importer.h"
#include "source/size.h"
#include "source/wording.h"
#include "yaml/read.h"

namespace shardc::imports {
namespace {

constexpr std::array<std::string_view, 8> kOlderKeys = {
    "axis_resources",
    "parameter_axis_resources",
    "tensor_parallel_axes",
    "fsdp_axis",
    "batch_axis",
    "model_axis_size",
    "replica_ici_axis_size",
    "replica_dcn_axis_size"};

class LevanterConfig {
 public:
  LevanterConfig(const YamlDocument& document, const Request& request,
                 Findings& findings)
      : context_{document, findings}, request_(request), findings_(findings) {}

  std::optional<Imported> Read() {
    const YamlNode& root = context_.document.root();
    const YamlNode* trainer = FindMember(root, "trainer");
    if (trainer == nullptr || !trainer->IsMapping()) {
      Refuse(code::kSchema, root, "this holds no mapping `trainer`");
      return std::nullopt;
    }
    if (!ReadTrainer(*trainer)) return std::nullopt;
    return ImportNamed(request_, findings_,
                       [&](const LogicalNames& one) { return SpecOf(one); });
  }

 private:
  bool Refuse(const Code& code, const YamlNode& node, std::string message,
              std::string help = {}) {
    context_.Add(code, node, std::move(message), std::move(help));
    return false;
  }

  bool ReadTrainer(const YamlNode& trainer) {
    const YamlNode* mesh = FindMember(trainer, "mesh");
    const auto* older = std::find_if(
        kOlderKeys.begin(), kOlderKeys.end(), [&](std::string_view key) {
          return FindMember(trainer, key) != nullptr;
        });
    if (mesh != nullptr && older != kOlderKeys.end()) {
      return Refuse(code::kInexpressible, *mesh,
                    "`mesh` is of newer versions, and `" + std::string(*older) +
                        "` of older ones");
    }
    if (mesh != nullptr) return ReadMesh(*mesh);
    if (older != kOlderKeys.end()) return ReadOlder(trainer);
    return Refuse(code::kInexpressible, trainer,
                  "this does not configure axes, and versions differ in what "
                  "that means",
                  "write `fsdp_axis: embed` or `mesh: {}`, whichever your "
                  "version has");
  }

  // Applies the entries of an older configuration in the order of Levanter's
  // TrainerConfig. A later entry overrides an earlier entry.
  bool ReadOlder(const YamlNode& trainer) {
    const auto data = AxisGroup{"data"};
    AxisGroup batch = {"replica",
                       "data"};  // Levanter's default of `batch_axis`
    if (request_.mesh && !request_.mesh->Find("replica")) batch = data;
    return AddMap(trainer, "axis_resources") &&
           AddNames(trainer, "tensor_parallel_axes", "", {"model"}) &&
           AddNames(trainer, "batch_axis", "batch", batch) &&
           AddMap(trainer, "parameter_axis_resources") &&
           AddNames(trainer, "fsdp_axis", "embed", data) &&
           CheckSize(trainer, "model_axis_size", "model") &&
           CheckReplicas(trainer);
  }

  bool ReadMesh(const YamlNode& mesh) {
    if (!mesh.IsMapping() && !mesh.IsNull()) {
      return Refuse(code::kSchema, mesh, "`mesh` is a mapping");
    }
    mapping_ = {{"mlp", {"model"}}, {"heads", {"model"}}};
    if (!AddMap(mesh, "shared_mapping")) return false;
    if (FindMember(mesh, "param_mapping") == nullptr) {
      mapping_["embed"] = {"data"};
    }
    return AddMap(mesh, "param_mapping") && CheckSizes(mesh, "axes") &&
           CheckSizes(mesh, "dcn_axes");
  }

  bool AddMap(const YamlNode& node, std::string_view key) {
    const YamlNode* map = FindMember(node, key);
    if (map == nullptr || map->IsNull()) return true;
    if (!map->IsMapping()) {
      return Refuse(
          code::kSchema, *map,
          "`" + std::string(key) + "` is a mapping of names to mesh axes");
    }
    for (const YamlMember& member : map->members) {
      auto axes = ReadAxes(member.value);
      if (!axes || !member.key.IsScalar()) {
        return Refuse(code::kSchema, member.value,
                      "an axis, a list of axes or nothing should stand here");
      }
      mapping_[member.key.text] = std::move(*axes);
    }
    return true;
  }

  // Maps the name at `key`, or each name of a list at `key`, to `axes`. If the
  // key is absent, maps the default name `absent`. An empty `absent` means no
  // default.
  bool AddNames(const YamlNode& node, std::string_view key,
                std::string_view absent, const AxisGroup& axes) {
    const YamlNode* names = FindMember(node, key);
    if (names == nullptr) {
      if (!absent.empty()) mapping_[std::string(absent)] = axes;
      return true;
    }
    const auto read = ReadAxes(*names);
    if (!read) {
      return Refuse(code::kSchema, *names,
                    "`" + std::string(key) + "` is a name or a list of names");
    }
    for (const std::string& name : *read) mapping_[name] = axes;
    return true;
  }

  // Checks that the axis has the same size in the mesh and in the file. A size
  // of -1 in the file means all remaining devices. It is not checked.
  bool IsSize(const YamlNode& node, const std::string& axis) {
    const auto size = ReadInteger(context_, node, "`" + axis + "`", {-1});
    if (!size) return false;
    if (!request_.mesh || *size < 0 || request_.mesh->SizeOf(axis) == *size) {
      return true;
    }
    return Refuse(code::kInexpressible, node,
                  "`" + axis + "` is " + std::to_string(*size) +
                      " here, and the mesh is " + MeshText(*request_.mesh));
  }

  bool CheckSize(const YamlNode& node, std::string_view key,
                 const std::string& axis) {
    const YamlNode* size = FindMember(node, key);
    return size == nullptr || IsSize(*size, axis);
  }

  bool CheckSizes(const YamlNode& mesh, std::string_view key) {
    const YamlNode* sizes = FindMember(mesh, key);
    if (sizes == nullptr || sizes->IsNull()) return true;
    if (!sizes->IsMapping()) {
      return Refuse(code::kSchema, *sizes,
                    "`" + std::string(key) + "` is a mapping of axes to sizes");
    }
    return std::all_of(sizes->members.begin(), sizes->members.end(),
                       [&](const YamlMember& member) {
                         return IsSize(member.value, member.key.text);
                       });
  }

  // Checks the number of replicas. The file states two numbers: the replicas
  // within a slice (pod), and the replicas across slices. The mesh has one axis
  // for their product.
  bool CheckReplicas(const YamlNode& trainer) {
    int64_t product = 1;
    const YamlNode* last = nullptr;
    for (const char* key : {"replica_ici_axis_size", "replica_dcn_axis_size"}) {
      const YamlNode* node = FindMember(trainer, key);
      if (node == nullptr) continue;
      const auto size = ReadInteger(context_, *node, "`replica`", {-1});
      if (!size) return false;
      // -1 means one replica per slice. The number of slices is unknown here.
      if (*size < 0) return true;
      const auto both = CheckedMul(product, *size);
      if (!both) {
        return Refuse(code::kOverflow, *node,
                      "the number of replicas does not fit in 64 bits");
      }
      product = *both;
      last = node;
    }
    if (last == nullptr || !request_.mesh ||
        request_.mesh->SizeOf("replica") == product) {
      return true;
    }
    return Refuse(code::kInexpressible, *last,
                  "`replica` is " + std::to_string(product) +
                      " here, and the mesh is " + MeshText(*request_.mesh));
  }

  std::optional<Spec> SpecOf(const LogicalNames& one) {
    Spec spec;
    std::set<std::string> used;
    for (const AxisGroup& name : one.dims) {
      AxisGroup& group = spec.emplace_back();
      if (name.empty()) continue;
      const auto at = mapping_.find(name[0]);
      if (at == mapping_.end()) continue;
      group = at->second;
      for (const std::string& axis : group) {
        if (!request_.mesh->Find(axis)) {
          findings_.Add(code::kUnknownName, one.place,
                        ShortQuote(name[0]) + " is sharded over `" + axis +
                            "`, which the mesh lacks");
          return std::nullopt;
        }
        if (used.insert(axis).second) continue;
        const bool in_one = std::count(group.begin(), group.end(), axis) > 1;
        findings_.Add(code::kInexpressible, one.place,
                      (in_one ? ShortQuote(name[0]) + " is sharded twice over `"
                              : "two dimensions of " + ShortQuote(one.param) +
                                    " are sharded over `") +
                          axis + "`, which Levanter refuses");
        return std::nullopt;
      }
    }
    return spec;
  }

  YamlContext context_;
  const Request& request_;
  Findings& findings_;
  std::map<std::string, AxisGroup> mapping_;
};

std::optional<Imported> ReadLevanter(const Request& request,
                                     Findings& findings) {
  const auto document = YamlDocument::Parse(request.source, findings);
  if (!document || findings.HasErrors()) return std::nullopt;
  return LevanterConfig(*document, request, findings).Read();
}

}  // namespace

constexpr Importer kLevanter{
    "levanter", "Levanter's axis mappings over the names of `--names`",
    "--names --mesh", ReadLevanter};

}  // namespace shardc::imports
