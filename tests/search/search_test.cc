// Compares a search with an enumeration of all candidates without bounds.
#include "search/search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "complete.h"
#include "cost/fit.h"
#include "draws.h"
#include "search/front.h"
#include "search/pricer.h"
#include "search/request.h"
#include "search/requests.h"

namespace shardc::search {
namespace {

std::string Text(const Point& one) {
  return std::to_string(one.candidate) + "/" + std::to_string(one.setting) +
         " " + std::to_string(one.seconds) + " s " + std::to_string(one.bytes);
}

uint64_t NumberOf(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Returns the numbers of the cases. SHARDC_SEARCH_DRAWS=300 compares 300 cases,
// and SHARDC_SEARCH_FIRST=60 begins with case 60.
std::vector<uint64_t> Seeds() {
  const uint64_t first = NumberOf("SHARDC_SEARCH_FIRST", 60);
  std::vector<uint64_t> out(NumberOf("SHARDC_SEARCH_DRAWS", 12));
  std::iota(out.begin(), out.end(), first);
  return out;
}

// Checks that the bounds of a candidate are at most the time and the memory of
// each of its points; otherwise the search could skip the best one.
void CheckBound(const Bound& bound, const std::vector<Point>& points) {
  CHECK(bound.Usable());
  double seconds = std::numeric_limits<double>::infinity();
  int64_t bytes = INT64_MAX;
  for (const Point& one : points) {
    seconds = std::min(seconds, one.seconds);
    bytes = std::min(bytes, one.bytes);
  }
  CHECK(seconds >= bound.seconds);
  CHECK(bytes >= bound.bytes);
}

// Returns the points of all legal candidates with every setting that fits.
// Bounds exclude no point.
std::vector<Point> AllPoints(const Pricer& pricer,
                             const std::vector<Candidate>& candidates) {
  std::vector<Point> out;
  for (uint32_t i = 0; i < candidates.size(); ++i) {
    if (!pricer.BoundOf(candidates[i], 0).reasons.empty()) continue;
    const auto points = pricer.PointsOf(candidates[i], i, 0, {}, 0);
    out.insert(out.end(), points.begin(), points.end());
  }
  return out;
}

TEST_CASE("branch and bound finds what an enumeration finds") {
  int64_t feasible = 0, excluded = 0, all = 0;
  const std::vector<uint64_t> seeds = Seeds();
  for (const uint64_t seed : seeds) {
    CAPTURE(seed);
    Draws draws(seed);
    const auto request = DrawRequest(draws);
    const SettingsGrid grid(*request);
    RuleOptions options(*request, grid);
    const auto candidates = AllCandidates(*request, options);
    const Pricer pricer(*request, grid, options, false);
    ThreadPool threads(1);
    const Searched searched =
        BranchAndBound(*request, pricer, candidates, Deadline({}), threads);
    const auto points = AllPoints(pricer, candidates);
    REQUIRE(searched.points.empty() == points.empty());
    std::map<uint32_t, std::vector<Point>> of_candidates;
    for (const Point& one : points) of_candidates[one.candidate].push_back(one);
    for (const auto& one : of_candidates) {
      CAPTURE(one.first);
      CheckBound(searched.bounds[one.first], one.second);
    }
    if (points.empty()) continue;
    ++feasible;
    excluded += searched.out_of_reach;
    all += static_cast<int64_t>(candidates.size());
    const auto front = FrontOf(points), found = FrontOf(searched.points);
    REQUIRE(front.size() == found.size());
    for (size_t i = 0; i < front.size(); ++i) {
      CHECK(Text(front[i]) == Text(found[i]));
    }
    const double forever = std::numeric_limits<double>::infinity();
    CHECK(Text(WinnerOf(points, candidates, grid, forever)) ==
          Text(WinnerOf(searched.points, candidates, grid, forever)));
    const auto ties = TiesOf(points, candidates, grid);
    const auto found_ties = TiesOf(searched.points, candidates, grid);
    REQUIRE(ties.size() == found_ties.size());
    for (size_t i = 0; i < ties.size(); ++i) {
      CHECK(Text(ties[i]) == Text(found_ties[i]));
    }
  }
  // With only a few cases, possibly nothing fits in any of them.
  constexpr size_t kMany = 12;
  if (seeds.size() >= kMany)
    CHECK(feasible * 3 > static_cast<int64_t>(seeds.size()));
  MESSAGE(feasible << " feasible, " << excluded << " of " << all
                   << " candidates excluded");
}

// In these cases the parameters are sharded over an axis between hosts, and
// ZeRO 3 also shards them over another axis inside a host. ZeRO 3 then gathers
// a part of each parameter between hosts and the rest inside a host, while
// lower stages gather all of it between hosts.
TEST_CASE("ZeRO 3 takes no less time than the bound of its mesh") {
  for (const uint64_t seed : {180, 194}) {
    CAPTURE(seed);
    Draws draws(seed);
    const auto request = DrawRequest(draws);
    const SettingsGrid grid(*request);
    RuleOptions options(*request, grid);
    const auto candidates = AllCandidates(*request, options);
    const Pricer pricer(*request, grid, options, false);
    int64_t compared = 0;
    for (uint32_t i = 0; i < candidates.size(); i += RunsAllCases() ? 9 : 18) {
      CAPTURE(i);
      const Bound bound = pricer.BoundOf(candidates[i], 0);
      if (!bound.reasons.empty()) continue;
      const auto points =
          pricer.PointsOf(candidates[i], i, 0, {.zero = 3, .remat = 0}, 0);
      if (points.empty()) continue;
      ++compared;
      CheckBound(bound, points);
    }
    CHECK(compared > 10);
  }
}

TEST_CASE("a setting takes the same time whichever was priced before") {
  for (const uint64_t seed : {2, 7, 11}) {
    CAPTURE(seed);
    Draws draws(seed);
    const auto request = DrawRequest(draws);
    const SettingsGrid grid(*request);
    RuleOptions options(*request, grid), others(*request, grid);
    const auto candidates = AllCandidates(*request, options);
    REQUIRE(AllCandidates(*request, others).size() == candidates.size());
    const size_t step = RunsAllCases() ? 7 : 19;
    for (size_t i = seed % step; i < candidates.size(); i += step) {
      const uint32_t option = candidates[i].option;
      Evaluator& one = *options[option].evaluator;
      Evaluator& other = *others[option].evaluator;
      auto on = one.On(candidates[i].mesh);
      auto again = other.On(candidates[i].mesh);
      REQUIRE(on.has_value() == again.has_value());
      if (!on || !one.ReasonsAgainst(*on).empty()) continue;
      std::vector<double> ascending(grid.size()), descending(grid.size());
      for (size_t k = 0; k < grid.size(); ++k) {
        const auto memory = one.MemoryOf(*on, k);
        ascending[k] = one.SecondsOf(*on, k, memory, 0);
        CHECK(one.SecondsWith(*on, k, memory, {}) <=
              ascending[k] * (1 + 1e-12));
      }
      for (size_t k = grid.size(); k-- > 0;) {
        descending[k] =
            other.SecondsOf(*again, k, other.MemoryOf(*again, k), 0);
      }
      CHECK(ascending == descending);
    }
  }
}

TEST_CASE("meshes that are prepared again have the same bounds and points") {
  for (const uint64_t seed : {2, 7, 11}) {
    CAPTURE(seed);
    Draws draws(seed);
    const auto request = DrawRequest(draws);
    const SettingsGrid grid(*request);
    RuleOptions options(*request, grid);
    const auto candidates = AllCandidates(*request, options);
    const Pricer held(*request, grid, options, false);
    const Pricer released(*request, grid, options, false, 1);
    // Unless all cases are run, about a third of the candidates is compared by
    // bound and by points.
    const uint32_t bounds_step = RunsAllCases() ? 1 : 3;
    const uint32_t points_step = RunsAllCases() ? 3 : 8;
    for (uint32_t i = seed % bounds_step; i < candidates.size();
         i += bounds_step) {
      const Candidate& one = candidates[i];
      const Bound before = held.BoundOf(one, 0),
                  after = released.BoundOf(one, 0);
      CHECK(before.reasons == after.reasons);
      CHECK(before.seconds == after.seconds);
      CHECK(before.bytes == after.bytes);
    }
    for (uint32_t i = seed % points_step; i < candidates.size();
         i += points_step) {
      if (!held.BoundOf(candidates[i], 0).Usable()) continue;
      const auto before = held.PointsOf(candidates[i], i, 0, {}, 0);
      const auto after = released.PointsOf(candidates[i], i, 0, {}, 0);
      REQUIRE(before.size() == after.size());
      for (size_t k = 0; k < before.size(); ++k) {
        CHECK(Text(before[k]) == Text(after[k]));
      }
    }
  }
}

TEST_CASE("shardings with the same signature have the same figures") {
  int64_t same = 0;
  for (const uint64_t seed : {0, 1, 2, 4, 6, 9, 12, 14, 20, 21}) {
    CAPTURE(seed);
    Draws draws(seed);
    const auto request = DrawRequest(draws);
    const SettingsGrid grid(*request);
    RuleOptions options(*request, grid);
    const auto candidates = AllCandidates(*request, options);
    std::map<std::string, size_t> first;
    for (size_t i = 0; i < candidates.size(); ++i) {
      Evaluator& own = *options[candidates[i].option].evaluator;
      auto on = own.On(candidates[i].mesh);
      if (!on) continue;
      const auto text = cost::SignatureOf(*on->compiled, on->work);
      if (!text) continue;
      const auto [at, fresh] = first.try_emplace(*text, i);
      if (fresh || ++same % 3 != 0) continue;
      Evaluator& other = *options[candidates[at->second].option].evaluator;
      auto before = other.On(candidates[at->second].mesh);
      CHECK(own.ReasonsAgainst(*on) == other.ReasonsAgainst(*before));
      CHECK(own.HasReplicas(*on) == other.HasReplicas(*before));
      for (size_t k = 0; k < grid.size(); k += RunsAllCases() ? 5 : 11) {
        const cost::Memory memory = own.MemoryOf(*on, k);
        const cost::Memory known = other.MemoryOf(*before, k);
        CHECK(Evaluator::RoomOf(memory).bytes ==
              Evaluator::RoomOf(known).bytes);
        CHECK(own.SecondsOf(*on, k, memory, 0) ==
              other.SecondsOf(*before, k, known, 0));
      }
    }
  }
  CHECK(same > 20);
}

TEST_CASE("the replicas of a device are compared with what it holds") {
  const auto request =
      RequestFor({}, 4, "h100-sxm", 16, 512, int64_t{80} << 30);
  const SettingsGrid grid(*request);
  RuleOptions options(*request, grid);
  int64_t compared = 0;
  for (const Candidate& one : AllCandidates(*request, options)) {
    const Evaluator& evaluator = *options[one.option].evaluator;
    auto on = evaluator.On(one.mesh);
    if (!on) continue;
    const int64_t parts = on->work.Parts(on->work.Batch());
    if (parts < 2) continue;
    // A device has one of 64 tensors, 100 elements of it, and 2 elements of a
    // replicated parameter.
    cost::ParamClass expert;
    expert.type = {Shape{100 * parts, on->work.Parts(on->work.Length())},
                   Dtype::kBF16};
    expert.spec = {on->work.Batch(), on->work.Length()};
    expert.count = 64;
    for (int64_t i = 0; i < 64; ++i) expert.placed[i] = 1;
    cost::ParamClass norm;
    norm.type = {Shape{2}, Dtype::kBF16};
    norm.spec = {{}};
    norm.count = 1;
    on->work.params = {expert, norm};
    CHECK(evaluator.HasReplicas(*on));
    on->work.params[1].type.shape = Shape{1};
    CHECK_FALSE(evaluator.HasReplicas(*on));
    ++compared;
  }
  CHECK(compared > 0);
}

TEST_CASE("rates that fall with the rows of a matmul leave bounds below") {
  Draws draws(5);
  const auto request = DrawRequest(draws);
  DeviceProfile profile = *request->settings.profile;
  profile.efficiency.matmul_curve = {{64, 0.9}, {1024, 0.3}, {65536, 0.2}};
  request->settings.profile = &profile;
  const SettingsGrid grid(*request);
  RuleOptions options(*request, grid);
  const auto candidates = AllCandidates(*request, options);
  const Pricer pricer(*request, grid, options, false);
  const auto points = AllPoints(pricer, candidates);
  REQUIRE_FALSE(points.empty());
  for (const Point& one : points) {
    const Bound bound = pricer.BoundOf(candidates[one.candidate], 0);
    CHECK(one.seconds >= bound.seconds);
    CHECK(one.bytes >= bound.bytes);
  }
}

TEST_CASE("rates that fall with the size of a message leave bounds below") {
  Draws draws(5);
  const auto request = DrawRequest(draws);
  DeviceProfile profile = *request->settings.profile;
  const double rate = profile.link_rate;
  for (Curve& curve : profile.efficiency.rate_curves) {
    curve = {{1 << 10, rate}, {1 << 20, rate / 4}, {1 << 30, rate / 32}};
  }
  request->settings.profile = &profile;
  const SettingsGrid grid(*request);
  RuleOptions options(*request, grid);
  const auto candidates = AllCandidates(*request, options);
  const Pricer pricer(*request, grid, options, false);
  ThreadPool threads(1);
  const Searched searched =
      BranchAndBound(*request, pricer, candidates, Deadline({}), threads);
  const auto points = AllPoints(pricer, candidates);
  REQUIRE_FALSE(points.empty());
  for (const Point& one : points) {
    CHECK(one.seconds >= searched.bounds[one.candidate].seconds);
  }
  const auto front = FrontOf(points), found = FrontOf(searched.points);
  REQUIRE(front.size() == found.size());
  for (size_t i = 0; i < front.size(); ++i) {
    CHECK(Text(front[i]) == Text(found[i]));
  }
}

TEST_CASE("a search has the same result with one thread and with two") {
  for (const uint64_t seed : {3, 5, 8}) {
    CAPTURE(seed);
    Draws draws(seed);
    const auto request = DrawRequest(draws);
    const auto text = [](const Found& found) {
      std::string out;
      for (const Sharding& one : found.front) {
        out += MeshText(one.mesh) + " " + one.rules + " " +
               one.report.settings.remat.text + " " +
               std::to_string(one.Seconds()) + "\n";
      }
      if (found.winner) out += MeshText(found.winner->mesh);
      for (const WhyNot& one : found.why_not) out += one.because + "\n";
      return out + std::to_string(found.counts.evaluated);
    };
    const std::string once = text(Search(*request));
    if (RunsAllCases()) CHECK(text(Search(*request)) == once);
    request->threads = 2;
    CHECK(text(Search(*request)) == once);
  }
}

TEST_CASE("the parts of a difference add up to it") {
  const auto request =
      RequestFor({.layers = 4}, 16, "h100-sxm", 64, 8192, int64_t{40} << 30);
  const Found found = Search(*request);
  REQUIRE(found.winner.has_value());
  REQUIRE(found.why_not.size() > 5);
  for (const WhyNot& one : found.why_not) {
    if (!one.best) continue;
    double sum = 0;
    for (const cost::TimePart& part : one.parts) sum += part.seconds;
    CHECK(sum == doctest::Approx(one.best->Seconds() - found.winner->Seconds())
                     .epsilon(1e-9));
  }
}

TEST_CASE("a mesh and rules that are kept are the winner's") {
  auto request =
      RequestFor({.layers = 4}, 8, "h100-sxm", 64, 2048, int64_t{60} << 30);
  Mesh mesh;
  mesh.axes = {{"fsdp", 2, AxisType::kAuto}, {"tp", 4, AxisType::kAuto}};
  mesh.devices = 8;
  request->mesh = mesh;
  request->keep_rules = true;
  const Found found = Search(*request);
  REQUIRE(found.winner.has_value());
  CHECK(MeshText(found.winner->mesh) == MeshText(mesh));
  CHECK(found.winner->rules == "builtin:llama/hf");
  for (const Sharding& one : found.front) {
    CHECK(MeshText(one.mesh) == MeshText(mesh));
  }
}

TEST_CASE("if nothing fits, the least memory is reported") {
  const auto request = RequestFor({.layers = 4, .hidden = 4096}, 2, "h100-sxm",
                                  8, 2048, int64_t{1} << 30);
  const Found found = Search(*request);
  CHECK_FALSE(found.winner.has_value());
  REQUIRE(found.least.has_value());
  CHECK(found.least->Bytes() > int64_t{1} << 30);
}

TEST_CASE("a deadline also ends the alternatives") {
  const auto request =
      RequestFor({.layers = 4}, 16, "h100-sxm", 64, 8192, int64_t{40} << 30);
  const SettingsGrid grid(*request);
  RuleOptions options(*request, grid);
  const auto candidates = AllCandidates(*request, options);
  const Pricer pricer(*request, grid, options, false);
  ThreadPool threads(1);
  const Searched searched =
      BranchAndBound(*request, pricer, candidates, Deadline({}), threads);
  REQUIRE_FALSE(searched.points.empty());
  const auto others = [&](const Deadline& deadline) {
    return WhyNotOf(*request, grid, options, pricer, candidates,
                    searched.bounds, searched.points.front(), deadline,
                    threads);
  };
  const Alternatives all = others(Deadline({}));
  CHECK(all.unfinished == 0);
  const Alternatives none = others(Deadline(0.0));
  CHECK(none.tried == all.tried);
  CHECK(none.unfinished == none.tried);
  CHECK(none.all.empty());
}

TEST_CASE("a deadline cuts the search after the same points, with a bound") {
  const auto request =
      RequestFor({.layers = 4}, 64, "h100-sxm", 256, 4096, 80LL << 30);
  const SettingsGrid grid(*request);
  RuleOptions options(*request, grid);
  const std::vector<Candidate> candidates = AllCandidates(*request, options);
  const Pricer pricer(*request, grid, options, false);
  const auto run = [&](std::optional<double> seconds, int of_threads) {
    ThreadPool threads(of_threads);
    return BranchAndBound(*request, pricer, candidates, Deadline(seconds),
                          threads);
  };
  const Searched whole = run(std::nullopt, 1);
  CHECK(whole.left == 0);
  CHECK_FALSE(whole.left_bound);
  // All bounds are computed in time. The deadline passes after the first block
  // that reaches `stop` candidates, however long those took.
  const double limit = 2;
  for (const int64_t stop : {1, 5}) {
    request->progress = [&](const Progress& progress) {
      if (progress.done < stop) return;
      std::this_thread::sleep_for(std::chrono::duration<double>(limit));
    };
    const Searched one = run(limit, 1), two = run(limit, 2);
    CHECK(one.evaluated < whole.evaluated);
    CHECK(one.left > 0);
    CHECK(one.evaluated == two.evaluated);
    CHECK(one.left == two.left);
    CHECK(one.left_bound == two.left_bound);
    REQUIRE(one.left_bound);
    REQUIRE(one.points.size() == two.points.size());
    for (size_t i = 0; i < one.points.size(); ++i) {
      CHECK(Text(one.points[i]) == Text(two.points[i]));
    }
    std::set<std::string> seen;
    for (const Point& point : one.points) seen.insert(Text(point));
    for (const Point& point : whole.points) {
      if (seen.contains(Text(point))) continue;
      CHECK(point.seconds >= *one.left_bound);
    }
  }
}

TEST_CASE("a search that has no time leaves all shardings") {
  auto request =
      RequestFor({.layers = 4}, 16, "h100-sxm", 64, 8192, int64_t{40} << 30);
  request->seconds = 1e-9;
  const Found found = Search(*request);
  CHECK_FALSE(found.winner.has_value());
  CHECK(found.counts.left == found.counts.shardings);
  CHECK(found.counts.left > 0);
}

TEST_CASE("sizes that do not fit in 64 bits fit no device") {
  const int64_t large = int64_t{1} << 40;
  const auto request =
      RequestFor({.layers = 2}, 4, "h100-sxm", large, large, large);
  const Found found = Search(*request);
  CHECK_FALSE(found.winner.has_value());
  CHECK(found.why_not.empty());
  // The sum of the bytes that are known is not what a device needs.
  CHECK_FALSE(found.least.has_value());
  REQUIRE(found.reasons.size() > 1);
  CHECK(found.reasons[1] == "activations do not fit in 64 bits");
}

}  // namespace
}  // namespace shardc::search
