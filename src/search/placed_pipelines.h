// Adds pipelines to the Pareto front, the ties and the alternatives of a
// search, which were computed without pipelines.
#ifndef SHARDC_SEARCH_PLACED_PIPELINES_H_
#define SHARDC_SEARCH_PLACED_PIPELINES_H_

#include "search/request.h"
#include "search/search.h"

namespace shardc::search {

// Adds the pipelines of `found.pipelines` to the result of a search whose
// winner has no stages. A pipeline is added to the Pareto front if its time is
// within kFrontWindow and no sharding and no other pipeline is better in both
// time and memory. For each kind of sharding (KindOf), the fastest pipeline
// that ties with the fastest sharding is added to the ties. For each number of
// ranks, the fastest pipeline is added to the alternatives. If the fastest
// pipeline that may win is clearly faster than the winner, or if nothing else
// fits, it becomes the winner, and the former winner becomes
// Found::without_stages.
void PlacePipelines(Found& found, const Request& request);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_PLACED_PIPELINES_H_
