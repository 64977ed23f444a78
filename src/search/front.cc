// Selects the winner among the shardings that fit. The cost model predicts the
// times of published runs with a median error of 4 %. It predicts the ratio of
// the times of two shardings with a median error of 1 % if both use the same
// axes and ZeRO stage. Small differences are therefore treated as ties, and of
// two meshes that tie, the mesh with fewer axes is preferred:
//
//   fsdp=64: 1.703 s, dp=2 fsdp=32: 1.702 s  ->  a tie; fsdp=64 has fewer axes
#include "search/front.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <tuple>

#include "source/wording.h"

namespace shardc::search {
namespace {

// A device's memory is divided into this many equal shares. The printed front
// has at most one point in each share.
constexpr int64_t kMemoryShares = 12;

struct Ties {
  double fastest = 0;
  std::string kind;  // the axes and ZeRO stage of the fastest point (KindOf)
  double LimitFor(const std::string& other) const {
    return fastest * (1 + (other == kind ? kTieSameKind : kTieOther));
  }
};

Ties TiesWith(const std::vector<Point>& points,
              const std::vector<Candidate>& candidates,
              const SettingsGrid& grid) {
  const Point& first = *std::min_element(points.begin(), points.end(), Before);
  return {first.seconds,
          KindOf(candidates[first.candidate], grid[first.setting].zero)};
}

}  // namespace

Verdict VerdictOf(double ratio, double tie) {
  if (ratio * (1 + tie) < 1) return Verdict::kFaster;
  return ratio <= 1 + tie ? Verdict::kTie : Verdict::kSlower;
}

bool Before(const Point& a, const Point& b) {
  return std::tie(a.seconds, a.bytes, a.candidate, a.setting) <
         std::tie(b.seconds, b.bytes, b.candidate, b.setting);
}

std::vector<Point> FrontOf(std::vector<Point> points) {
  std::sort(points.begin(), points.end(), Before);
  std::vector<Point> out;
  for (const Point& one : points) {
    if (one.seconds > points.front().seconds * kFrontWindow) break;
    if (out.empty() || one.bytes < out.back().bytes) out.push_back(one);
  }
  return out;
}

std::vector<size_t> Thinned(const std::vector<Point>& front, int64_t capacity) {
  const int64_t share = std::max<int64_t>(1, capacity / kMemoryShares);
  std::vector<size_t> out;
  for (size_t i = 0; i < front.size(); ++i) {
    const bool next =
        out.empty() || front[i].bytes / share < front[out.back()].bytes / share;
    if (next) out.push_back(i);
  }
  return out;
}

size_t KneeOf(const std::vector<Point>& front,
              const std::vector<size_t>& thinned) {
  size_t knee = front.size();
  double most = 0;
  for (size_t i = 0; i + 1 < thinned.size(); ++i) {
    const Point& here = front[thinned[i]];
    const Point& next = front[thinned[i + 1]];
    const double slope = (next.seconds - here.seconds) /
                         static_cast<double>(here.bytes - next.bytes);
    if (slope > most) {
      most = slope;
      knee = thinned[i];
    }
  }
  return knee;
}

std::string KindOf(int64_t ranks, const AxisSizes& sizes, int zero) {
  std::string out;
  const auto add = [&](int64_t size, const char* name) {
    if (size > 1) AppendItem(out, "+", name);
  };
  add(ranks, "pp");
  add(sizes.data, "dp");
  add(sizes.sharded, "fsdp");
  add(sizes.experts, "ep");
  add(sizes.sequence, "sp");
  add(sizes.tensor, "tp");
  if (out.empty()) out = "one device";
  return zero > 0 ? out + ", ZeRO " + std::to_string(zero) : out;
}

std::string GroupOf(const Candidate& candidate, int zero) {
  return KindOf(candidate, zero) + " " +
         std::to_string(candidate.mesh.axes.size()) +
         (candidate.sizes.sequence > 1 ? " split" : "") +
         (candidate.unmeasured.empty() ? "" : " unmeasured");
}

Point WinnerOf(const std::vector<Point>& points,
               const std::vector<Candidate>& candidates,
               const SettingsGrid& grid, double most_seconds) {
  const Ties ties = TiesWith(points, candidates, grid);
  const auto kind = [&](const Point& one) {
    const Candidate& candidate = candidates[one.candidate];
    return std::tuple(!candidate.unmeasured.empty(), candidate.mesh.axes.size(),
                      candidate.sizes.sequence > 1, grid[one.setting].zero);
  };
  std::vector<Point> tied;
  for (const Point& one : points) {
    if (one.seconds > ties.fastest * (1 + kTieOther)) continue;
    const double limit =
        std::min(most_seconds, ties.LimitFor(KindOf(candidates[one.candidate],
                                                    grid[one.setting].zero)));
    if (one.seconds <= std::max(ties.fastest, limit)) tied.push_back(one);
  }
  std::sort(tied.begin(), tied.end(), [&](const Point& a, const Point& b) {
    const auto of_a = kind(a), of_b = kind(b);
    return of_a != of_b ? of_a < of_b : Before(a, b);
  });
  Point out = tied.front();
  for (const Point& one : tied) {
    if (kind(one) != kind(tied.front())) break;
    const bool same = one.seconds <= tied.front().seconds * (1 + kTieSameKind);
    if (same && one.bytes < out.bytes) out = one;
  }
  return out;
}

std::vector<Point> TiesOf(const std::vector<Point>& points,
                          const std::vector<Candidate>& candidates,
                          const SettingsGrid& grid) {
  const Ties ties = TiesWith(points, candidates, grid);
  std::map<std::string, Point> kinds;
  for (const Point& one : points) {
    if (one.seconds > ties.fastest * (1 + kTieOther)) continue;
    const std::string kind =
        KindOf(candidates[one.candidate], grid[one.setting].zero);
    if (one.seconds > ties.LimitFor(kind)) continue;
    const auto [at, fresh] = kinds.try_emplace(kind, one);
    if (!fresh && Before(one, at->second)) at->second = one;
  }
  std::vector<Point> out;
  for (const auto& [kind, point] : kinds) out.push_back(point);
  std::sort(out.begin(), out.end(), Before);
  return out;
}

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
  bool bounded = true;
  for (uint32_t i = 0; i < candidates.size(); ++i) {
    const Bound& bound = out.bounds[i];
    if (bound.bytes < 0) {
      ++out.left;
      bounded = false;
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
      // The candidates are in the order of their bounds.
      if (bounded && !block.empty()) {
        out.left_bound = out.bounds[block.front()].seconds;
      }
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

// Explains why one sharding is slower than another. The times of both have the
// same parts in the same order, so the differences of the parts add up to the
// difference of the times. For example, two parts of the slower sharding and of
// the faster one are compared:
//
//   matmuls 1.02 s and 1.00 s, optimizer 20 ms and 30 ms
//     ->  matmuls +20 ms, optimizer -10 ms

namespace {

// A part is not printed if its difference is smaller than this fraction of the
// largest difference. At most kMostParts parts are printed.
constexpr double kSmallPart = 0.25;
constexpr size_t kMostParts = 3;

std::string SignedSeconds(double seconds) {
  const double size = std::abs(seconds);
  const char* const unit = size >= 1 ? "s" : size >= 1e-3 ? "ms" : "us";
  const double scaled = size >= 1      ? size
                        : size >= 1e-3 ? size * 1e3
                                       : size * 1e6;
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%c%.3g %s", seconds < 0 ? '-' : '+',
                scaled, unit);
  return text.data();
}

// Returns a name as words: "tensor_collectives" becomes "tensor collectives".
std::string Words(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', ' ');
  return out;
}

}  // namespace

std::vector<cost::TimePart> PartsOfDifference(const Sharding& best,
                                              const Sharding& other) {
  std::vector<cost::TimePart> out = other.report.expected->parts;
  const auto& less = best.report.expected->parts;
  for (size_t i = 0; i < out.size() && i < less.size(); ++i) {
    out[i].seconds -= less[i].seconds;
  }
  return out;
}

std::string DifferenceText(const std::vector<cost::TimePart>& parts) {
  std::vector<cost::TimePart> sorted = parts;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const cost::TimePart& a, const cost::TimePart& b) {
                     return std::abs(a.seconds) > std::abs(b.seconds);
                   });
  std::string out;
  for (size_t i = 0; i < sorted.size() && i < kMostParts; ++i) {
    const double size = std::abs(sorted[i].seconds);
    if (size == 0 || size < kSmallPart * std::abs(sorted[0].seconds)) break;
    AppendItem(out, ", ",
               Words(sorted[i].name) + " " + SignedSeconds(sorted[i].seconds));
  }
  return out;
}

}  // namespace shardc::search
