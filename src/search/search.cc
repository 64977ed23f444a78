// Searches for the fastest sharding. Enumerates the candidates, computes their
// bounds, and evaluates the candidates that the bounds do not exclude. Then
// describes the winner, the Pareto front and the ties. For example, this winner
// rematerialises all activations except the outputs of matrix products:
//
//   Llama 3 8B on 64 H100s  ->  fsdp:64, 1 micro-batch, dots kept: 1.7 s
//
// Unless the deadline passes, the winner is not slower than what `fit` or
// `suggest` would choose for the same settings. The shardings of both commands
// are candidates. A point that ties with the fastest can win only if its time
// is at most that of the faster of these two shardings.
#include "search/search.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "cost/unknown_roles.h"
#include "search/branch_and_bound.h"
#include "search/candidates.h"
#include "search/deadline.h"
#include "search/front.h"
#include "search/placed_pipelines.h"
#include "search/why_not.h"
#include "source/wording.h"

namespace shardc::search {
namespace {

constexpr double kNoTime = std::numeric_limits<double>::infinity();

// Returns filters for the settings that need no search: the settings of `fit`,
// and those of `suggest`, which keep no activations. Returns no filter if the
// grid lacks their ZeRO stage or number of micro-batches.
std::vector<Filter> UsualFilters(const SettingsGrid& grid,
                                 const cost::Settings& usual) {
  std::vector<Filter> out;
  const auto& zeros = grid.zeros();
  const auto& micros = grid.micros();
  const auto zero = std::find(zeros.begin(), zeros.end(), usual.zero);
  const auto micro =
      std::find(micros.begin(), micros.end(), usual.microbatches);
  if (zero == zeros.end() || micro == micros.end()) return out;
  for (size_t i = 0; i < grid.remats().size(); ++i) {
    const step::Remat& remat = grid.remats()[i];
    if (remat.text != usual.remat.text && remat.keep != step::Keep::kNothing) {
      continue;
    }
    out.push_back({.zero = static_cast<size_t>(zero - zeros.begin()),
                   .remat = i,
                   .micro = static_cast<size_t>(micro - micros.begin())});
  }
  return out;
}

// Returns the indices of the usable candidates that `wanted` selects, sorted by
// their lower bound of time.
std::vector<uint32_t> OrderOf(const std::vector<Candidate>& candidates,
                              const std::vector<Bound>& bounds,
                              const std::function<bool(uint32_t)>& wanted) {
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < candidates.size(); ++i) {
    if (bounds[i].bytes >= 0 && bounds[i].Usable() && wanted(i)) {
      out.push_back(i);
    }
  }
  std::stable_sort(out.begin(), out.end(), [&](uint32_t a, uint32_t b) {
    return bounds[a].seconds < bounds[b].seconds;
  });
  return out;
}

// Returns the time of the fastest sharding that needs no search: unchanged
// rules, with the settings of `fit` or of `suggest`. Returns infinity if this
// time exceeds `most_seconds`, and nullopt if the deadline passes first.
std::optional<double> UsualSeconds(const Pricer& pricer,
                                   const std::vector<Candidate>& candidates,
                                   const std::vector<Bound>& bounds,
                                   const RuleOptions& options,
                                   const cost::Settings& usual,
                                   double most_seconds,
                                   const Deadline& deadline) {
  double out = kNoTime;
  const auto order = OrderOf(candidates, bounds, [&](uint32_t i) {
    RuleChanges changes = options[candidates[i].option].changes;
    changes.batch_over_experts = false;
    return candidates[i].usual_order && changes == RuleChanges{};
  });
  for (Filter filter : UsualFilters(pricer.grid(), usual)) {
    for (const uint32_t i : order) {
      filter.most_seconds = std::min(most_seconds, out);
      if (bounds[i].seconds > filter.most_seconds) break;
      if (deadline.IsOver()) return std::nullopt;
      const auto one = pricer.BestOf(candidates[i], i, filter, 0);
      if (one) out = std::min(out, one->seconds);
    }
  }
  return out;
}

// Returns the fastest point whose mesh differs from the winner's. Sets
// `finished` to false if the deadline passes before this point is known.
std::optional<Point> RunnerUp(const Pricer& pricer,
                              const std::vector<Candidate>& candidates,
                              const std::vector<Bound>& bounds,
                              const Point& winner, const Deadline& deadline,
                              bool& finished) {
  std::optional<Point> out;
  const std::string mesh = MeshText(candidates[winner.candidate].mesh);
  Filter filter;
  for (const uint32_t i : OrderOf(candidates, bounds, [&](uint32_t i) {
         return MeshText(candidates[i].mesh) != mesh;
       })) {
    if (bounds[i].seconds > filter.most_seconds) break;
    if (deadline.IsOver()) {
      finished = false;
      break;
    }
    const auto one = pricer.BestOf(candidates[i], i, filter, 0);
    if (!one || (out && !Before(*one, *out))) continue;
    out = one;
    filter.most_seconds = one->seconds;
  }
  return out;
}

// Describes why no sharding fits: the candidate that needs the least memory,
// and the reasons why the first illegal mesh is refused. If the memory of every
// legal candidate is unknown, describes why the memory of the first legal
// candidate is unknown.
void DescribeMisfit(const SettingsGrid& grid, const RuleOptions& options,
                    const std::vector<Candidate>& candidates,
                    const Searched& searched, Found& out) {
  const Candidate *least = nullptr, *legal = nullptr;
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
    if (bound.bytes >= 0 && legal == nullptr) legal = &candidates[i];
    if (bound.bytes >= 0 && bound.bytes < bytes) {
      least = &candidates[i];
      bytes = bound.bytes;
    }
  }
  if (least != nullptr) {
    out.least = LeastOf(grid, options, *least);
  } else if (legal != nullptr) {
    const Evaluator& evaluator = *options[legal->option].evaluator;
    const auto on = evaluator.On(legal->mesh);
    if (on) {
      for (const NotKnown& fact : evaluator.MemoryOf(*on, 0).unknown) {
        out.reasons.push_back(NotKnownText(fact));
      }
    }
    if (out.reasons.empty()) out.reasons = {"its bytes do not fit in 64 bits"};
    out.reasons.insert(out.reasons.begin(), MeshText(legal->mesh));
  }
}

