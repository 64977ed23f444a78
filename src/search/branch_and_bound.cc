// Finds the fastest shardings of a model without evaluating all candidates. A
// candidate is a mesh with rules; it has one point (time and memory) for each
// setting of the training step. Candidates are evaluated in ascending order of
// their lower bounds of time. A candidate is skipped if a known point is better
// than the candidate's bounds of both time and memory:
//
//   bound 2.4 s and 30 GiB, found 1.7 s and 28 GiB  ->  skipped
//
// Points that are nearly as fast as the fastest point tie with it. Among them,
// the winner is chosen by other properties, such as the number of axes. So a
// candidate that may tie is skipped only if the better point has the same
// properties (GroupOf). A candidate is also skipped if its bound of time is
// more than kFrontWindow times the fastest time.
//
// Candidates are evaluated in blocks, by several threads. They are compared
// only with points of earlier blocks, so the result does not depend on the
// number of threads.
#include "search/branch_and_bound.h"

#include <algorithm>
#include <limits>

#include "search/front.h"

namespace shardc::search {
namespace {

// The number of candidates in the first block, and the most in any block.
constexpr size_t kFirstBlock = 2, kMostBlock = 8;

}  // namespace

Searched BranchAndBound(const Request& request, const Pricer& pricer,
                        const std::vector<Candidate>& candidates,
                        const Deadline& deadline, ThreadPool& threads) {
  Searched out;
  out.bounds.resize(candidates.size());
  threads.Run(static_cast<int64_t>(candidates.size()),
              [&](int64_t task, int worker) {
                const auto i = static_cast<size_t>(task);
                if (deadline.IsOver()) {
                  out.bounds[i].fits = false;
                  out.bounds[i].bytes = -1;
                } else {
                  out.bounds[i] = pricer.BoundOf(candidates[i], worker);
                }
              });
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < candidates.size(); ++i) {
    const Bound& bound = out.bounds[i];
    if (bound.bytes < 0) {
      ++out.left;
    } else if (!bound.reasons.empty()) {
      ++out.illegal;
    } else if (!bound.fits) {
      ++out.too_large;
    } else {
      order.push_back(i);
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return out.bounds[a].seconds < out.bounds[b].seconds;
  });
  const std::vector<int>& zeros = pricer.grid().zeros();
  Incumbents found;
  // The group of a point (GroupOf) depends on its ZeRO stage. Therefore a
  // candidate is excluded only if it is excluded with every stage.
  const auto excluded = [&](uint32_t candidate) {
    const Bound& bound = out.bounds[candidate];
    return std::all_of(zeros.begin(), zeros.end(), [&](int zero) {
      return found.Exclude(bound.seconds, bound.bytes,
                           GroupOf(candidates[candidate], zero));
    });
  };
  size_t size = kFirstBlock;
  for (size_t begin = 0; begin < order.size();) {
    std::vector<uint32_t> block;
    size_t next = begin;
    for (; next < order.size() && block.size() < size; ++next) {
      if (excluded(order[next])) {
        ++out.out_of_reach;
      } else {
        block.push_back(order[next]);
      }
    }
    if (deadline.IsOver() && begin > 0) {
      out.left += static_cast<int64_t>(block.size() + order.size() - next);
      break;
    }
    begin = next;
    size = std::min(2 * size, kMostBlock);
    const Filter filter = {.incumbents = &found};
    std::vector<std::vector<Point>> points(block.size());
    threads.Run(static_cast<int64_t>(block.size()), [&](int64_t task,
                                                        int worker) {
      const auto i = static_cast<size_t>(task);
      points[i] = pricer.PointsOf(candidates[block[i]], block[i],
                                  out.bounds[block[i]].seconds, filter, worker);
    });
    for (const auto& some : points) {
      for (const Point& one : some) {
        found.Add(one, GroupOf(candidates[one.candidate],
                               pricer.grid()[one.setting].zero));
      }
      out.points.insert(out.points.end(), some.begin(), some.end());
    }
    out.evaluated += static_cast<int64_t>(block.size());
    if (request.progress) {
      const bool any =
          found.fastest() < std::numeric_limits<double>::infinity();
      request.progress({static_cast<int64_t>(begin),
                        static_cast<int64_t>(order.size()),
                        any ? found.fastest() : 0});
    }
  }
  return out;
}

}  // namespace shardc::search
