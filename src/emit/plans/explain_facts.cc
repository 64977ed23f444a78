// Writes the facts of the axes of a mesh and of parameters. For example, for
// rules whose specs name the mesh axes `data` and `model` themselves, and a
// model of two layers:
//
//   axis `model`, 4 devices
//   weights     each device computes with its shard of the weights, by the
//               specs of parameters that belong together
//   tokens      its devices have the same tokens, by its name, which published
//               systems use
//   shards      heads of 2 parameters, inner of 4 parameters
//
//   model.layers.*.mlp.up_proj.weight, 2 parameters of [2816, 1024] BF16
//   role        up, by its name
//   dimensions  0 inner (out), 1 stream (in)
#include "emit/plans/explain_facts.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "facts/axes.h"
#include "facts/dimensions.h"
#include "facts/parameters.h"
#include "model/manifest.h"
#include "model/mesh_layout.h"
#include "plan/axis_facts.h"
#include "roles/role.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

using facts::Counts;

using facts::ParameterTable;

const TensorType& GroupTypeOf(const Compiled& compiled,
                              const facts::Group& group) {
  return compiled.manifest.types[group.type];
}

// Returns a line with a heading, which starts the text of its column.
std::string FactLine(std::string_view heading, const std::string& text) {
  constexpr size_t kColumn = 12;
  std::string out(heading);
  out.resize(std::max(kColumn, out.size() + 1), ' ');
  return out + text + "\n";
}

std::string RoleLineText(const facts::Group& group) {
  const ParameterRole& role = group.role();
  std::string out = role.role == Role::kOther
                        ? "not known"
                        : std::string(RoleName(role.role));
  if (role.module_role != role.role && role.module_role != Role::kOther) {
    out += " of " + std::string(RoleName(role.module_role));
  }
  if (role.expert) out += " of experts";
  if (role.shared_expert) out += " of a shared expert";
  if (group.evidence == facts::Evidence::kNone && role.role != Role::kOther) {
    out += "; nothing shows the role of its module";
  } else {
    out += ", " + std::string(EvidenceText(group.evidence));
  }
  if (group.skipped) out += "; the step does not use it";
  return out;
}

std::string DimensionsText(const std::vector<Counts>& counts,
                           const facts::MatrixDims& dims) {
  std::string out;
  for (size_t dim = 0; dim < counts.size(); ++dim) {
    const auto at = static_cast<int>(dim);
    out += (dim == 0 ? "" : ", ") + std::to_string(dim) + " " +
           (counts[dim] == Counts::kUnknown
                ? std::string("not known")
                : std::string(CountsWord(counts[dim])));
    if (at == dims.in) out += " (in)";
    if (at == dims.out) out += " (out)";
  }
  return out;
}

std::string FactsOfGroupText(const Compiled& compiled, uint32_t g,
                             uint32_t split_with) {
  const ParameterTable& table = compiled.Parameters();
  const facts::Group& group = table.groups[g];
  std::string out = FactLine("role", RoleLineText(group));
  if (const auto& shape = GroupTypeOf(compiled, group).shape;
      shape && !shape->empty()) {
    out +=
        FactLine("dimensions", DimensionsText(CountsOf(table, g, *shape),
                                              MatrixDimsOf(table, g, *shape)));
  }
  if (split_with != g) {
    out += FactLine("split with", Printable(table.groups[split_with].name));
  }
  return out;
}

void WriteFactsOfGroup(JsonWriter& json, const Compiled& compiled, uint32_t g,
                       uint32_t split_with) {
  const ParameterTable& table = compiled.Parameters();
  const facts::Group& group = table.groups[g];
  const ParameterRole& role = group.role();
  json.Members("role", RoleName(role.role), "module_role",
               RoleName(role.module_role), "evidence",
               EvidenceWord(group.evidence), "expert", role.expert,
               "shared_expert", role.shared_expert, "skipped", group.skipped);
  std::vector<std::string_view> counts;
  facts::MatrixDims dims;
  if (const auto& shape = GroupTypeOf(compiled, group).shape) {
    for (const Counts one : CountsOf(table, g, *shape)) {
      counts.push_back(CountsWord(one));
    }
    dims = MatrixDimsOf(table, g, *shape);
  }
  const auto known = [](int dim) {
    return dim < 0 ? std::optional<int>() : std::optional<int>(dim);
  };
  json.Members("dimensions", counts, "in", known(dims.in), "out",
               known(dims.out), "split_with",
               split_with == g
                   ? std::optional<std::string>()
                   : std::optional<std::string>(table.groups[split_with].name));
}

