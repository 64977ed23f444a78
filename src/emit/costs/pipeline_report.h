// Writes the cost of a pipeline, as text and as JSON (`shardc.pipeline/v1`).
#ifndef SHARDC_EMIT_COSTS_PIPELINE_REPORT_H_
#define SHARDC_EMIT_COSTS_PIPELINE_REPORT_H_

#include <string>

#include "cost/pipeline.h"
#include "source/sink.h"

namespace shardc {

// Returns the cost of a pipeline as text. If `explain` is true, the text also
// lists the assumptions.
std::string PipelineReportText(const cost::PipelineCost& cost,
                               const std::string& mesh, bool explain);
void WritePipelineJson(const cost::PipelineCost& cost,
                       const std::string& target, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_PIPELINE_REPORT_H_
