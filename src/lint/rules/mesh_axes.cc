// Lints about the axes of a mesh: those that nothing uses or that have size 1,
// devices that do not hold the same, and axes that cross hosts or slices.
//
//   tp 8 is the first axis, hosts have 4 devices  ->  every layer crosses hosts
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "comm/memory.h"
#include "facts/axes.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/legality.h"
#include "lint/analysis/memory.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/step_facts.h"
#include "lint/rules/all.h"
#include "plan/mesh_purposes.h"
#include "source/list.h"
#include "source/wording.h"

namespace shardc {

// Reports rules that shard nothing: in all modes, every axis of their specs has
// size 1 on this mesh. Rules with the same axes are reported once, at the first
// of these rules.
void CheckAxisOfSizeOne(const Facts& facts, FindingSink& sink) {
  std::vector<AxisGroup> reported;
  for (size_t r = 0; r < facts.rule_facts().size(); ++r) {
    const RuleFacts& rule = facts.rule_facts()[r];
    AxisGroup axes;
    int64_t parts = 1;
    for (uint32_t index : rule.groups) {
      const ParameterGroup& group = facts.groups()[index];
      if (facts.Parts(group) > 1) parts = 2;
      for (const ModeLayout& mode : facts.LayoutOf(group).modes) {
        for (const AxisGroup& split : mode.spec) {
          for (const std::string& axis : split) {
            if (facts.mesh().SizeOf(axis) > 1) parts = 2;
            AddOnce(axes, axis);
          }
        }
      }
      if (parts > 1) break;
    }
    if (axes.empty() || parts > 1) continue;
    if (IsAmong(axes, reported)) continue;
    reported.push_back(axes);
    std::vector<std::string> names;
    for (const std::string& axis : axes) names.push_back(Quoted(axis));
    LintFinding finding = FindingAt(kAxisOfSizeOne.code,
                                    facts.RulePlace(static_cast<int32_t>(r)));
    finding.message = "the spec splits over " + ListText(names) + " only, " +
                      (axes.size() == 1 ? "which has" : "which have") +
                      " size 1 on this mesh: the parameters are replicated";
    finding.help = "make the axis larger than 1, or split over another axis";
    sink.push_back(std::move(finding));
  }
}

namespace {

void CollectAxes(std::set<std::string>& used, const Spec& spec) {
  for (const AxisGroup& group : spec) used.insert(group.begin(), group.end());
}

// Returns whether an axis comes from an axis rule that shards heads and has its
// default value. Such a rule does not prove that the axis is used: if the axis
// shards no parameter, it shards no heads either.
bool SplitsHeadsByDefault(const Facts& facts, const NameTrace& trace) {
  if (Written(facts, trace)) return false;
  auto rule = ParseAxisRule(trace.rule);
  while (rule && rule != AxisRule::kTensorParallel) rule = DerivedFrom(*rule);
  return rule.has_value();
}

void TakeActivations(std::set<std::string>& used, const Facts& facts) {
  for (const ModeActivations& mode : facts.plan().activations) {
    for (const ActivationLayout& layout : mode.tensors) {
      if (layout.IsStated()) CollectAxes(used, layout.why.spec);
    }
  }
  for (const ModeActivations& mode : facts.plan().attention) {
    for (const ActivationLayout& layout : mode.tensors) {
      for (const auto& dimension : layout.why.traces) {
        for (const NameTrace& trace : dimension) {
          if (SplitsHeadsByDefault(facts, trace)) continue;
          used.insert(trace.axes.begin(), trace.axes.end());
        }
      }
    }
  }
}

// Returns what to write if a mesh axis that nothing uses, and whose name shows
// no purpose, may be an axis that the rules split over and the mesh lacks, such
// as `fsdp`. Empty otherwise.
std::string LackingText(const Facts& facts, const std::string& axis) {
  const std::vector<std::string> unknown = PurposesOf(facts.mesh()).unknown;
  if (!IsAmong(axis, unknown)) {
    return {};
  }
  const AxisRules& rules = facts.compiled().rules.axes;
  for (size_t r = 0; r < facts.rules().size(); ++r) {
    for (const std::string& name :
         facts.RequestedAxes(static_cast<int32_t>(r))) {
      if (facts.mesh().Find(name)) continue;
      for (const AxisRule rule : ParallelismRules()) {
        if (rules.Value(rule).axes != AxisGroup{name}) continue;
        AxisRules renamed;
        renamed.Set(rule, {.is_null = false, .axes = {axis}});
        return "write `" + AxesText(renamed) +
               "` in the rules file if it is the axis " + Quoted(name) +
               " of the rules, which the mesh lacks, ";
      }
    }
  }
  return {};
}

// Returns whether the name of the axis means data parallelism, so that a
// training program gives the devices along it different samples.
bool HasOwnSamples(const Facts& facts, const std::string& axis) {
  return std::ranges::any_of(facts.axes(), [&](const AxisFacts& one) {
    return one.axis == axis && one.tokens == AxisTokens::kBatch;
  });
}

}  // namespace

void CheckUnusedMeshAxis(const Facts& facts, FindingSink& sink) {
  std::set<std::string> used;
  for (const ParameterGroup& group : facts.groups()) {
    for (const ModeLayout& mode : facts.LayoutOf(group).modes) {
      CollectAxes(used, mode.resolved);
    }
  }
  TakeActivations(used, facts);
  used.insert(facts.plan().placement_axes.begin(),
              facts.plan().placement_axes.end());
  // The axis of pipeline stages is used, because its ranks hold different
  // layers.
  used.insert(StageAxis(facts));
  for (const MeshAxis& axis : facts.mesh().axes) {
    if (axis.size <= 1 || used.count(axis.name) > 0) continue;
    LintFinding finding = FindingAt(kUnusedMeshAxis.code, facts.MeshPlace());
    finding.reports = {UnusedAxisTopic(axis.name)};
    // If another finding reports that nothing uses this axis, such as one about
    // experts that are not sharded, this finding is redundant.
    finding.unless = finding.reports;
    finding.message =
        "nothing uses mesh axis " + Quoted(axis.name) + " of size " +
        std::to_string(axis.size) + ": " +
        (HasOwnSamples(facts, axis.name)
             ? "no rule splits a parameter over it, and no axis rule the batch,"
               " so that plan and cost count the same samples on each of " +
                   Counted(axis.size, "device")
             : "no rule splits a parameter or attention over it, so " +
                   Counted(axis.size, "device") + " do the same work");
    const std::string purpose = PurposeText(facts, axis.name);
    finding.help =
        (purpose.empty() ? LackingText(facts, axis.name)
                         : "write `" + purpose + "` in the rules file, ") +
        "use it in a spec or an axis rule, or add its devices to another axis";
    sink.push_back(std::move(finding));
  }
}

// Reports devices that hold different numbers of bytes. Specs shard evenly, so
// within a pipeline stage only placement can assign more bytes to one
// coordinate than to another. Stages are not compared with each other.
void CheckUnevenDevices(const Facts& facts, FindingSink& sink) {
  HeldBytes held;
  for (const PlannedParam& param : facts.plan().params) {
    const auto coordinate = facts.plan().CoordinateOf(param);
    if (!coordinate) continue;
    const ParamLayout& layout = facts.plan().layouts[param.layout];
    held.AddAt(facts.PlacementAxis(layout), *coordinate,
               layout.modes.front().bytes_per_device.value_or(0));
  }
  for (const auto& [axis, placed] : held.placed()) {
    std::vector<int64_t> bytes(static_cast<size_t>(facts.mesh().SizeOf(axis)));
    for (const auto& [coordinate, held_there] : placed) {
      bytes[static_cast<size_t>(coordinate)] = held_there;
    }
    const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
    if (*most - *least <= *most / 20) continue;
    LintFinding finding = FindingAt(kUnevenDevices.code, facts.MeshPlace());
    finding.message = "placed parameters take " + BytesText(*most) +
                      " per device at coordinate " +
                      std::to_string(most - bytes.begin()) + " of axis " +
                      Quoted(axis) + " and " + BytesText(*least) +
                      " at coordinate " + std::to_string(least - bytes.begin());
    finding.help =
        "use an axis size that divides the number of experts, or check `count` "
        "in `place`";
    sink.push_back(std::move(finding));
  }
}

void CheckTensorAxisIdle(const Facts& facts, FindingSink& sink) {
  std::set<std::string> splits;
  bool matrices = false;
  for (const ParameterGroup& group : facts.groups()) {
    matrices = matrices || facts.Rank(group) >= 2;
    for (const ModeLayout& mode : facts.LayoutOf(group).modes) {
      for (const AxisGroup& axes : mode.resolved) {
        splits.insert(axes.begin(), axes.end());
      }
    }
  }
  splits.insert(facts.plan().placement_axes.begin(),
                facts.plan().placement_axes.end());
  if (!matrices) return;
  for (const MeshAxis& axis : facts.mesh().axes) {
    if (axis.size <= 1 || splits.count(axis.name) > 0) continue;
    if (facts.TensorAxes({axis.name}).empty()) continue;
    LintFinding finding = FindingAt(kTensorAxisIdle.code, facts.MeshPlace());
    // If nothing uses the axis, the lint unused-mesh-axis reports it instead.
    finding.unless = {UnusedAxisTopic(axis.name)};
    finding.message = "no parameter is split over the tensor parallel axis " +
                      Quoted(axis.name) + " of size " +
                      std::to_string(axis.size) + ": each of its " +
                      Counted(axis.size, "device") +
                      " holds all weights and computes all of every product";
    finding.help =
        "name the axis in the rules of projections (HEAD, MLP_INTERMEDIATE,"
        " VOCAB), or give its devices to `fsdp`";
    sink.push_back(std::move(finding));
  }
}

// Reports tensor-parallel axes whose groups cross hosts although another order
// of the mesh's axes would keep them inside a host. Devices are numbered with
// the last axis fastest, and each host has consecutive numbers. A group along
// an axis therefore is in a block of consecutive numbers. The length of the
// block is the product of the axis's size and the sizes of all later axes. The
// group crosses hosts if this length does not divide the number of devices of a
// host. It would stay inside a host if the axis came after the axes that are
// not tensor parallel.
//
//   tp 4, fsdp 4, 4 devices a host         a block of 16 numbers, on four hosts
//   tp 3, fsdp 6, 27 devices a host        the block 18 to 35 is on two hosts
//   tp 4, fsdp 2, tq 4, 4 devices a host   not reported: tp and tq together are
//                                          larger than a host in any order
void CheckChattyAxisAcrossHosts(const Facts& facts, FindingSink& sink) {
  const Mesh& mesh = facts.mesh();
  const int64_t per_host = DevicesPerHost(mesh);
  if (mesh.processes <= 1 || per_host <= 1) return;
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const MeshAxis& axis = mesh.axes[i];
    if (facts.TensorAxes({axis.name}).empty()) continue;
    if (!CrossesHosts(mesh, i)) continue;
    // Another lint reports an axis that spans slices.
    if (SlicesAlong(mesh, i) > 1) continue;
    std::string inner;
    // If `axis` came after the axes of `inner` in the mesh, each of its groups
    // would be in a block of this many consecutive device numbers.
    int64_t block = axis.size;
    for (size_t j = i + 1; j < mesh.axes.size(); ++j) {
      const int64_t size = mesh.axes[j].size / SlicesAlong(mesh, j);
      if (size <= 1) continue;
      if (!facts.TensorAxes({mesh.axes[j].name}).empty()) {
        block *= size;
        continue;
      }
      AppendItem(inner, ", ", Quoted(mesh.axes[j].name));
    }
    if (inner.empty() || per_host % block != 0) continue;
    LintFinding finding =
        FindingAt(kChattyAxisAcrossHosts.code, facts.MeshPlace());
    const std::string host = std::to_string(per_host);
    const std::string span =
        std::to_string(SpanOf(mesh, i)) + " device numbers";
    finding.message =
        SpanOf(mesh, i) > per_host
            ? "a group along tensor parallel axis " + Quoted(axis.name) +
                  " spans " + span + ", and a host has " + host +
                  ": its collectives, several in each layer, cross hosts"
            : "groups along tensor parallel axis " + Quoted(axis.name) +
                  " are in blocks of " + span + ", and a host has " + host +
                  ", no multiple of that: the collectives of some groups, "
                  "several in each layer, cross hosts";
    finding.help = "write " + Quoted(axis.name) + " after " + inner +
                   " in the mesh, so that its groups stay within a host";
    sink.push_back(std::move(finding));
  }
}