// What the specs of train shard over an axis: the number of parameters for each
// kind of dimension.
std::map<Counts, int64_t> ShardedOver(const Compiled& compiled,
                                      const std::string& axis) {
  const ParameterTable& table = compiled.Parameters();
  const Plan& plan = compiled.plan;
  std::map<Counts, int64_t> out;
  for (size_t i = 0; i < plan.params.size(); ++i) {
    const ParamLayout& layout = plan.layouts[plan.params[i].layout];
    const auto& shape = plan.types[layout.type].shape;
    if (!shape || layout.modes.empty()) continue;
    const Spec& spec = layout.modes.front().resolved;
    std::vector<Counts> counts;
    for (size_t dim = 0; dim < std::min(spec.size(), shape->size()); ++dim) {
      const bool has = std::ranges::any_of(
          spec[dim],
          [&](const std::string& one) { return WholeAxis(one) == axis; });
      if (!has) continue;
      if (counts.empty()) counts = CountsOf(table, table.group_of[i], *shape);
      ++out[counts[dim]];
    }
  }
  return out;
}

std::string ShardsText(const std::map<Counts, int64_t>& sharded) {
  std::string out;
  for (const auto& [counts, number] : sharded) {
    out += (out.empty() ? "" : ", ") +
           std::string(counts == Counts::kUnknown ? "other dimensions"
                                                  : CountsWord(counts)) +
           " of " + Counted(number, "parameter");
  }
  return out.empty() ? "nothing" : out;
}

// Returns the line that states the purpose of an axis whose tokens are not
// known.
std::string SettledBy(const AxisFacts& axis) {
  return "`axes:` in the rules, such as `axes: {batch: [" + axis.axis +
         "]}` or `axes: {tensor_parallel: " + axis.axis + "}`";
}

std::string PlaceOfRule(const Compiled& compiled, int32_t rule) {
  return Printable(compiled.plan.rules[AsIndex(rule)].source);
}

std::string TextOfEvidence(AxisEvidence evidence) {
  return evidence == AxisEvidence::kNone
             ? ""
             : ", " + std::string(AxisEvidenceText(evidence));
}

// Returns the evidence of the use of weights; none if it is not known.
AxisEvidence EvidenceOfUse(const AxisFacts& axis) {
  return axis.use == AxisUse::kNotKnown ? AxisEvidence::kNone
                                        : axis.use_evidence;
}

std::string AxisText(const Compiled& compiled, size_t index,
                     const AxisFacts& axis) {
  const int64_t size = compiled.mesh.axes[index].size;
  std::string out =
      "axis " + ShortQuote(axis.axis) + ", " + Counted(size, "device") + "\n";
  if (size <= 1) return out + FactLine("shards", "nothing: its size is 1");
  out += FactLine("weights", std::string(AxisUseText(axis.use)) +
                                 TextOfEvidence(EvidenceOfUse(axis)));
  if (axis.out_rule >= 0 && axis.in_rule >= 0 &&
      (axis.denial || axis.use_evidence == AxisEvidence::kSpecs)) {
    out +=
        FactLine("", "see the rules " + PlaceOfRule(compiled, axis.out_rule) +
                         " and " + PlaceOfRule(compiled, axis.in_rule));
  }
  if (axis.denial) {
    out += FactLine("", "its name denies the specs: by these " +
                            std::string(AxisUseText(axis.denial->specs)) +
                            ", and by the name " +
                            std::string(AxisUseText(axis.denial->name)));
  }
  out += FactLine("tokens", std::string(AxisTokensText(axis.tokens)) +
                                TextOfEvidence(axis.tokens_evidence));
  out += FactLine("shards", ShardsText(ShardedOver(compiled, axis.axis)));
  if (axis.tokens == AxisTokens::kNotKnown) {
    out += FactLine("settled by", SettledBy(axis));
  }
  return out;
}

