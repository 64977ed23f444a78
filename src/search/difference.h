// Compares the times of two shardings, part by part.
#ifndef SHARDC_SEARCH_DIFFERENCE_H_
#define SHARDC_SEARCH_DIFFERENCE_H_

#include <string>
#include <vector>

#include "cost/expected.h"
#include "search/search.h"

namespace shardc::search {

// Returns, for each part of the step's time, how many seconds longer it is in
// `other` than in `best`. The sum is the difference of the two times.
std::vector<cost::TimePart> PartsOfDifference(const Sharding& best,
                                              const Sharding& other);

// Returns a text with the largest difference, and with at most two more that
// are at least a quarter of the largest. An example is "tensor collectives +52
// ms, recomputation -10 ms".
std::string DifferenceText(const std::vector<cost::TimePart>& parts);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_DIFFERENCE_H_