// Reports meshes whose model replicas cross hosts unevenly. The devices of a
// replica are those along the tensor-parallel and sequence-parallel axes. Their
// number must divide the number of devices of a host, or be a multiple of it.
//
//   24 devices on 3 hosts are 8 devices on each host, and tp 6 neither divides
//   8 nor is a multiple of 8  ->  reported
void CheckUnevenHosts(const Facts& facts, FindingSink& sink) {
  const Mesh& mesh = facts.mesh();
  if (mesh.processes <= 1) return;
  const int64_t per_host = DevicesPerHost(mesh);
  const AxisRules& rules = facts.compiled().rules.axes;
  AxisGroup model = rules.Value(AxisRule::kTensorParallel).axes;
  for (const std::string& axis :
       rules.Value(AxisRule::kSequenceParallel).axes) {
    // Sequences may be sharded over the tensor-parallel axis itself, which is
    // then counted only once.
    AddOnce(model, axis);
  }
  const int64_t group = mesh.Parts(model).value_or(1);
  if (per_host <= 0 || group <= 1) return;
  const bool fits =
      group <= per_host ? per_host % group == 0 : group % per_host == 0;
  if (fits) return;
  LintFinding finding = FindingAt(kUnevenHosts.code, facts.MeshPlace());
  finding.message =
      "a model replica takes " + std::to_string(group) +
      " devices (tensor times sequence parallel) and a host has " +
      std::to_string(per_host) + ": replicas straddle hosts unevenly";
  finding.help = "use sizes of which one divides the other";
  sink.push_back(std::move(finding));
}

