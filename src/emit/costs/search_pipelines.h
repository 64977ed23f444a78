// Writes the fastest pipeline that a search found.
#ifndef SHARDC_EMIT_COSTS_SEARCH_PIPELINES_H_
#define SHARDC_EMIT_COSTS_SEARCH_PIPELINES_H_

#include <string>

#include "emit/costs/search_report.h"
#include "source/json_writer.h"

namespace shardc {

// Returns the mesh, the schedule and the settings of a pipeline:
// "pp:8,dp:16,tp:8, interleaved with 4 stages a rank, remat ...".
std::string SearchPipelineText(const search::Pipeline& one);
// Returns how a pipeline divides its layers: "divided evenly into 16 stages".
// Adds the time of another division that is faster and that no measured run
// has.
std::string SearchStagesText(const search::Pipelines& pipelines);
// Returns the lines about pipelines in the text report. The first line has the
// fastest pipeline that may win, or `none that fits`. The second line states
// how its layers are divided, and the last line how many of the pipelines that
// may fit were evaluated. If no pipelines were searched, returns only the
// reason.
std::string SearchPipelinesText(const SearchReport& report);
// Writes `pipeline` (the fastest pipeline, or null) and `pipelines` (counts).
void WriteSearchPipelines(JsonWriter& json, const SearchReport& report);

// Writes the member `proved`: true if `verify step` proved that the sharding is
// correct, false if it did not, and null if it was not run.
void WriteProved(JsonWriter& json, const SearchProof& proof);

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_SEARCH_PIPELINES_H_
