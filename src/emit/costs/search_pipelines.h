// Writes the fastest pipeline that a search found.
#ifndef SHARDC_EMIT_COSTS_SEARCH_PIPELINES_H_
#define SHARDC_EMIT_COSTS_SEARCH_PIPELINES_H_

#include <string>
#include <string_view>

#include "emit/costs/search_report.h"
#include "source/json_writer.h"

namespace shardc {

// Returns the mesh, the schedule and the settings of a pipeline:
// "pp:8,dp:16,tp:8, interleaved with 4 stages a rank, remat ...".
std::string SearchPipelineText(const search::Pipeline& one);
// Returns "no time of a pipeline is calibrated". Reports print this text after
// a pipeline's time, because the time was not fitted to measured runs of
// pipelines.
std::string_view PipelineAccuracyText();
// Returns a sentence if the fastest pipeline is clearly faster than the winner:
// "pp:8,dp:16 would win: -12.1 %, but no time of a pipeline is calibrated".
// Returns an empty text otherwise.
std::string WouldWinText(const search::Found& found);
// Returns the lines about pipelines in the text report. The first line has the
// fastest pipeline, or `none that fits`. If `verify` was run on this pipeline,
// a line with the result follows. The last line states how many of the
// pipelines that may fit were evaluated. If no pipelines were searched, returns
// only the reason.
std::string SearchPipelinesText(const SearchReport& report);
// Writes `pipeline` (the fastest pipeline, or null) and `pipelines` (counts).
void WriteSearchPipelines(JsonWriter& json, const SearchReport& report);

// Writes the member `proved`: true if `verify step` proved that the sharding is
// correct, false if it did not, and null if it was not run.
void WriteProved(JsonWriter& json, const SearchProof& proof);

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_SEARCH_PIPELINES_H_
