// Imports MaxText's `logical_axis_rules` in YAML, which is a list of pairs. The
// first element of a pair is a logical axis. The second element is a mesh axis,
// a list of mesh axes, or null.
//
//   logical_axis_rules: [['mlp', ['fsdp', 'tensor']], ['norm', 'tensor']]
#include <utility>

#include "importers/rules/exact.h"
#include "importers/rules/importer.h"
#include "yaml/yaml.h"

namespace shardc::imports {
namespace {

bool ReadRule(const YamlNode& node, LogicalRule& rule) {
  if (!node.IsSequence() || node.items.size() != 2 ||
      !node.items[0].IsScalar()) {
    return false;
  }
  auto axes = ReadAxes(node.items[1]);
  if (!axes) return false;
  rule = {node.items[0].text, std::move(*axes)};
  return true;
}

std::optional<Imported> ReadMaxtext(const Request& request,
                                    Findings& findings) {
  const auto document = YamlDocument::Parse(request.source, findings);
  if (!document || findings.HasErrors()) return std::nullopt;
  const YamlNode* rules =
      document->root().IsSequence()
          ? &document->root()
          : FindMember(document->root(), "logical_axis_rules");
  if (rules == nullptr || !rules->IsSequence()) {
    findings.Add(code::kSchema, document->PlaceOf(document->root()),
                 "this holds no list `logical_axis_rules`");
    return std::nullopt;
  }
  std::vector<LogicalRule> read;
  for (const YamlNode& node : rules->items) {
    if (ReadRule(node, read.emplace_back())) continue;
    findings.Add(code::kSchema, document->PlaceOf(node),
                 "this is no pair of a logical name and mesh axes");
    return std::nullopt;
  }
  AxisGroup declared;
  const YamlNode* const axes = FindMember(document->root(), "mesh_axes");
  if (axes != nullptr) declared = ReadAxes(*axes).value_or(AxisGroup());
  return ImportLogical(read, declared, request, findings);
}

}  // namespace

constexpr Importer kMaxtext{
    "maxtext", "MaxText's logical_axis_rules over the names of `--names`",
    "--names --mesh", ReadMaxtext};

// Imports MaxText's `named_shardings.json`, which states the spec and the mesh
// of every parameter. All meshes must be equal. The names are key paths of JAX:
//
//   .params/['params']/['decoder']/['kernel']  ->  params/params/decoder/kernel

namespace {

std::optional<Mesh> ReadDumpedMesh(JsonValue value, Findings& findings) {
  const auto names = value.Find("axis_names");
  const auto shape = value.Find("shape");
  Mesh mesh;
  if (names && names->IsArray() && shape && shape->IsObject()) {
    for (const JsonValue name : names->items()) {
      const auto size = shape->Find(name.string());
      const bool whole = size && size->kind() == JsonKind::kInteger;
      if (!AddAxis(name.string(), whole ? size->integer() : 0, name.place(),
                   mesh, findings)) {
        return std::nullopt;
      }
    }
    return mesh;
  }
  findings.Add(code::kSchema, value.place(),
               "a mesh has `axis_names` and a `shape`");
  return std::nullopt;
}

bool ReadParam(const JsonMember& member, Imported& imported, NamedSpec& param,
               Findings& findings) {
  const auto mesh = member.value.Find("mesh");
  const auto spec = member.value.Find("partition_spec");
  if (!mesh || !spec) {
    findings.Add(code::kSchema, member.value.place(),
                 "a parameter has a `mesh` and a `partition_spec`",
                 "`named_shardings.json` is the file that has both");
    return false;
  }
  const auto own = ReadDumpedMesh(*mesh, findings);
  if (!own) return false;
  if (!imported.mesh) imported.mesh = *own;
  if (MeshText(*imported.mesh) != MeshText(*own)) {
    findings.Add(code::kInexpressible, mesh->place(),
                 "this is another mesh than " + MeshText(*imported.mesh));
    return false;
  }
  auto read = JsonSpec(*spec, findings);
  if (!read) return false;
  for (const AxisGroup& group : *read) {
    for (const std::string& axis : group) {
      if (own->Find(axis)) continue;
      findings.Add(code::kUnknownName, spec->place(),
                   "the mesh has no axis `" + axis + "`");
      return false;
    }
  }
  param = {NameOfPath(member.name()), std::move(*read), member.key.place()};
  return true;
}

std::optional<Imported> ReadMaxtextDump(const Request& request,
                                        Findings& findings) {
  const auto document = JsonDocument::Parse(request.source, findings);
  if (!document) return std::nullopt;
  if (!document->root().IsObject() || document->root().size() == 0) {
    findings.Add(code::kSchema, document->root().place(),
                 "this holds no parameters by name");
    return std::nullopt;
  }
  Imported imported;
  std::vector<NamedSpec> params;
  for (const JsonMember member : document->root().members()) {
    if (!member.value.IsObject()) {
      findings.Add(code::kSchema, member.value.place(),
                   "a parameter is an object");
      return std::nullopt;
    }
    if (!ReadParam(member, imported, params.emplace_back(), findings)) {
      return std::nullopt;
    }
  }
  if (!AddExact(params, imported, findings)) return std::nullopt;
  return imported;
}

}  // namespace

constexpr Importer kMaxtextDump{
    "maxtext-dump", "MaxText's named_shardings.json, mesh and specs", "",
    ReadMaxtextDump};

}  // namespace shardc::imports
