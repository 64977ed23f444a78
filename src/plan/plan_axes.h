// What the axes of the mesh are for, in a plan (member `axes`). Figures of a
// plan's file, such as the bytes of activations, need it as those of the inputs
// do. For example, for a mesh with the axes `fsdp` and `tensor` whose rules
// have no `axes:`:
//
//   "axes": {"facts": [
//       {"axis": "fsdp", "tokens": {"evidence": "default_name", "have":
//       "batch"},
//        "weights": {"evidence": "specs", "use": "gathered"}},
//       {"axis": "tensor", "tokens": {"evidence": "name", "have": "same"},
//        "weights": {"evidence": "specs", "use": "kept"}}],
//     "rules": {}}
#ifndef SHARDC_PLAN_PLAN_AXES_H_
#define SHARDC_PLAN_PLAN_AXES_H_

#include <optional>
#include <vector>

#include "facts/axes.h"
#include "model/axis_rules.h"
#include "model/mesh.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

class JsonWriter;

struct PlanAxes {
  // The axis rules that the rules file gives.
  AxisRules rules = {};
  // The facts of each axis of the mesh. The list is empty if the axis rules
  // name all axes, because nothing else decides about them then.
  std::vector<AxisFacts> facts = {};
  bool operator==(const PlanAxes&) const = default;
};

// Writes the object, with its members in the order of their names, which
// canonical JSON requires. The rules of the plan that show a fact are left out.
void WritePlanAxes(JsonWriter& json, const PlanAxes& axes);

// Reads the member `axes` of a plan with this mesh, which has its form. On
// failure, returns nullopt and adds a finding with the code schema or
// unknown-name.
std::optional<PlanAxes> ReadPlanAxes(const JsonValue& value, const Mesh& mesh,
                                     Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_PLAN_AXES_H_
