// Finds companions by their names: a bias, scale or zero point has the same
// module path as its weight. GPTQ and compressed-tensors store a group index of
// each input (`g_idx`) next to the weights, for example:
//
//   down_proj.qweight [96, 2048]   8 of 768 inputs in each number
//   down_proj.scales  [24, 2048]   a scale for 32 inputs
//   down_proj.g_idx   [768]        which of the 24 scales an input has
//
// GPTQ writes the indices even if the inputs of a group are consecutive, so
// that only the configuration shows whether they are. compressed-tensors writes
// them (`weight_g_idx`) only if the inputs are reordered.
#include "lint/analysis/companions.h"

#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "facts/parameters.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "parse/config_parts.h"
#include "roles/classify.h"
#include "roles/role.h"
#include "source/size.h"

namespace shardc {
namespace {

// Returns where the last part of a name begins, with its separator, if the part
// names the group indices. Returns npos for other names.
size_t GroupIndicesAt(const ParameterGroup& group, char separator) {
  const size_t at = group.name.rfind(separator);
  if (at == std::string::npos) return at;
  const std::string_view last = std::string_view(group.name).substr(at + 1);
  return last == "g_idx" || last == "weight_g_idx" ? at : std::string::npos;
}

// Returns the dimension of the weight that counts inputs, of which there are
// `inputs`. A stored number of a packed weight holds up to 32 of them.
int InputDim(const Facts& facts, const ParameterGroup& weight, int64_t inputs) {
  const int rank = facts.Rank(weight);
  const Shape& shape = *facts.TypeOf(weight).shape;
  const auto fits = [&](int dim) {
    const int64_t size = shape[AsIndex(dim)];
    return size > 0 && inputs % size == 0 && inputs / size <= 32;
  };
  const int known = InDim(weight.role, rank);
  if (known >= 0 && fits(known)) return known;
  if (fits(rank - 1) != fits(rank - 2)) {
    return fits(rank - 1) ? rank - 1 : rank - 2;
  }
  return known;
}

bool IsCompanion(Leaf leaf) {
  return leaf == Leaf::kBias || leaf == Leaf::kScale ||
         leaf == Leaf::kZeroPoint;
}

}  // namespace

std::vector<Companion> CompanionsOf(const Facts& facts) {
  // The weights by the path of their module, with the numbers of `blocks`.
  std::unordered_map<std::string_view, Companion> weights;
  // Weak evidence shows leaves that are joined with their module, as in
  // `gate_up_proj_bias`.
  const auto role_of = [&](size_t g) -> const ParameterRole& {
    const ParameterGroup& group = facts.groups()[g];
    return group.role.leaf == Leaf::kOther ? facts.Known(group).role()
                                           : group.role;
  };
  bool any = false;  // whether some group may be a companion
  for (size_t g = 0; g < facts.groups().size(); ++g) {
    const ParameterGroup& group = facts.groups()[g];
    any = any || IsCompanion(role_of(g).leaf) ||
          GroupIndicesAt(group, facts.separator()) != std::string::npos;
  }
  if (!any) return {};
  weights.reserve(facts.groups().size());
  for (size_t g = 0; g < facts.groups().size(); ++g) {
    const ParameterGroup& group = facts.groups()[g];
    const ParameterRole& role = role_of(g);
    if (!IsWeight(role) || facts.Rank(group) < 2) continue;
    Companion& slot = weights[role.module_path];
    if (slot.weight == nullptr || group.count() > slot.weight->count()) {
      slot.weight = &group;
      slot.blocks = role.packed_blocks;
    }
  }
  std::vector<Companion> out;
  for (size_t g = 0; g < facts.groups().size(); ++g) {
    const ParameterGroup& group = facts.groups()[g];
    const ParameterRole& role = role_of(g);
    const size_t indices = GroupIndicesAt(group, facts.separator());
    const bool indexes = indices != std::string::npos;
    if (!IsCompanion(role.leaf) && !indexes) continue;
    const auto weight =
        weights.find(indexes ? std::string_view(group.name).substr(0, indices)
                             : std::string_view(role.module_path));
    if (weight == weights.end()) continue;
    if (!facts.Judged(group) || !facts.Judged(*weight->second.weight)) {
      continue;
    }
    Companion pair = weight->second;
    pair.other = &group;
    pair.indexes = indexes;
    pair.leaf = role.leaf;
    out.push_back(pair);
  }
  return out;
}

InputOrders::InputOrders(const Facts& facts,
                         const std::vector<Companion>& companions) {
  for (const Companion& pair : companions) {
    if (!pair.indexes || facts.Rank(*pair.other) < 1) continue;
    Inputs inputs;
    inputs.dim =
        InputDim(facts, *pair.weight, facts.TypeOf(*pair.other).shape->back());
    const auto& parts = facts.config_parts();
    if (pair.other->name.ends_with("weight_g_idx")) {
      inputs.order = InputOrder::kReordered;
      inputs.evidence = Quoted(GroupName(facts, *pair.other)) +
                        " is stored for reordered "
                        "inputs only";
    } else if (!parts.act_order) {
      inputs.order = InputOrder::kUnknown;
    } else if (*parts.act_order) {
      inputs.order = InputOrder::kReordered;
      inputs.evidence =
          "the configuration states `" + parts.act_order_setting + "`";
    }
    inputs_.emplace(pair.weight, std::move(inputs));
  }
}

Inputs InputOrders::Of(const ParameterGroup& weight) const {
  const auto at = inputs_.find(&weight);
  return at == inputs_.end() ? Inputs{} : at->second;
}

std::set<const ParameterGroup*> ScalesNeededWhole(const Facts& facts) {
  std::set<const ParameterGroup*> out;
  const std::vector<Companion> companions = CompanionsOf(facts);
  const InputOrders orders(facts, companions);
  for (const Companion& pair : companions) {
    const Inputs inputs = orders.Of(*pair.weight);
    if (pair.indexes || inputs.order != InputOrder::kReordered ||
        inputs.dim < 0) {
      continue;
    }
    const AxisGroup axes =
        facts.KeptAxes(facts.AxesAt(*pair.weight, inputs.dim));
    if (facts.mesh().Parts(axes).value_or(1) > 1) out.insert(pair.other);
  }
  return out;
}

}  // namespace shardc
