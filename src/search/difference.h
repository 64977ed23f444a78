// Compares the times of two shardings part by part.
#ifndef SHARDC_SEARCH_DIFFERENCE_H_
#define SHARDC_SEARCH_DIFFERENCE_H_

#include <string>
#include <vector>

#include "cost/expected.h"
#include "search/search.h"

namespace shardc::search {

// Returns for each part of the step's time the seconds that `other` takes more
// than `best`. Their sum is the difference of the two times.
std::vector<cost::TimePart> PartsOfDifference(const Sharding& best,
                                              const Sharding& other);

// Returns the largest difference, and at most two others that are at least a
// quarter of it, such as "tensor collectives +52 ms, recomputation -10 ms".
std::string DifferenceText(const std::vector<cost::TimePart>& parts);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_DIFFERENCE_H_
