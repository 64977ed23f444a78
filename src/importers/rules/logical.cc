// Applies logical axis rules to the logical names of the parameters' dimensions
// (`--names`). The result is a rule set whose patterns match only the names of
// these parameters (exact.h):
//
//   mlp: tp, applied to {"up": ["embed", "mlp"]}  ->  ^up$: [null, tp]
#include "importers/rules/logical.h"

#include <algorithm>
#include <utility>

#include "importers/rules/exact.h"
#include "source/json.h"

namespace shardc::imports {
namespace {

// Reads the logical names of a parameter's dimensions. They are a list such as
// ["embed", "mlp"], or an object in MaxText's `logical_shardings.json`.
std::optional<Spec> NamesOf(JsonValue value, Findings& findings) {
  if (value.IsObject()) {
    const auto spec = value.Find("partition_spec");
    if (spec) return JsonSpec(*spec, findings);
  }
  return JsonSpec(value, findings);
}

bool IsOneNameEach(const Spec& names) {
  return std::all_of(names.begin(), names.end(), [&](const AxisGroup& group) {
    return group.size() < 2 &&
           (group.empty() || std::count(names.begin(), names.end(), group) < 2);
  });
}

}  // namespace

std::optional<std::vector<LogicalNames>> ReadLogicalNames(
    const SourceRef& source, Findings& findings) {
  const auto document = JsonDocument::Parse(source, findings);
  if (!document) return std::nullopt;
  if (!document->root().IsObject()) {
    findings.Add(code::kSchema, document->root().place(),
                 "this holds no parameters by name");
    return std::nullopt;
  }
  std::vector<LogicalNames> out;
  for (const JsonMember member : document->root().members()) {
    auto names = NamesOf(member.value, findings);
    if (!names) return std::nullopt;
    if (!IsOneNameEach(*names)) {
      findings.Add(code::kInexpressible, member.value.place(),
                   "a dimension has one logical name, and each name one "
                   "dimension");
      return std::nullopt;
    }
    out.push_back(
        {NameOfPath(member.name()), std::move(*names), member.key.place()});
  }
  return out;
}

std::optional<Imported> ImportNamed(
    const Request& request, Findings& findings,
    const std::function<std::optional<Spec>(const LogicalNames&)>& resolve) {
  if (request.names == nullptr || !request.mesh) {
    findings.Add(
        code::kUsage, {request.source},
        "logical axis rules say nothing of a parameter without the logical "
        "names of its dimensions and a mesh",
        "give `--names logical_shardings.json` and `--mesh`");
    return std::nullopt;
  }
  const auto named = ReadLogicalNames(request.names, findings);
  if (!named) return std::nullopt;
  std::vector<NamedSpec> params;
  for (const LogicalNames& one : *named) {
    auto spec = resolve(one);
    if (!spec) return std::nullopt;
    params.push_back({one.param, std::move(*spec), one.place});
  }
  Imported imported;
  imported.mesh = request.mesh;
  if (!AddExact(params, imported, findings)) return std::nullopt;
  return imported;
}

std::optional<Imported> ImportLogical(const std::vector<LogicalRule>& rules,
                                      const Request& request,
                                      Findings& findings) {
  const LogicalRules indexed(rules);
  return ImportNamed(request, findings, [&](const LogicalNames& one) {
    return std::optional(indexed.Resolve(one.dims, *request.mesh));
  });
}

}  // namespace shardc::imports
