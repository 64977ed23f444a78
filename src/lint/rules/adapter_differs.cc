// Finds LoRA adapters whose sharding does not fit their base, which is the
// matrix that they adapt. An adapter adds the product B * A to the base: A
// reads the base's input, and B writes the base's output. The dimension that A
// and B share is the adapter's rank. It must not be sharded. The other
// dimension must be unsharded, or sharded like the same dimension of the base.
// Only tensor-parallel axes are compared. Square matrices are skipped, because
// their dimensions cannot be distinguished:
//
//   q_proj [in, out] over [null, tp]: lora_B [r, out] may be unsharded, or
//                                     sharded over [null, tp]
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "comm/reshard.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/scanned.h"
#include "lint/rules/all.h"
#include "model/name.h"
#include "roles/words.h"
#include "source/index.h"

namespace shardc {
namespace {

struct Adapter {
  std::string base;  // path of the module that is adapted
  bool down = false;
};

std::optional<Adapter> AdapterOf(std::string_view name, char separator) {
  Adapter out;
  for (std::string_view part : SplitName(name, separator)) {
    const Role role = RoleBelow(part);
    out.down = role == Role::kAdapterDown;
    if (IsAdapter(role)) return out;
    if (!out.base.empty()) out.base += separator;
    out.base += part;
  }
  return std::nullopt;
}

// A dimension of an adapter, with its axes and the axes of the same dimension
// of the base.
struct Side {
  int dim = 0;
  AxisGroup axes, base_axes;
};

LintFinding Report(const Facts& facts, const ParameterGroup& group,
                   const ParameterGroup& base, const Side& side) {
  LintFinding finding = GroupFinding(
      facts, kAdapterDiffers.code, group,
      "dimension " + std::to_string(side.dim) + " of " +
          ParametersText(facts, group) + " is split over " +
          GroupText(side.axes) + ", where " + Quoted(GroupName(facts, base)) +
          " has " + GroupText(side.base_axes) +
          ": the two results are added, so that one is resharded in every "
          "layer",
      "split both over the same axes, or leave the adapter unsharded");
  finding.labels.push_back({facts.GroupPlace(base), "the base"});
  return finding;
}

void Judge(const Facts& facts, const ParameterGroup& group, bool down,
           const ParameterGroup& base, FindingSink& sink) {
  const auto dims = MatrixDimsOf(facts, facts.stacks(), group);
  const auto base_dims = MatrixDimsOf(facts, facts.stacks(), base);
  if (!dims || !base_dims) return;
  const Shape& shape = *facts.TypeOf(group).shape;
  const auto [first, last] = *dims;
  const int64_t rows = shape[AsIndex(first)], columns = shape[AsIndex(last)];
  if (rows == columns) return;
  const int base_side = down ? InDim(base.role, 2) : OutDim(base.role, 2);
  const int base_dim = base_side < 0 ? -1 : (*base_dims)[AsIndex(base_side)];
  // The dimension that has the size of the base's input or output is not the
  // rank. If the sizes do not decide, the rank is the shorter dimension.
  const int64_t base_size =
      base_dim < 0 ? 0 : (*facts.TypeOf(base).shape)[AsIndex(base_dim)];
  const bool rank_first = rows == base_size      ? false
                          : columns == base_size ? true
                                                 : rows < columns;
  const int rank_dim = rank_first ? first : last;
  const AxisGroup across = facts.TensorAxes(facts.AxesAt(group, rank_dim));
  if (facts.TensorParts(across) > 1) {
    sink.push_back(GroupFinding(
        facts, kAdapterDiffers.code, group,
        "dimension " + std::to_string(rank_dim) + " of " +
            ParametersText(facts, group) + " is the adapter's rank, " +
            std::to_string(rank_first ? rows : columns) + ", split over " +
            GroupText(across) +
            ": the adapter's result is all-reduced over that axis, in addition "
            "to the base's",
        "do not split the rank"));
    return;
  }
  if (base_dim < 0) return;
  Side side;
  side.dim = rank_first ? last : first;
  side.axes = facts.TensorAxes(facts.AxesAt(group, side.dim));
  side.base_axes = facts.TensorAxes(facts.AxesAt(base, base_dim));
  // An adapter that is sharded like its base is accepted. An unsharded adapter
  // is accepted as well: each device uses only its own slice of the adapter,
  // which wastes only a few bytes.
  if (facts.TensorParts(side.axes) <= 1 ||
      SameSplit(facts.mesh(), side.axes, side.base_axes)) {
    return;
  }
  sink.push_back(Report(facts, group, base, side));
}

}  // namespace

void CheckAdapterDiffers(const Facts& facts, FindingSink& sink) {
  const std::string inner = std::string(1, facts.separator()) + "base_layer";
  std::map<std::string, const ParameterGroup*> bases;
  for (const ParameterGroup& group : facts.groups()) {
    if (!IsWeight(group) || !facts.Judged(group)) continue;
    if (!MatrixDimsOf(facts, facts.stacks(), group)) continue;
    if (AdapterOf(group.name, facts.separator())) continue;
    std::string module = group.role.module_path;
    if (module.ends_with(inner)) module.resize(module.size() - inner.size());
    bases.try_emplace(std::move(module), &group);
  }
  for (const ParameterGroup& group : facts.groups()) {
    if (!facts.Judged(group)) continue;
    const auto adapter = AdapterOf(group.name, facts.separator());
    if (!adapter) continue;
    const auto base = bases.find(adapter->base);
    if (base == bases.end()) continue;
    Judge(facts, group, adapter->down, *base->second, sink);
  }
}

}  // namespace shardc
