// What the export formats share: their list, functions on a plan, plans without
// stages, the sharding over one axis, and values as Python literals.
#include "emit/exports/exporter.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/manifest.h"
#include "model/mesh_layout.h"
#include "model/name.h"
#include "plan/stage_units.h"
#include "plan/staged_plan.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

constexpr std::array kExporters = {
#define SHARDC_EXPORT(name) &name,
#include "emit/exports/table.h"
#undef SHARDC_EXPORT
};

}  // namespace

std::span<const Exporter* const> Exporters() { return kExporters; }

const Exporter* FindExporter(std::string_view name) {
  const auto* at =
      std::find_if(kExporters.begin(), kExporters.end(),
                   [&](const Exporter* e) { return e->name == name; });
  return at == kExporters.end() ? nullptr : *at;
}

// Groups parameters for exports that write one line per group. The names in a
// group differ only in numbers, which the line shows as `*`. The type, sharding
// and other values of the line are the same for all parameters of the group.
// For example:
//
//   h/0/up ["tp"], h/1/up ["tp"], h/2/up []
//     ->  h/*/up tp (2), h/2/up replicated

namespace {

// Adds one finding about all parameters for which `wrong` returns true. Returns
// true if there is no such parameter.
template <class Wrong>
bool None(const ReadPlan& plan, const Wrong& wrong, const std::string& message,
          const std::string& help, Findings& findings) {
  Finding finding;
  finding.code = &code::kInexpressible;
  for (const ReadParam& param : plan.params) {
    if (!wrong(param)) continue;
    if (finding.params.empty()) finding.place = param.place;
    finding.params.push_back(param.name);
  }
  if (finding.params.empty()) return true;
  const auto count = static_cast<int64_t>(finding.params.size());
  finding.message = message + ": " + ShortQuote(finding.params[0]) +
                    (count > 1 ? " and " + CountText(count - 1) + " more" : "");
  finding.help = help;
  findings.Add(std::move(finding));
  return false;
}

bool HasKvReplicas(const ReadParam& param) {
  return HasSubAxis(param.spec) ||
         std::any_of(param.modes.begin(), param.modes.end(),
                     [](const auto& mode) { return HasSubAxis(mode.second); });
}

}  // namespace

bool StateKvReplicas(const Exporter& exporter, ReadPlan& plan,
                     Findings& findings) {
  if (exporter.for_people || exporter.kv_form == KvForm::kSubAxes) return true;
  if (exporter.kv_form == KvForm::kNone) {
    return None(plan, HasKvReplicas,
                Quote(exporter.name) +
                    " does not have KV heads that are replicated over a part "
                    "of their axes (`kv_replicate`), because " +
                    std::string(exporter.no_kv_replicas),
                "`shardy` and `hlo` have them; or plan without `kv_replicate`",
                findings);
  }
  std::vector<Spec> specs;
  for (const ReadParam& param : plan.params) {
    if (!HasKvReplicas(param)) continue;
    specs.push_back(param.spec);
    for (const auto& [mode, spec] : param.modes) specs.push_back(spec);
  }
  auto mesh = RefinedMesh(plan.mesh, specs);
  if (!mesh) return true;
  plan.mesh = std::move(*mesh);
  for (ReadParam& param : plan.params) {
    param.spec = RefinedSpec(plan.mesh, param.spec);
    for (auto& [mode, spec] : param.modes) spec = RefinedSpec(plan.mesh, spec);
  }
  return true;
}

bool StateParts(const Exporter& exporter, const ReadPlan& plan, Mode mode,
                Findings& findings) {
  if (exporter.for_people || exporter.parts_form == PartsForm::kWrites) {
    return true;
  }
  const bool one_mode = exporter.flags.find("--mode") != std::string_view::npos;
  const auto parts_of = [&](const ReadParam& param) {
    return one_mode ? ShardedParts(param.parts, param.SpecOf(mode))
                    : param.parts;
  };
  if (exporter.parts_form == PartsForm::kWritesEqual) {
    return None(
        plan,
        [&](const ReadParam& param) { return StatesSizes(parts_of(param)); },
        Quote(exporter.name) +
            " gives a device a range of each of several equal parts of a "
            "dimension, and `parts` of the rules states parts of different "
            "sizes",
        "store the parts as separate parameters, or leave the dimension "
        "unsharded",
        findings);
  }
  return None(
      plan, [&](const ReadParam& param) { return !parts_of(param).empty(); },
      Quote(exporter.name) +
          " gives a device one range of a dimension, and `parts` of "
          "the rules gives it a range of each part",
      "`hf-tp-plan`, `dtensor` and `megatron` have equal parts; or "
      "store the parts as separate parameters, or leave the dimension "
      "unsharded",
      findings);
}

