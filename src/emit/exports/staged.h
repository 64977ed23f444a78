// Converts plans with pipeline stages to plans without stages, for formats that
// cannot express stages.
#ifndef SHARDC_EMIT_EXPORTS_STAGED_H_
#define SHARDC_EMIT_EXPORTS_STAGED_H_

#include <optional>
#include <string_view>

#include "plan/read.h"
#include "source/finding.h"

namespace shardc::exports {

// Returns a plan without stages in which each device holds the same parameters
// as before. A parameter of one rank gets a placement: only the devices at the
// rank's coordinate of the stage axis hold it. A tensor of stacked layers is
// sharded over that axis. Returns nullopt and adds a finding (inexpressible) in
// three cases: a parameter is on several ranks but not on all; a parameter of
// one rank already has a placement on another axis; the ranks, in their order,
// do not hold equal numbers of the layers of a stacked tensor.
std::optional<ReadPlan> WithoutStages(const ReadPlan& plan,
                                      std::string_view format,
                                      Findings& findings);

// Returns the plan on the mesh of one stage, which is the mesh without the
// stage axis, for formats that have one file per stage.
ReadPlan WithinStage(const ReadPlan& plan);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_STAGED_H_
