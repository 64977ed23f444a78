// Suggests a rules file for a model without rules. The stages run in this
// order:
//
//   names -> parameter groups -> inferred dimensions -> specs -> rule groups
//         -> patterns -> a rules file, and the matching rule of each tensor
//
// Finally, MisfitOf() checks whether the mesh suits the model. It does not if
// the parallelism of an axis is unknown, if fsdp, ep or tp shards no parameter,
// or if a device holds far more than its fully sharded bytes.
#include "suggest/suggest.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "source/checked.h"
#include "source/wording.h"
#include "suggest/choose.h"
#include "suggest/write.h"

namespace shardc::suggest {
namespace {

// A mesh does not suit a model if a device holds more than this multiple of its
// fully sharded bytes.
constexpr double kPoorRatio = 1.5;

// If a device holds at most this many bytes, kPoorRatio is not checked.
constexpr int64_t kLittle = int64_t{16} << 20;

// A model with more parameter groups gets no patterns. It has so many groups if
// its names have no layer numbers by which tensors can be grouped.
constexpr size_t kMostGroups = 4096;

int64_t BytesPerDevice(const Tree& tree, const Choices& choices) {
  int64_t out = 0;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const ParameterGroup& group = tree.groups[k];
    const int64_t parts = choices.groups[k].Parts();
    out = CheckedAdd(out, group.total_bytes() / parts).value_or(INT64_MAX);
  }
  return out;
}

// Returns `bytes`, which a device holds, divided by the bytes that it would
// hold if all axes but dp sharded every parameter.
double RatioOf(const Tree& tree, const MeshAxes& mesh, int64_t bytes) {
  if (tree.bytes <= 0) return 1;
  return static_cast<double>(bytes) * static_cast<double>(mesh.devices()) /
         static_cast<double>(mesh.dp) / static_cast<double>(tree.bytes);
}

// Returns the names and sizes of the axes that shard no parameter. Only fsdp,
// tp and ep are checked, because dp makes replicas and sp shards tokens.
std::vector<std::pair<std::string, int64_t>> UnusedAxes(
    const MeshAxes& mesh, const Choices& choices) {
  std::set<std::string> used;
  for (const Choice& choice : choices.groups) {
    for (const auto& dim : choice.spec) {
      for (const AxisAssignment& one : dim) {
        const AxisPurpose purpose = PurposeOf(one.axis);
        used.insert(purpose == AxisPurpose::kData     ? one.axis
                    : purpose == AxisPurpose::kExpert ? "EP"
                                                      : "TP");
      }
    }
    if (!choice.place_axis.empty()) used.insert(choice.place_axis);
  }
  std::vector<std::pair<std::string, int64_t>> out;
  for (const auto& [axis, name, size] :
       {std::tuple("FSDP", "fsdp", mesh.fsdp), std::tuple("TP", "tp", mesh.tp),
        std::tuple("EP", "ep", mesh.ep)}) {
    if (size > 1 && !used.contains(axis)) out.emplace_back(name, size);
  }
  return out;
}

}  // namespace

bool HasTooManyGroups(const Tree& tree) {
  return tree.groups.size() > kMostGroups;
}

double Suggestion::Ratio() const {
  return RatioOf(tree, mesh, bytes_per_device);
}

Suggestion Suggest(const Request& request) {
  Suggestion out;
  out.mesh = AxesOf(*request.mesh);
  out.tree = ParameterGroupsOf(*request.manifest);
  out.dims = InferDims(out.tree, request.model, out.mesh.tp,
                       request.preferences.scan_axis);
  out.choices = Choose(out.tree, out.dims, out.mesh, request.preferences);
  out.rule_groups = RuleGroupsOf(out.tree, out.dims, out.choices);
  std::vector<std::vector<uint32_t>> groups;
  for (const RuleGroup& rule_group : out.rule_groups)
    groups.push_back(rule_group.groups);
  if (HasTooManyGroups(out.tree)) {
    out.patterns.rule_groups.resize(out.rule_groups.size());
  } else {
    out.patterns = PatternsOf(out.tree, groups);
  }
  out.bytes_per_device = BytesPerDevice(out.tree, out.choices);
  out.misfit =
      HasTooManyGroups(out.tree)
          ? "the names have no layer numbers: " +
                CountText(static_cast<int64_t>(out.tree.groups.size())) +
                " parameters would need one pattern each"
          : MisfitOf(out.tree, out.mesh, out.choices);
  out.file = WriteFile(out, *request.mesh);
  out.rule_of.assign(request.manifest->tensors.size(), -1);
  int32_t rule = 0;
  for (const auto& rule_group : out.patterns.rule_groups) {
    for (const PatternOf& pattern : rule_group) {
      for (const uint32_t k : pattern.groups) {
        for (const uint32_t member : out.tree.Members(out.tree.groups[k])) {
          out.rule_of[member] = rule;
        }
      }
      ++rule;
    }
  }
  return out;
}

std::string MisfitOf(const Tree& tree, const MeshAxes& mesh,
                     const Choices& choices) {
  std::string out;
  for (const std::string& axis : mesh.unused) {
    out += (out.empty() ? "the purpose of these axes is unknown: `" : "`, `") +
           axis;
  }
  if (!out.empty()) return out + "`";
  for (const auto& [name, size] : UnusedAxes(mesh, choices)) {
    out += (out.empty() ? "" : "; ") + name + " of size " +
           std::to_string(size) + " divides no parameter";
  }
  if (!out.empty()) return out;
  const int64_t bytes = BytesPerDevice(tree, choices);
  if (bytes <= kLittle || RatioOf(tree, mesh, bytes) <= kPoorRatio) return out;
  int64_t misfits = 0;
  int64_t weights = 0;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    if (tree.groups[k].rank() < 2) continue;
    ++weights;
    if (2 * choices.groups[k].Parts() <= mesh.devices() / mesh.dp) ++misfits;
  }
  return std::to_string(misfits) + " of " +
         Counted(weights, "group of weights", "groups of weights") +
         " do not divide by every axis";
}

}  // namespace shardc::suggest
