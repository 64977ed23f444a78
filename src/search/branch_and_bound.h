// Finds the points of a search space that may be the winner or on the Pareto
// front of time and memory, without evaluating all candidates.
#ifndef SHARDC_SEARCH_BRANCH_AND_BOUND_H_
#define SHARDC_SEARCH_BRANCH_AND_BOUND_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "search/candidates.h"
#include "search/deadline.h"
#include "search/pricer.h"
#include "search/request.h"
#include "source/thread_pool.h"

namespace shardc::search {

struct Searched {
  std::vector<Bound> bounds;  // indexed by candidate
  // The points of the evaluated candidates. Points that can neither win nor be
  // on the Pareto front (front.h) are left out.
  std::vector<Point> points;
  int64_t evaluated = 0;  // candidates whose points were computed
  // Candidates that were skipped because of their bounds.
  int64_t out_of_reach = 0;
  // The number of illegal candidates, and the number of candidates that exceed
  // the device memory.
  int64_t illegal = 0, too_large = 0;
  // The number of candidates that were not evaluated when the deadline passed.
  int64_t left = 0;
};

// Computes the bounds of each candidate, and then the points of the candidates
// that may be on the front or tie with the fastest point. The result is the
// same for any number of threads, unless the deadline passes.
Searched BranchAndBound(const Request& request, const Pricer& pricer,
                        const std::vector<Candidate>& candidates,
                        const Deadline& deadline, ThreadPool& threads);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_BRANCH_AND_BOUND_H_
