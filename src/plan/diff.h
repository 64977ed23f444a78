// What differs between two plans, or between two modes of one, and what moving
// from the first to the second costs.
//
// Parameters that are alike but for digits in their names, and differ in the
// same way, are one entry. Names are views into those of the plans.
#ifndef SHARDC_PLAN_DIFF_H_
#define SHARDC_PLAN_DIFF_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/reshard.h"
#include "model/axis_rules.h"
#include "model/manifest.h"
#include "model/spec.h"
#include "plan/view.h"

namespace shardc {

struct NamedGroup {
  std::string shown;  // a template, or the one name
  std::vector<std::string_view> names;
  TensorType type;
};

struct SpecChange : NamedGroup {
  std::vector<Mode> modes;  // where it is so; of one plan's modes: the second
  Spec before, after;
  std::optional<ReadPlacement> placed_before, placed_after;  // of the first
  // What a device holds of one parameter, in bytes, where it has any.
  std::optional<int64_t> held_before, held_after;
  // How one parameter moves, where both plans have one mesh, and the bytes
  // that the busiest device sends. Nothing moves where each device has what it
  // needs; placements are not costed.
  std::optional<SpecMove> move;
  std::optional<int64_t> sent_bytes_per_device;
};

struct TypeChange : NamedGroup {  // `type` is the second's
  TensorType before;
};

struct RuleChange : NamedGroup {
  std::string before, after;  // patterns; empty: no rule
};

struct AttentionChange {
  std::string tensor;
  std::vector<Mode> modes;
  Spec before, after;
};

struct PlanDiff {
  Mesh mesh_before, mesh_after;
  bool other_mesh = false;
  std::vector<NamedGroup> added, removed;
  std::vector<TypeChange> reshaped;
  std::vector<SpecChange> specs;
  std::vector<RuleChange> rules;
  std::vector<AttentionChange> attention;

  bool empty() const {
    return !other_mesh && added.empty() && removed.empty() &&
           reshaped.empty() && specs.empty() && rules.empty() &&
           attention.empty();
  }
};

PlanDiff DiffPlans(const PlanTable& before, const PlanTable& after);
PlanDiff DiffModes(const PlanTable& plan, Mode before, Mode after);

}  // namespace shardc

#endif  // SHARDC_PLAN_DIFF_H_
