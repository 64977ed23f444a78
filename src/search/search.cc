// Enumerates the candidates, computes their bounds, evaluates those that the
// bounds do not exclude, and describes the winner, the front and the ties:
//
//   Llama 3 8B on 64 H100s  ->  fsdp:64, 1 micro-batch, dots kept: 1.7 s
//
// The winner is never slower than what `fit` or `suggest` would choose for the
// same settings, because their shardings are candidates, and a tie is taken
// only if it is not slower than the fastest of them.
#include "search/search.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "search/branch_and_bound.h"
#include "search/candidates.h"
#include "search/front.h"
#include "search/why_not.h"

namespace shardc::search {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

// The time of the fastest sharding that needs no search: rules as they are,
// with the settings of `fit` or those of `suggest`.
double UsualSeconds(const std::vector<Point>& points,
                    const std::vector<Candidate>& candidates,
                    const RuleOptions& options, const SettingsGrid& grid,
                    const cost::Settings& usual) {
  double out = kForever;
  for (const Point& one : points) {
    const Candidate& candidate = candidates[one.candidate];
    RuleChanges changes = options[candidate.option].changes;
    changes.batch_over_experts = false;
    const cost::Settings& settings = grid[one.setting];
    const bool keeps = settings.remat.text == usual.remat.text ||
                       settings.remat.keep == step::Keep::kNothing;
    if (candidate.usual_order && changes == RuleChanges{} && keeps &&
        settings.zero == usual.zero &&
        settings.microbatches == usual.microbatches) {
      out = std::min(out, one.seconds);
    }
  }
  return out;
}

const Point* RunnerUp(const std::vector<Point>& points,
                      const std::vector<Candidate>& candidates,
                      const Point& winner) {
  const Point* out = nullptr;
  for (const Point& one : points) {
    const bool other = MeshText(candidates[one.candidate].mesh) !=
                       MeshText(candidates[winner.candidate].mesh);
    if (other && (out == nullptr || Before(one, *out))) out = &one;
  }
  return out;
}

// Describes why nothing fits: the candidate that needs the least memory, or the
// reason why a mesh is illegal.
void DescribeMisfit(const SettingsGrid& grid, const RuleOptions& options,
                    const std::vector<Candidate>& candidates,
                    const Searched& searched, Found& out) {
  const Candidate* least = nullptr;
  int64_t bytes = INT64_MAX;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Bound& bound = searched.bounds[i];
    if (!bound.reasons.empty()) {
      if (out.reasons.empty()) {
        out.reasons = bound.reasons;
        out.reasons.insert(out.reasons.begin(), MeshText(candidates[i].mesh));
      }
      continue;
    }
    if (bound.bytes >= 0 && bound.bytes < bytes) {
      least = &candidates[i];
      bytes = bound.bytes;
    }
  }
  if (least != nullptr) {
    out.least = LeastOf(grid, options, *least);
  }
}

}  // namespace

Found Search(const Request& request) {
  const SettingsGrid grid(request);
  RuleOptions options(request, grid);
  const std::vector<Candidate> candidates = AllCandidates(request, options);
  ThreadPool threads(std::max(1, request.threads));
  Found out;
  std::unique_ptr<Pricer> pricer;
  Searched searched;
  for (const bool may : {false, true}) {
    pricer = std::make_unique<Pricer>(request, grid, options, may);
    searched = BranchAndBound(request, *pricer, candidates, threads);
    out.may_fit = may && !searched.points.empty();
    if (!searched.points.empty()) break;
  }
  out.counts = {static_cast<int64_t>(candidates.size()),
                static_cast<int64_t>(grid.size()),
                static_cast<int64_t>(options.size()),
                searched.evaluated,
                searched.out_of_reach,
                searched.illegal,
                searched.too_large,
                searched.left};
  const std::vector<Point>& points = searched.points;
  if (points.empty()) {
    DescribeMisfit(grid, options, candidates, searched, out);
    return out;
  }
  const auto describe = [&](const Point& one) {
    return Described(candidates[one.candidate], one.setting, options, 0);
  };
  const Point winner = WinnerOf(
      points, candidates, grid,
      UsualSeconds(points, candidates, options, grid, request.settings));
  out.winner = describe(winner);
  out.winner->file =
      options.FileFor(candidates[winner.candidate].option, out.winner->mesh);
  const Point fastest = *std::min_element(points.begin(), points.end(), Before);
  if (Before(fastest, winner)) out.fastest = describe(fastest);
  if (const Point* other = RunnerUp(points, candidates, winner)) {
    out.runner_up = describe(*other);
  }
  const std::vector<Point> front = FrontOf(points);
  for (const Point& one : front) out.front.push_back(describe(one));
  const int64_t capacity = out.winner->report.memory.capacity.value_or(0);
  out.shown = Thinned(front, capacity);
  out.knee = KneeOf(front, out.shown);
  for (const Point& one : TiesOf(points, candidates, grid)) {
    out.ties.push_back(
        {KindOf(candidates[one.candidate], grid[one.setting].zero),
         describe(one)});
  }
  out.why_not = WhyNotOf(request, grid, options, *pricer, candidates,
                         searched.bounds, winner, threads);
  return out;
}

}  // namespace shardc::search
