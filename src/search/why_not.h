// Explains why each alternative to the winner of a search loses.
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

// Returns a candidate with a setting as a Sharding, which includes the report
// that the command `cost` prints.
Sharding Described(const Candidate& candidate, uint32_t setting,
                   const RuleOptions& options, int worker);

// Returns a legal candidate in the same way, with the setting of `grid` that
// needs the least memory.
Sharding LeastOf(const SettingsGrid& grid, const RuleOptions& options,
                 const Candidate& candidate);

// The alternatives to the winner `point`. In each, WhyNotOf() changes one
// choice of the winner and optimises all other choices again. The choices are
// the size of an axis, the rematerialisation policy, the number of
// micro-batches, the ZeRO stage, the rules, and the order of the axes.
// Alternatives that no measured run supports are included. `bounds` has the
// bounds of the candidates. Alternatives that were not evaluated before the
// deadline are left out.
struct Alternatives {
  std::vector<WhyNot> all;
  // The number of alternatives, and how many were not evaluated in time.
  size_t tried = 0, unfinished = 0;
};
Alternatives WhyNotOf(const Request& request, const SettingsGrid& grid,
                      RuleOptions& options, const Pricer& pricer,
                      const std::vector<Candidate>& candidates,
                      const std::vector<Bound>& bounds, const Point& point,
                      const Deadline& deadline, ThreadPool& threads);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_WHY_NOT_H_
