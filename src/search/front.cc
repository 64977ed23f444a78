// Selects the winner among the shardings that fit. The cost model predicts the
// times of published runs with a median error of 4 %. It predicts the ratio of
// the times of two shardings with a median error of 1 % if both use the same
// axes and ZeRO stage. Small differences are therefore treated as ties, and of
// two meshes that tie, the mesh with fewer axes is preferred:
//
//   fsdp=64: 1.703 s, dp=2 fsdp=32: 1.702 s  ->  a tie; fsdp=64 has fewer axes
#include "search/front.h"

#include <algorithm>
#include <map>
#include <tuple>

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
    if (size > 1) out += (out.empty() ? "" : "+") + std::string(name);
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

}  // namespace shardc::search
