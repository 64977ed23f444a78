// Adds pipelines to the Pareto front, the ties and the alternatives of a
// search, which were computed without pipelines.
#ifndef SHARDC_SEARCH_PLACED_PIPELINES_H_
#define SHARDC_SEARCH_PLACED_PIPELINES_H_

#include <string_view>

#include "search/pipelines.h"
#include "search/search.h"

namespace shardc::search {

// The reason why a pipeline cannot be the winner.
inline constexpr std::string_view kUncalibratedPipeline =
    "no time of a pipeline is calibrated";

// Adds the pipelines of `found.pipelines` to the result of a search that has a
// winner. A pipeline is added to the Pareto front if its time is within
// kFrontWindow and no sharding and no other pipeline is better in both time and
// memory. For each kind of sharding (KindOf), the fastest pipeline that ties
// with the fastest sharding is added to the ties. For each number of ranks, the
// fastest pipeline is added to the alternatives.
void PlacePipelines(Found& found);

// Returns the pipeline that would win if the times of pipelines were
// calibrated. Returns null if no pipeline is faster than the winner, or if the
// fastest pipeline ties with the winner.
const Pipeline* FasterPipeline(const Found& found);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_PLACED_PIPELINES_H_
