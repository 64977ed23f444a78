// Adds pipelines to the front, the ties and the alternatives of a search, which
// were computed without them.
#ifndef SHARDC_SEARCH_PLACED_PIPELINES_H_
#define SHARDC_SEARCH_PLACED_PIPELINES_H_

#include <string_view>

#include "search/pipelines.h"
#include "search/search.h"

namespace shardc::search {

// The reason why a pipeline cannot be the winner.
inline constexpr std::string_view kUncalibratedPipeline =
    "no time of a pipeline is calibrated";

// Adds `found.pipelines` to the result of a search that has a winner: to the
// front the pipelines that no sharding beats, to the ties the pipelines that
// tie with the fastest sharding, and to the alternatives the fastest pipeline
// of each number of ranks.
void PlacePipelines(Found& found);

// Returns the pipeline that would win if its time were calibrated, because it
// is faster by more than a tie; null if there is none.
const Pipeline* FasterPipeline(const Found& found);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_PLACED_PIPELINES_H_