char SeparatorOf(const ReadPlan& plan) {
  int64_t slashes = 0, dots = 0;
  for (const ReadParam& param : plan.params) {
    slashes += param.name.find('/') != std::string::npos ? 1 : 0;
    dots += param.name.find('.') != std::string::npos ? 1 : 0;
  }
  return dots > slashes ? '.' : '/';
}

Spec Padded(const Spec& spec, size_t rank) {
  Spec out = spec;
  out.resize(rank);
  return out;
}

std::optional<Shape> ShardShape(const Mesh& mesh, const Spec& spec,
                                const std::optional<Shape>& shape) {
  if (!shape) return std::nullopt;
  const bool overflows = std::any_of(
      spec.begin(), spec.end(),
      [&](const AxisGroup& axes) { return !mesh.Parts(axes).has_value(); });
  if (overflows) return std::nullopt;
  return shardc::ShardShape(mesh, *shape, spec);
}

std::optional<int64_t> ShardBytes(const Mesh& mesh, const Spec& spec,
                                  const TensorType& type) {
  return TensorType{ShardShape(mesh, spec, type.shape), type.dtype}.Bytes();
}

bool CanListDevices(const Mesh& mesh, std::string_view format,
                    Findings& findings) {
  if (mesh.slices == 1 || mesh.devices <= kMostListed) return true;
  findings.Add(code::kLimit, {},
               "`" + std::string(format) + "` would list " +
                   CountText(mesh.devices) +
                   " devices, because they are in several slices",
               "`hlo` expresses their order in a few numbers");
  return false;
}

bool NoPlacements(const ReadPlan& plan, std::string_view format,
                  Findings& findings) {
  return None(
      plan, [](const ReadParam& param) { return param.placement.has_value(); },
      "`" + std::string(format) +
          "` cannot express a tensor that is placed at one coordinate of an "
          "axis",
      "stack the experts or the layers of stages into one tensor, or remove "
      "`place` from the rule or `stages:`",
      findings);
}

bool ShapesKnown(const ReadPlan& plan, std::string_view format,
                 Findings& findings) {
  return None(
      plan, [](const ReadParam& param) { return !param.type.shape; },
      "`" + std::string(format) + "` needs shapes, and one is unknown",
      "compile the plan from a manifest with shapes", findings);
}

bool NoBlocks(const ReadPlan& plan, std::string_view format,
              Findings& findings) {
  return None(
      plan,
      [](const ReadParam& param) {
        return param.type.dtype && BlockElements(*param.type.dtype) > 1;
      },
      "`" + std::string(format) +
          "` has no dtype for elements that are stored in blocks",
      "compile the plan from the manifest of the unquantised model", findings);
}

bool EvenShards(const ReadPlan& plan, const Inexpressible& uneven,
                Findings& findings) {
  const auto sharded = [&](const AxisGroup& axes) {
    return uneven.axis.empty() || IsAmong(uneven.axis, axes);
  };
  const auto is_uneven = [&](const ReadParam& param) {
    if (!param.uneven) return false;
    return std::any_of(plan.modes.begin(), plan.modes.end(), [&](Mode mode) {
      if (uneven.mode && *uneven.mode != mode) return false;
      const Spec& spec = param.SpecOf(mode);
      const auto dims = UnevenDims(plan.mesh, *param.type.shape, spec);
      return std::any_of(dims.begin(), dims.end(),
                         [&](size_t d) { return sharded(spec[d]); });
    });
  };
  return None(plan, is_uneven,
              "`" + std::string(uneven.format) +
                  "` cannot express shards of different sizes: " +
                  std::string(uneven.why),
              "pad the dimension in the model, or leave it unsharded with "
              "`illegal: shrink`",
              findings);
}

bool HasAxis(const Mesh& mesh, const std::string& flag, const std::string& name,
             Findings& findings) {
  if (mesh.Find(name)) return true;
  std::vector<std::string> names;
  for (const MeshAxis& axis : mesh.axes) names.push_back(axis.name);
  findings.Add(code::kUnknownName, {MakeSource(flag, name), 0, name.size()},
               "the mesh has no axis " + ShortQuote(name),
               DidYouMean(name, names));
  return false;
}

