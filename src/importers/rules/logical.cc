// Rules in order take what is free; a rule none of whose axes the mesh has
// settles its dimension as whole:
//
//   mlp: tp, embed: tp over [embed, mlp]  ->  [null, tp], for mlp comes first
#include "importers/rules/logical.h"

#include <algorithm>
#include <set>

#include "importers/rules/exact.h"
#include "source/json.h"
#include "source/wording.h"

namespace shardc::imports {
namespace {

// `logical_shardings.json` of MaxText, or {"name": ["embed", "mlp"]}.
std::optional<Spec> NamesOf(JsonValue value, Findings& findings) {
  if (value.IsObject()) {
    const auto spec = value.Find("partition_spec");
    if (spec) return JsonSpec(*spec, findings);
  }
  return JsonSpec(value, findings);
}

}  // namespace

Spec ResolveLogical(std::span<const LogicalRule> rules,
                    std::span<const AxisGroup> names, const Mesh& mesh) {
  Spec spec(names.size());
  std::vector<bool> settled(names.size());
  std::set<std::string> used;
  for (const LogicalRule& rule : rules) {
    const auto at =
        std::find_if(names.begin(), names.end(), [&](const AxisGroup& group) {
          return group.size() == 1 && group[0] == rule.name;
        });
    if (at == names.end()) continue;
    const auto dim = static_cast<size_t>(at - names.begin());
    AxisGroup axes;
    std::copy_if(
        rule.axes.begin(), rule.axes.end(), std::back_inserter(axes),
        [&](const std::string& a) { return mesh.Find(a).has_value(); });
    if (settled[dim] ||
        std::any_of(axes.begin(), axes.end(),
                    [&](const std::string& a) { return used.contains(a); })) {
      continue;
    }
    settled[dim] = true;
    used.insert(axes.begin(), axes.end());
    spec[dim] = std::move(axes);
  }
  return spec;
}

std::optional<Imported> ImportLogical(const std::vector<LogicalRule>& rules,
                                      const Request& request,
                                      Findings& findings) {
  if (request.names == nullptr || !request.mesh) {
    findings.Add(
        code::kUsage, {request.source},
        "logical axis rules say nothing of a parameter without the logical "
        "names of its dimensions and a mesh",
        "give `--names logical_shardings.json` and `--mesh`");
    return std::nullopt;
  }
  const auto document = JsonDocument::Parse(request.names, findings);
  if (!document) return std::nullopt;
  if (!document->root().IsObject()) {
    findings.Add(code::kSchema, document->root().place(),
                 "this holds no parameters by name");
    return std::nullopt;
  }
  std::vector<NamedSpec> params;
  for (const JsonMember member : document->root().members()) {
    const auto names = NamesOf(member.value, findings);
    if (!names) return std::nullopt;
    for (const AxisGroup& group : *names) {
      const auto same = std::count_if(
          names->begin(), names->end(),
          [&](const AxisGroup& g) { return g.size() == 1 && g == group; });
      if (group.size() < 2 && same < 2) continue;
      findings.Add(code::kInexpressible, member.value.place(),
                   "a dimension has one logical name, and each name one "
                   "dimension");
      return std::nullopt;
    }
    params.push_back({NameOfPath(member.name()),
                      ResolveLogical(rules, *names, *request.mesh),
                      member.key.place()});
  }
  Imported imported;
  imported.mesh = request.mesh;
  if (!AddExact(params, imported, findings)) return std::nullopt;
  return imported;
}

}  // namespace shardc::imports
