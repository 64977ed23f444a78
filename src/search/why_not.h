// Why each alternative to the winner loses.
#ifndef SHARDC_SEARCH_WHY_NOT_H_
#define SHARDC_SEARCH_WHY_NOT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/candidates.h"
#include "search/deadline.h"
#include "search/pricer.h"
#include "search/search.h"
#include "source/thread_pool.h"

namespace shardc::search {

// Returns a candidate with a setting as a sharding, with the numbers of `cost`.
Sharding Described(const Candidate& candidate, uint32_t setting,
                   const RuleOptions& options, int worker);

// Returns a legal candidate with the setting that needs the least memory.
Sharding LeastOf(const SettingsGrid& grid, const RuleOptions& options,
                 const Candidate& candidate);

// The alternatives to the winner `point`. WhyNotOf changes one choice of the
// winner at a time and optimises the others again: the size of an axis, the
// rematerialisation policy, the number of micro-batches, the ZeRO stage, the
// rules, the order of the axes. Alternatives that no measured run supports are
// included. `bounds` has the bounds of the candidates. Alternatives that could
// not be evaluated before the deadline are not in the result.
struct Alternatives {
  std::vector<WhyNot> all;
  // The number of alternatives, and of those not evaluated by the deadline.
  size_t tried = 0, unfinished = 0;
};
Alternatives WhyNotOf(const Request& request, const SettingsGrid& grid,
                      RuleOptions& options, const Pricer& pricer,
                      const std::vector<Candidate>& candidates,
                      const std::vector<Bound>& bounds, const Point& point,
                      const Deadline& deadline, ThreadPool& threads);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_WHY_NOT_H_
