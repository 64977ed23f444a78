// Compares a checkpoint's sharding with a plan. The checkpoint's shapes and
// shardings are first written as a plan, and this plan is compared with the
// given one:
//
//   `w` [16, 32] saved as P('fsdp', 'tp') on fsdp 2, tp 4
//     ->  {"mesh": fsdp 2, tp 4, "params": {"w": {"spec": ["fsdp", "tp"]}}}
#include "cli/saved_sharding.h"

#include <algorithm>
#include <utility>

#include "source/json_writer.h"
#include "source/wording.h"
#include "stored/format.h"

namespace shardc::cli {
namespace {

// Returns the mesh on which all sharded arrays were saved. Returns nullopt
// after a finding, for example if there are several meshes.
std::optional<Mesh> MeshOf(const stored::Tree& tree, Findings& findings) {
  const stored::Array* first = nullptr;
  for (const stored::Array& array : tree.arrays) {
    if (!array.sharding) continue;
    if (first == nullptr) first = &array;
    if (array.sharding->mesh.axes == first->sharding->mesh.axes) continue;
    findings.Add(code::kInexpressible, {MakeSource(tree.path, {})},
                 "the checkpoint has arrays of several meshes: " +
                     ShortQuote(first->name) + " was saved on " +
                     MeshText(first->sharding->mesh) + ", and " +
                     ShortQuote(array.name) + " on " +
                     MeshText(array.sharding->mesh),
                 "compare a checkpoint of one mesh");
    return std::nullopt;
  }
  if (first != nullptr) return first->sharding->mesh;
  findings.Add(code::kMissing, {MakeSource(tree.path, {})},
               "the checkpoint records no sharding",
               "compare the plan by which it was saved");
  return std::nullopt;
}

void WriteParam(JsonWriter& json, const stored::Array& array) {
  json.Key(array.name);
  json.BeginObject();
  json.Member("shape", array.shape);
  json.Key("dtype");
  if (array.dtype) {
    json.Value(DtypeName(*array.dtype));
  } else {
    json.Null();
  }
  json.Key("rule");
  json.Null();
  json.Key("spec");
  WriteSpec(json, array.sharding ? array.sharding->spec : Spec());
  json.Key("shard_shape");
  json.Null();
  json.Key("bytes_per_device");
  json.Null();
  json.EndObject();
}

std::string PlanOf(const stored::Tree& tree, const Mesh& mesh,
                   const std::vector<Mode>& modes) {
  return JsonText([&](JsonWriter& json) {
    json.BeginObject();
    json.Member("schema", "shardc.plan/v1");
    json.Member("fingerprint", "");
    json.Key("mesh");
    WriteMesh(json, mesh);
    json.Key("modes");
    json.BeginArray();
    for (const Mode mode : modes) json.Value(ModeName(mode));
    json.EndArray();
    json.Key("rules");
    json.BeginArray();
    json.EndArray();
    json.Key("params");
    json.BeginObject();
    for (const stored::Array& array : tree.arrays) WriteParam(json, array);
    json.EndObject();
    json.Key("attention");
    json.BeginObject();
    json.EndObject();
    json.EndObject();
  });
}

// Removes the differences in members that a plan has but a checkpoint lacks.
void RemoveOtherMembers(PlanDifference& difference) {
  difference.rules.clear();
  difference.attention.clear();
  std::erase_if(difference.fields, [](const FieldChange& change) {
    return !change.detailed || change.field.ends_with("rule") ||
           change.field.starts_with("attention");
  });
}

}  // namespace

std::optional<PlanDifference> CompareCheckpoint(const std::string& path,
                                                const PlanTable& plan,
                                                Findings& findings) {
  const auto tree = stored::OpenTree(path, findings);
  if (!tree) return std::nullopt;
  const auto mesh = MeshOf(*tree, findings);
  if (!mesh) return std::nullopt;
  const auto saved = ReadPlanTable(
      MakeSource(path, PlanOf(*tree, *mesh, plan.classes.plan.modes)),
      EditedPlan::kAllowed, findings);
  if (!saved) return std::nullopt;
  auto difference = ComparePlans(*saved, plan, findings);
  if (difference) RemoveOtherMembers(*difference);
  return difference;
}

}  // namespace shardc::cli