// Returns the facts about the model that are not known. They do not depend on
// the mesh, so the first candidate that compiles shows them.
std::vector<NotKnown> MissingFacts(const std::vector<Candidate>& candidates,
                                   const RuleOptions& options) {
  for (const Candidate& one : candidates) {
    const auto on = options[one.option].evaluator->On(one.mesh);
    if (on) return on->work.not_known;
  }
  return {};
}

// Returns the facts without which the time of a step is not known, if that of
// none of the first legal candidates is known. Otherwise returns an empty list.
std::vector<NotKnown> UnknownTraffic(const RuleOptions& options,
                                     const std::vector<Candidate>& candidates,
                                     const Searched& searched) {
  constexpr int kTried = 8;
  std::vector<NotKnown> out;
  int tried = 0;
  for (size_t i = 0; i < candidates.size() && tried < kTried; ++i) {
    if (!searched.bounds[i].reasons.empty()) continue;
    Evaluator& evaluator = *options[candidates[i].option].evaluator;
    auto on = evaluator.On(candidates[i].mesh);
    if (!on) continue;
    ++tried;
    const cost::Communication moves = evaluator.MovesOf(*on, 0, 0);
    if (!cost::CanBeSettled(moves.unknown)) return {};
    AddNotKnown(moves.unknown, out);
  }
  return out;
}

}  // namespace

Found Search(const Request& request) {
  const Deadline deadline(request.seconds);
  const SettingsGrid grid(request);
  RuleOptions options(request, grid);
  const std::vector<Candidate> candidates = AllCandidates(request, options);
  ThreadPool threads(std::max(1, request.threads));
  Found out;
  out.not_known = MissingFacts(candidates, options);
  if (!out.not_known.empty()) return out;
  std::unique_ptr<Pricer> pricer;
  Searched searched;
  for (const bool may : {false, true}) {
    pricer = std::make_unique<Pricer>(request, grid, options, may);
    searched = BranchAndBound(request, *pricer, candidates, deadline, threads);
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
  out.known = KnownChoices(request.model && request.model->experts);
  const std::vector<Point>& points = searched.points;
  if (points.empty()) {
    out.not_known = UnknownTraffic(options, candidates, searched);
    if (!out.not_known.empty()) return out;
    DescribeMisfit(grid, options, candidates, searched, out);
    out.pipelines = FindPipelines(request, grid, options, deadline);
    if (!out.pipelines.finished) out.unfinished.emplace_back("the pipelines");
    PlacePipelines(out, request);
    return out;
  }
  const auto describe = [&](const Point& one) {
    return Described(candidates[one.candidate], one.setting, options, 0);
  };
  const Point fastest = *std::min_element(points.begin(), points.end(), Before);
  const auto usual = UsualSeconds(*pricer, candidates, searched.bounds, options,
                                  request.settings,
                                  fastest.seconds * (1 + kTieOther), deadline);
  if (!usual) {
    out.unfinished.emplace_back(
        "the comparison with what `fit` and `suggest` choose");
  }
  const Point winner =
      WinnerOf(points, candidates, grid, usual.value_or(kNoTime));
  out.winner = describe(winner);
  out.winner->file =
      options.FileFor(candidates[winner.candidate].option, out.winner->mesh);
  if (Before(fastest, winner)) out.fastest = describe(fastest);
  bool finished = true;
  if (const auto other = RunnerUp(*pricer, candidates, searched.bounds, winner,
                                  deadline, finished)) {
    out.runner_up = describe(*other);
  }
  if (!finished) out.unfinished.emplace_back("the runner-up");
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
  Alternatives others = WhyNotOf(request, grid, options, *pricer, candidates,
                                 searched.bounds, winner, deadline, threads);
  out.why_not = std::move(others.all);
  out.pipelines = FindPipelines(request, grid, options, deadline);
  if (!out.pipelines.finished) out.unfinished.emplace_back("the pipelines");
  PlacePipelines(out, request);
  if (others.unfinished > 0) {
    out.unfinished.push_back(
        CountText(static_cast<int64_t>(others.unfinished)) + " of " +
        Counted(static_cast<int64_t>(others.tried), "alternative",
                "alternatives"));
  }
  return out;
}

}  // namespace shardc::search
