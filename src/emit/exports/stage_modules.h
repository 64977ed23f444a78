// The pipeline stages of a plan, for export formats that describe pipelines:
// the number of layers and the modules of each stage.
#ifndef SHARDC_EMIT_EXPORTS_STAGE_MODULES_H_
#define SHARDC_EMIT_EXPORTS_STAGE_MODULES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emit/exports/exporter.h"
#include "source/finding.h"

namespace shardc::exports {

struct ExportedStage {
  int64_t first_layer = 0, layers = 0;
  // Names of modules, in the order of their first parameter. A layer is one
  // module.
  std::vector<std::string> modules;
};

// Returns the stages in order. The stages of the plan are used if they have the
// requested numbers of layers. Returns nullopt and adds a finding (SHD062) in
// these cases: no parameter name has a layer number; layers are in two lists
// (`encoder.0`, `decoder.0`); a parameter is in no stage; the stages do not
// have exactly the model's layers; a spec shards over the axis of the stages.
std::optional<std::vector<ExportedStage>> StagesOf(const Request& request,
                                                   std::string_view format,
                                                   Findings& findings);

// Returns whether the requested schedule is one of `names`. If not, adds a
// finding (inexpressible).
bool HasSchedule(const Request& request, std::string_view format,
                 const std::vector<std::string_view>& names,
                 Findings& findings);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_STAGE_MODULES_H_
