// Imports MaxText's `named_shardings.json`, which states the spec and the mesh
// of every parameter. All meshes must be equal. The names are key paths of JAX:
//
//   .params/['params']/['decoder']/['kernel']  ->  params/params/decoder/kernel
#include "importers/rules/exact.h"
#include "importers/rules/importer.h"

namespace shardc::imports {
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
