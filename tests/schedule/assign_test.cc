// Compares assignments of units to stages with an exhaustive search.
#include "schedule/schedules.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "draws.h"

namespace shardc::schedule {
namespace {

double LongestStage(const std::vector<Unit>& units, const StageBounds& bounds) {
  double longest = 0;
  for (size_t s = 0; s + 1 < bounds.size(); ++s) {
    double time = 0;
    for (int64_t i = bounds[s]; i < bounds[s + 1]; ++i) {
      time += units[static_cast<size_t>(i)].time;
    }
    longest = std::max(longest, time);
  }
  return longest;
}

bool IsWithin(const std::vector<Unit>& units, const StageBounds& bounds,
              const std::vector<int64_t>& in_flight, int64_t capacity) {
  for (size_t s = 0; s + 1 < bounds.size(); ++s) {
    int64_t held = 0;
    for (int64_t i = bounds[s]; i < bounds[s + 1]; ++i) {
      const Unit& unit = units[static_cast<size_t>(i)];
      held += unit.bytes + in_flight[s] * unit.kept;
    }
    if (held > capacity) return false;
  }
  return true;
}

// Returns the longest stage of the best of all divisions; infinity if none
// fits.
double Exhaustive(const std::vector<Unit>& units,
                  const std::vector<int64_t>& in_flight, int64_t capacity,
                  StageBounds bounds) {
  const auto n = static_cast<int64_t>(units.size());
  const size_t stages = in_flight.size();
  if (bounds.size() == stages) {
    bounds.push_back(n);
    return IsWithin(units, bounds, in_flight, capacity)
               ? LongestStage(units, bounds)
               : std::numeric_limits<double>::infinity();
  }
  double best = std::numeric_limits<double>::infinity();
  for (int64_t next = std::max<int64_t>(1, bounds.back()); next < n; ++next) {
    StageBounds more = bounds;
    more.push_back(next);
    best = std::min(best, Exhaustive(units, in_flight, capacity, more));
  }
  return best;
}

TEST_CASE("the longest stage is that of an exhaustive search") {
  Draws draws(5);
  int none = 0;
  for (int i = 0; i < 400; ++i) {
    const size_t n = 2 + draws() % 9, stages = 1 + draws() % 5;
    std::vector<Unit> units;
    for (size_t u = 0; u < n; ++u) {
      units.push_back({static_cast<double>(draws() % 20),
                       static_cast<int64_t>(draws() % 50),
                       static_cast<int64_t>(draws() % 10)});
    }
    std::vector<int64_t> in_flight;
    for (size_t s = 0; s < stages; ++s) {
      in_flight.push_back(static_cast<int64_t>(stages - s));
    }
    const auto capacity = static_cast<int64_t>(40 + draws() % 260);
    const double wanted = Exhaustive(units, in_flight, capacity, {0});
    const auto bounds = AssignUnits(units, in_flight, capacity);
    if (!bounds) {
      CHECK(wanted == std::numeric_limits<double>::infinity());
      ++none;
      continue;
    }
    REQUIRE(bounds->size() == stages + 1);
    CHECK(bounds->front() == 0);
    CHECK(bounds->back() == static_cast<int64_t>(n));
    CHECK(std::is_sorted(bounds->begin(), bounds->end()));
    CHECK(IsWithin(units, *bounds, in_flight, capacity));
    CHECK(LongestStage(units, *bounds) == wanted);
  }
  CHECK(none > 20);
  CHECK(none < 300);
}

// Returns the numbers of layers of the stages for layers of time 1 between an
// embedding and a head.
std::vector<int64_t> LayersOf(int64_t layers, double head, size_t stages) {
  std::vector<Unit> units = {{0, 0, 0}};
  units.insert(units.end(), static_cast<size_t>(layers), {1, 1, 0});
  units.push_back({head, 1, 0});
  const auto bounds =
      AssignUnits(units, std::vector<int64_t>(stages, 1), std::nullopt);
  REQUIRE(bounds);
  std::vector<int64_t> out;
  for (size_t s = 0; s + 1 < bounds->size(); ++s) {
    const int64_t begin = std::clamp<int64_t>((*bounds)[s], 1, layers + 1);
    const int64_t end = std::clamp<int64_t>((*bounds)[s + 1], 1, layers + 1);
    out.push_back(end - begin);
  }
  return out;
}

TEST_CASE("published divisions of layers are found") {
  // Llama 3 405B has 126 layers, and a head that takes as long as 0.63 layers.
  // All divisions whose longest stage has 8 layers are equally good, among them
  // that of the paper.
  const auto sixteen = LayersOf(126, 0.63, 16);
  CHECK(*std::max_element(sixteen.begin(), sixteen.end()) == 8);
  CHECK(sixteen.back() <= 7);
  const auto single = LayersOf(126, 0.63, 128);
  CHECK(single.front() == 0);
  CHECK(single.back() == 0);
  CHECK(std::count(single.begin(), single.end(), 1) == 126);
  // The head of Llama 3 8B takes as long as 2.24 layers.
  const auto four = LayersOf(32, 2.24, 4);
  CHECK(*std::max_element(four.begin(), four.end()) == 9);
  CHECK(four.back() == 6);
}

TEST_CASE("even stages have the layers of their slice") {
  CHECK(EvenStages(32, 4) == StageBounds{0, 9, 17, 25, 34});
  CHECK(EvenStages(5, 2) == StageBounds{0, 3, 7});
  CHECK(EvenStages(3, 1) == StageBounds{0, 5});
  CHECK(EvenStages(1, 3) == StageBounds{0, 1, 1, 3});
}

}  // namespace
}  // namespace shardc::schedule
