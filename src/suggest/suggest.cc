// Suggests a rules file for a model without rules. The stages run in this
// order:
//
//   names -> parameter groups -> inferred dimensions -> specs -> rule groups
//         -> patterns -> a rules file, and the matching rule of each tensor
//
// If the user's program is given, its facts replace the second and third arrow.
//
// Finally, MisfitOf() checks whether the mesh suits the model. It does not if
// the parallelism of an axis is unknown, if fsdp, ep or tp shards no parameter,
// or if a device holds far more than its fully sharded bytes.
#include "suggest/suggest.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "roles/classify.h"
#include "source/size.h"
#include "source/wording.h"
#include "suggest/by_program.h"
#include "suggest/choose.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

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

// Returns the facts that the rules lack: the roles of parameters, and the
// number of heads of projections that are known to be those of attention.
std::vector<NotKnown> NotKnownOf(const Tree& tree, const ModelDims& dims) {
  std::vector<NotKnown> out;
  const bool has_config = dims.facts.has_config;
  const UnknownRoles roles = UnknownRolesOf(tree, dims);
  if (roles.any()) out.push_back(NotKnownRoles(roles, has_config));
  NotKnown heads{.what = "the number of heads",
                 .params = {},
                 .bytes = 0,
                 .settled_by = has_config ? "" : "--model CONFIG.json"};
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    if (!dims.groups[k].heads_unknown) continue;
    heads.params.push_back(tree.groups[k].name);
    *heads.bytes += tree.groups[k].total_bytes();
  }
  if (!heads.params.empty()) out.push_back(std::move(heads));
  return out;
}

// Returns which parameters are the reason why a device holds far more than its
// fully sharded bytes: those that add most of the excess.
std::string ExcessText(const Tree& tree, const MeshAxes& mesh,
                       const Choices& choices, int64_t bytes) {
  constexpr size_t kNamed = 2;
  std::vector<std::pair<int64_t, size_t>> excess;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const int64_t parts = choices.groups[k].Parts();
    const int64_t all = mesh.DevicesOfReplica();
    const int64_t total = tree.groups[k].total_bytes();
    if (parts < all) excess.emplace_back(total / all - total / parts, k);
  }
  std::sort(excess.begin(), excess.end());
  std::string out = "a device would hold " + BytesText(bytes) + ", and " +
                    BytesText(tree.bytes / mesh.DevicesOfReplica()) +
                    " if all were fully sharded: ";
  for (size_t i = 0; i < std::min(kNamed, excess.size()); ++i) {
    const ParameterGroup& group = tree.groups[excess[i].second];
    out += (i == 0 ? "" : ", ") + ShortQuote(group.name) + " " +
           ShapeText(group.shape);
  }
  const auto more = static_cast<int64_t>(excess.size()) -
                    static_cast<int64_t>(std::min(kNamed, excess.size()));
  if (more > 0) {
    out += " and " + Counted(more, "smaller group", "smaller groups");
  }
  return out + (excess.size() > 1 ? " are" : " is") +
         " not sharded over every axis";
}

}  // namespace

std::string UnknownRoles::Text() const {
  std::array<char, 32> percent{};
  std::snprintf(percent.data(), percent.size(), "%.1f", 100 * share);
  return Counted(params, "parameter") + " (" + percent.data() +
         " %) of unknown role";
}

bool UnknownRoles::AreMany() const { return share > kMostUnknownRoles; }

UnknownRoles UnknownRolesOf(const Tree& tree, const ModelDims& dims,
                            bool by_name) {
  UnknownRoles out;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const InferredDims& inferred = dims.groups[k];
    const ParameterGroup& group = tree.groups[k];
    const bool unknown =
        inferred.IsOfUnknownRole() && !IsOutOfMixer(group.name, tree.separator);
    if (!unknown && !(by_name && inferred.siblings != Siblings::kNone)) {
      continue;
    }
    out.params += group.count();
    out.bytes = CheckedAdd(out.bytes, group.total_bytes()).value_or(INT64_MAX);
    out.names.push_back(group.name);
  }
  if (tree.bytes > 0) {
    out.share =
        static_cast<double>(out.bytes) / static_cast<double>(tree.bytes);
  }
  return out;
}

NotKnown NotKnownRoles(const UnknownRoles& roles, bool has_config) {
  return {.what = "the roles of " + Counted(roles.params, "parameter"),
          .params = roles.names,
          .bytes = roles.bytes,
          .settled_by = has_config
                            ? "a `model:` section"
                            : "a `model:` section, or --model CONFIG.json "
                              "where its sizes show them"};
}

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
  if (const program::TracedProgram* const traced = request.preferences.traced) {
    const ByProgram by_program(out.tree, traced->facts, out.mesh);
    const auto& tensor = request.preferences.tensor_factors;
    out.dims = by_program.Dims();
    out.choices = by_program.Choose(tensor ? *tensor : by_program.BestByRatio(),
                                    request.preferences.divides_parts);
    SetAxisRules(out.dims, out.mesh, out.choices);
    out.choices.heads_divide = by_program.MayShardHeads();
  } else {
    out.dims = InferDims(out.tree, request.model, out.mesh.tp,
                         request.preferences.scan_axis);
    out.choices = Choose(out.tree, out.dims, out.mesh, request.preferences);
    const program::Facts* const described = request.manifest->described.get();
    if (described != nullptr && request.preferences.divides_parts) {
      DivideParts(out.tree, *described, out.mesh.tp, out.choices);
    }
  }
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
  out.not_known = NotKnownOf(out.tree, out.dims);
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
  const auto add = [&](const std::string& reason,
                       const std::vector<std::string>& axes) {
    std::string list;
    for (const std::string& axis : axes) {
      list += (list.empty() ? "`" : ", `") + axis + "`";
    }
    if (!axes.empty()) AppendItem(out, "; ", reason + ": " + list);
  };
  add("no rules are suggested for these axes of pipeline stages", mesh.stages);
  add("the purpose of these axes is unknown", mesh.unused);
  if (!out.empty()) return out;
  for (const auto& [name, size] : UnusedAxes(mesh, choices)) {
    AppendItem(
        out, "; ",
        name + " of size " + std::to_string(size) + " shards no parameter");
  }
  if (!out.empty()) return out;
  const int64_t bytes = BytesPerDevice(tree, choices);
  if (bytes <= kLittle || RatioOf(tree, mesh, bytes) <= kPoorRatio) return out;
  return ExcessText(tree, mesh, choices, bytes);
}

}  // namespace shardc::suggest
