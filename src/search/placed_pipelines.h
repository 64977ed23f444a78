// Adds pipelines to the Pareto front, the ties and the alternatives of a
// search. These were computed without pipelines.
#ifndef SHARDC_SEARCH_PLACED_PIPELINES_H_
#define SHARDC_SEARCH_PLACED_PIPELINES_H_

#include <string_view>

#include "search/pipelines.h"
#include "search/search.h"

namespace shardc::search {

// The reason why a pipeline cannot be the winner.
inline constexpr std::string_view kUncalibratedPipeline =
    "no time of a pipeline is calibrated";

// Adds pipelines of `found.pipelines` to the result of a search that has a
// winner. The Pareto front of time and memory gets the pipelines that no
// sharding and no other pipeline beats and whose time is within kFrontWindow.
// The ties get, of each kind, the fastest pipeline that ties with the fastest
// sharding. The alternatives get the fastest pipeline of each number of ranks.
void PlacePipelines(Found& found);

// Returns the pipeline that would win if its time were calibrated, because it
// is faster by more than a tie; null if there is none.
const Pipeline* FasterPipeline(const Found& found);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_PLACED_PIPELINES_H_
