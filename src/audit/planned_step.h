// Reads the collectives of a plan's step program from the report of `verify
// step`.
#ifndef SHARDC_AUDIT_PLANNED_STEP_H_
#define SHARDC_AUDIT_PLANNED_STEP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "audit/audit.h"
#include "model/mesh.h"
#include "source/json.h"

namespace shardc::audit {

// A collective that the step program runs once in each of `layers` layers.
struct PlannedSend {
  Collective kind = Collective::kAllGather;
  AxisGroup axes;                 // in the mesh's order
  Phase phase = Phase::kForward;  // kNone for an op of the optimizer
  std::string part, op;           // "layer 0-31", "linear q"
  bool number = false;            // whether only a scalar is sent
  int64_t layers = 1;
  int64_t bytes = 0;  // bytes that the busiest device sends in one layer
};

struct PlannedStep {
  std::string mode;  // "train"
  Mesh mesh;
  int64_t batch = 0, length = 0;
  int64_t element_bytes = 4;
  bool keep_gathered = false;
  std::vector<PlannedSend> sends;
};

// Reads the step of a mode from a document `shardc.step/v1`. Returns nullopt
// after a finding: SHD002 (missing) if the document lacks the mode, and SHD022
// (schema) if it has another schema, or if the mode's step is not supported or
// has an invalid member.
std::optional<PlannedStep> ReadPlannedStep(const JsonDocument& document,
                                           std::string_view mode,
                                           Findings& findings);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_PLANNED_STEP_H_