std::vector<Fold> Folded(const ReadPlan& plan, char separator) {
  std::vector<Fold> out;
  std::map<
      std::tuple<std::string, TensorType, Spec,
                 std::vector<std::pair<Mode, Spec>>, DimParts, std::string>,
      size_t>
      seen;
  for (const ReadParam& param : plan.params) {
    std::string name = NameTemplate(param.name, separator);
    const auto [at, inserted] = seen.try_emplace(
        {name, param.type, param.spec, param.modes, param.parts,
         param.placement ? param.placement->axis : std::string()},
        out.size());
    if (inserted) out.push_back({std::move(name), &param, 0});
    ++out[at->second].count;
  }
  for (Fold& fold : out) {
    if (fold.count == 1) fold.name = fold.first->name;
  }
  return out;
}

std::string ShortSpec(const Spec& spec) {
  if (IsReplicated(spec)) return "replicated";
  std::string out;
  for (const AxisGroup& group : spec) {
    std::string one = Join(group, "+");
    AppendItem(out, ", ", (one.empty() ? std::string("-") : one));
  }
  return out;
}

// Converts a plan with pipeline stages to a plan without stages, on the same
// mesh or on the mesh of one stage. A plan without stages cannot express some
// parameters, such as those that are on some of the ranks only. One finding
// reports all of these parameters. For example:
//
//   an embedding that the head shares, on ranks 0 and 3 of 4  ->  inexpressible

std::optional<ReadPlan> WithoutStages(const ReadPlan& plan,
                                      std::string_view format,
                                      Findings& findings) {
  ReadPlan out = plan;
  out.stages.reset();
  std::vector<std::string> names;
  for (ReadParam& param : out.params) {
    if (!TakeStagesAway(*plan.stages, param)) names.push_back(param.name);
  }
  if (names.empty()) return out;
  const auto more = static_cast<int64_t>(names.size()) - 1;
  Finding& finding = findings.Add(
      code::kInexpressible, {},
      "`" + std::string(format) + "` cannot express the stages of " +
          ShortQuote(names[0]) +
          (more > 0 ? " and " + Counted(more, "other parameter") : "") +
          ": on some ranks of `" + plan.stages->axis +
          "`, or with different numbers of layers",
      "`torch-pipeline` and the other formats of pipelines write the stages; "
      "`dtensor`, `megatron` and `vllm` the sharding within a stage");
  finding.params = std::move(names);
  return std::nullopt;
}

ReadPlan WithinStage(const ReadPlan& plan) {
  ReadPlan out = plan;
  out.mesh = StageMesh(plan.mesh, plan.stages->axis);
  if (const auto at = out.mesh.Find(plan.stages->axis)) {
    const auto number = static_cast<std::ptrdiff_t>(*at);
    out.mesh.axes.erase(out.mesh.axes.begin() + number);
    if (!out.mesh.dcn.empty()) {
      out.mesh.dcn.erase(out.mesh.dcn.begin() + number);
    }
  }
  out.stages.reset();
  for (ReadParam& param : out.params) param.stages = {};
  return out;
}

std::optional<std::string> TensorAxis(const Request& request,
                                      Findings& findings) {
  const std::string name =
      request.options.axis.empty() ? "tp" : request.options.axis;
  if (!HasAxis(request.plan.mesh, "--axis", name, findings)) {
    return std::nullopt;
  }
  return name;
}

std::optional<Split> SplitBy(const Mesh& mesh, const std::string& axis,
                             const Spec& spec) {
  for (size_t d = 0; d < spec.size(); ++d) {
    Split split{static_cast<int64_t>(d)};
    for (const std::string& name : spec[d]) {
      if (name == axis) return split;
      split.stride *= mesh.SizeOf(name);
    }
  }
  return std::nullopt;
}

std::string PythonString(std::string_view text) { return JsonString(text); }

std::string PartitionSpecText(const Spec& spec) {
  std::string out;
  for (const AxisGroup& group : spec) {
    out += out.empty() ? "" : ", ";
    if (group.empty()) {
      out += "None";
      continue;
    }
    std::string names = Join(group, ", ", PythonString);
    out += group.size() == 1 ? names : "(" + names + ")";
  }
  return "P(" + out + ")";
}

std::string AxesText(const Mesh& mesh) {
  std::string out = Join(mesh.axes, ", ", [&](const MeshAxis& axis) {
    return PythonString(axis.name) + ": " + std::to_string(axis.size);
  });
  return "{" + out + "}";
}

}  // namespace shardc::exports
