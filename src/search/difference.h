// Compares the times of two shardings part by part.
#ifndef SHARDC_SEARCH_DIFFERENCE_H_
#define SHARDC_SEARCH_DIFFERENCE_H_

#include <string>
#include <vector>

#include "cost/expected.h"
#include "search/search.h"

namespace shardc::search {

// The seconds of each part of the step's time that `other` takes more than
// `best`; their sum is the difference of the two times.
std::vector<cost::TimePart> PartsOfDifference(const Sharding& best,
                                              const Sharding& other);

// "tensor collectives +52 ms, recomputation -10 ms": the largest part, and
// those that are at least a quarter of it.
std::string DifferenceText(const std::vector<cost::TimePart>& parts);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_DIFFERENCE_H_