namespace {

// Returns the first axis that could span the slices: it is not tensor parallel,
// and its size is a multiple of the number of slices. Returns an empty text if
// there is no such axis.
std::string OtherAxis(const Facts& facts) {
  const Mesh& mesh = facts.mesh();
  for (const MeshAxis& axis : mesh.axes) {
    if (axis.size % mesh.slices == 0 && facts.TensorAxes({axis.name}).empty()) {
      return axis.name;
    }
  }
  return {};
}

}  // namespace

void CheckTensorAxisOverSlices(const Facts& facts, FindingSink& sink) {
  const Mesh& mesh = facts.mesh();
  for (size_t i = 0; i < mesh.dcn.size() && i < mesh.axes.size(); ++i) {
    if (mesh.dcn[i] <= 1 || facts.TensorAxes({mesh.axes[i].name}).empty()) {
      continue;
    }
    LintFinding finding =
        FindingAt(kTensorAxisOverSlices.code, facts.MeshPlace());
    finding.message = "tensor parallel axis " + Quoted(mesh.axes[i].name) +
                      " spans " + std::to_string(mesh.dcn[i]) +
                      " slices: every layer waits for the network between"
                      " them";
    finding.help = "let a data parallel axis span the slices";
    const std::string axis = OtherAxis(facts);
    if (!axis.empty()) {
      finding.help +=
          ": `dcn: {" + axis + ": " + std::to_string(mesh.slices) + "}`";
    }
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
