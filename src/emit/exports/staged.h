// Plans with stages for formats that know no stages.
#ifndef SHARDC_EMIT_EXPORTS_STAGED_H_
#define SHARDC_EMIT_EXPORTS_STAGED_H_

#include <optional>
#include <string_view>

#include "plan/read.h"
#include "source/finding.h"

namespace shardc::exports {

// The plan without stages that puts the same parameters on the same devices: a
// parameter of one rank is placed at that coordinate of the stages' axis, and a
// tensor that holds layers is sharded over it. A finding (inexpressible) and
// nothing if a parameter is on some ranks and not on one or all, or if the
// stages have different numbers of layers of a tensor.
std::optional<ReadPlan> WithoutStages(const ReadPlan& plan,
                                      std::string_view format,
                                      Findings& findings);

// The plan of one stage's devices, for formats that a stage has its own of: on
// the mesh without the stages' axis.
ReadPlan WithinStage(const ReadPlan& plan);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_STAGED_H_