void WriteAxis(JsonWriter& json, const Compiled& compiled, size_t index,
               const AxisFacts& axis) {
  json.BeginObject();
  json.Members("axis", axis.axis, "size", compiled.mesh.axes[index].size);
  json.Member("weights", Record("use", AxisUseWord(axis.use), "evidence",
                                AxisEvidenceWord(EvidenceOfUse(axis))));
  json.Member("tokens", Record("have", AxisTokensWord(axis.tokens), "evidence",
                               AxisEvidenceWord(axis.tokens_evidence)));
  if (axis.denial) {
    json.Member("denial", Record("specs", AxisUseWord(axis.denial->specs),
                                 "name", AxisUseWord(axis.denial->name)));
  }
  const bool shown = axis.out_rule >= 0 && axis.in_rule >= 0;
  if (shown) json.Member("rules", std::vector{axis.out_rule, axis.in_rule});
  json.Key("shards");
  json.BeginObject();
  for (const auto& [counts, number] : ShardedOver(compiled, axis.axis)) {
    json.Member(CountsWord(counts), number);
  }
  json.EndObject();
  if (axis.tokens == AxisTokens::kNotKnown) {
    json.Member("settled_by", SettledBy(axis));
  }
  json.EndObject();
}

}  // namespace

std::string ParameterFactsText(const Compiled& compiled, size_t param) {
  const ParameterTable& table = compiled.Parameters();
  const uint32_t group = table.group_of[param];
  return FactsOfGroupText(compiled, group, SplitWith(table)[group]);
}

void WriteParameterFacts(JsonWriter& json, const Compiled& compiled,
                         size_t param) {
  const ParameterTable& table = compiled.Parameters();
  const uint32_t group = table.group_of[param];
  WriteFactsOfGroup(json, compiled, group, SplitWith(table)[group]);
}

std::string AxisFactsText(const Compiled& compiled, size_t axis) {
  return AxisText(compiled, axis, AxisFactsOf(compiled)[axis]);
}

std::string AllFactsText(const Compiled& compiled) {
  std::string out;
  const std::vector<AxisFacts> axes = AxisFactsOf(compiled);
  for (size_t i = 0; i < axes.size(); ++i) {
    out += (i == 0 ? "" : "\n") + AxisText(compiled, i, axes[i]);
  }
  const ParameterTable& table = compiled.Parameters();
  const std::vector<uint32_t> split_with = SplitWith(table);
  for (uint32_t g = 0; g < table.groups.size(); ++g) {
    const facts::Group& group = table.groups[g];
    const TensorType& type = GroupTypeOf(compiled, group);
    out += "\n" + Printable(group.name) + ", " +
           Counted(group.count, "parameter") + " of " +
           (type.shape ? ShapeText(*type.shape) : "unknown shape") +
           (type.dtype ? " " + std::string(DtypeName(*type.dtype)) : "") +
           "\n" + FactsOfGroupText(compiled, g, split_with[g]);
  }
  return out;
}

void WriteFactsJson(const Compiled& compiled, Sink& out,
                    std::optional<size_t> axis) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("schema", kFactsFormat);
  json.Key("axes");
  json.BeginArray(JsonLayout::kLines);
  const std::vector<AxisFacts> axes = AxisFactsOf(compiled);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!axis || *axis == i) WriteAxis(json, compiled, i, axes[i]);
  }
  json.EndArray();
  if (!axis) {
    const ParameterTable& table = compiled.Parameters();
    const std::vector<uint32_t> split_with = SplitWith(table);
    json.Key("groups");
    json.BeginArray(JsonLayout::kLines);
    for (uint32_t g = 0; g < table.groups.size(); ++g) {
      json.BeginObject();
      json.Members("name", table.groups[g].name, "count",
                   table.groups[g].count);
      WriteTypeMembers(json, GroupTypeOf(compiled, table.groups[g]));
      WriteFactsOfGroup(json, compiled, g, split_with[g]);
      json.EndObject();
    }
    json.EndArray();
  }
  json.EndObject();
  out.Put('\n');
}

}  // namespace shardc
