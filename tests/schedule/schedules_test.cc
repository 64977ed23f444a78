// Checks every schedule over all small sizes: the proofs must pass, and the
// length of a step and the activations held must equal closed formulas.
#include "schedule/schedules.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "draws.h"
#include "schedule/order.h"

namespace shardc::schedule {
namespace {

constexpr int32_t kMostRanks = 12;

// Calls `visit(schedule, extent)` for every accepted size.
template <class Visit>
void ForEachExtent(int32_t most_ranks, const Visit& visit) {
  for (const Schedule& schedule : Schedules()) {
    for (int32_t p = 1; p <= most_ranks; ++p) {
      for (int32_t v = 1; v <= 4; ++v) {
        for (int32_t m = 1; m <= 4 * p + 1; ++m) {
          const Extent extent{p, v, m};
          if (!Refusal(schedule, extent)) visit(schedule, extent);
        }
      }
    }
  }
}

Times Unit(const Table& table) {
  return {.stages = std::vector<StageTimes>(static_cast<size_t>(table.stages))};
}

// Returns the length of a step with F = I = W = 1 by a closed formula; 0 if
// there is none.
int64_t StepOf(const std::string& name, const Extent& e) {
  const int64_t p = e.ranks, v = e.virtual_stages, m = e.microbatches;
  if (name == "gpipe" || name == "1f1b") return 3 * (m + p - 1);
  if (name == "interleaved") return m % p == 0 ? 3 * (m * v + p - 1) : 0;
  if (name == "looped-bfs") {
    return 3 * ((v - 1) * std::max(m, p) + m + p - 1);
  }
  if (name == "zb-h1") return m >= p ? 3 * m + p - 1 : 0;
  if (name == "zb-h2") return m >= 2 * p ? 3 * m + p - 1 : 0;
  if (name == "interleaved-zb") return m % p == 0 ? 3 * m * v + p - 1 : 0;
  if (name == "zbv") return m >= 2 * p - 1 ? 6 * m + p - 1 : 0;
  if (name == "dualpipe") return 3 * m + 2 * (p / 2 - 1);
  return 6 * m + 2 * (p - 1);  // dualpipev
}

// Returns the largest number of micro-batches of chunks whose activations rank
// r holds at the same time.
int64_t HeldOf(const std::string& name, const Extent& e, int64_t r) {
  const int64_t p = e.ranks, v = e.virtual_stages, m = e.microbatches;
  const int64_t g = m / std::max<int64_t>(1, m / p);
  if (name == "gpipe") return m;
  if (name == "1f1b") return std::min(m, p - r);
  if (name == "interleaved") {
    return std::min(m * v, (v - 1) * g + 2 * (p - 1 - r) + 1);
  }
  if (name == "looped-bfs") return m * v;
  if (name == "zb-h1") return std::min(m, p);
  if (name == "zb-h2") return std::min(m, 2 * p - 1);
  if (name == "interleaved-zb") return std::min(m * v, (v - 1) * g + p);
  if (name == "zbv") return std::min({2 * m, 2 * p, m + 1 + r});
  if (name == "dualpipe") return p + 1;
  return 2 * p + 1;  // dualpipev
}

TEST_CASE("every schedule is in order, and its steps have the known length") {
  std::map<std::string, int> sizes, steps;
  ForEachExtent(
      kMostRanks, [&](const Schedule& schedule, const Extent& extent) {
        const Table table = MakeTable(schedule, extent);
        CAPTURE(table.name);
        CAPTURE(extent.ranks);
        CAPTURE(extent.virtual_stages);
        CAPTURE(extent.microbatches);
        const auto faults = CheckOrder(table);
        REQUIRE_MESSAGE(faults.empty(), faults.front().text);
        ++sizes[table.name];
        const Timeline timeline = Simulate(table, Unit(table));
        if (const int64_t step = StepOf(table.name, extent); step > 0) {
          CHECK(timeline.step == static_cast<double>(step));
          ++steps[table.name];
        }
        const auto held = HeldByRank(table);
        for (size_t r = 0; r < held.size(); ++r) {
          CHECK(held[r] == HeldOf(table.name, extent, static_cast<int64_t>(r)));
        }
        const auto by_stage = HeldByStage(table);
        for (size_t s = 0; s < by_stage.size(); ++s) {
          std::vector<int64_t> alone(by_stage.size(), 0);
          alone[s] = 1;
          const auto own = HeldByRank(table, alone);
          CHECK(by_stage[s] == *std::max_element(own.begin(), own.end()));
        }
      });
  CHECK(sizes.size() == Schedules().size());
  for (const auto& one : sizes) {
    CAPTURE(one.first);
    CHECK(one.second >= 48);
    CHECK(steps[one.first] >= 48);
  }
}

TEST_CASE("the lengths and activations of published sizes") {
  struct Case {
    const char* name;
    Extent extent;
    double step, rank;
    std::vector<int64_t> held;
  };
  for (const Case& one : std::initializer_list<Case>{
           {"gpipe", {4, 1, 8}, 33, 0, {8, 8, 8, 8}},
           {"1f1b", {4, 1, 8}, 33, 0, {4, 3, 2, 1}},
           {"zb-h1", {4, 1, 8}, 27, 0, {4, 4, 4, 4}},
           {"zb-h2", {4, 1, 8}, 27, 24, {7, 7, 7, 7}},
           {"dualpipe", {4, 1, 8}, 26, 0, {5, 5, 5, 5}},
           {"interleaved", {4, 2, 8}, 57, 0, {11, 9, 7, 5}},
           {"looped-bfs", {4, 2, 8}, 57, 0, {16, 16, 16, 16}},
           {"interleaved-zb", {4, 2, 8}, 51, 0, {8, 8, 8, 8}},
           {"zbv", {4, 2, 8}, 51, 48, {8, 8, 8, 8}},
           {"dualpipev", {4, 2, 8}, 54, 0, {9, 9, 9, 9}},
           {"1f1b", {8, 1, 32}, 117, 0, {8, 7, 6, 5, 4, 3, 2, 1}},
           {"zbv", {8, 2, 32}, 199, 192, {}},
           {"dualpipe", {8, 1, 32}, 102, 0, {}}}) {
    CAPTURE(one.name);
    const Table table = MakeTable(*FindSchedule(one.name), one.extent);
    const Timeline timeline = Simulate(table, Unit(table));
    CHECK(timeline.step == one.step);
    if (one.rank > 0) CHECK(timeline.LongestRank() == one.rank);
    if (!one.held.empty()) CHECK(HeldByRank(table) == one.held);
  }
}

TEST_CASE("the bubbles are those of the papers") {
  for (const int32_t p : {2, 4, 8}) {
    for (const int32_t m : {8, 16}) {
      const Table one = MakeTable(*FindSchedule("1f1b"), {p, 1, m});
      CHECK(Simulate(one, Unit(one)).StepBubble() ==
            doctest::Approx(double(p - 1) / (m + p - 1)));
      const Table two = MakeTable(*FindSchedule("interleaved"), {p, 2, m});
      CHECK(Simulate(two, Unit(two)).StepBubble() ==
            doctest::Approx(double(p - 1) / (2 * m + p - 1)));
    }
  }
  const Table h2 = MakeTable(*FindSchedule("zb-h2"), {4, 1, 8});
  const Timeline timeline = Simulate(h2, Unit(h2));
  CHECK(timeline.RankBubble() == doctest::Approx(0));
  CHECK(timeline.StepBubble() == doctest::Approx(1.0 / 9));
}

TEST_CASE("steps of random whole times have the lengths of the formulas") {
  Draws draws(7);
  const auto draw = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(
                       draws() % static_cast<uint64_t>(most - least + 1));
  };
  for (int i = 0; i < 400; ++i) {
    const auto p = static_cast<int32_t>(draw(1, 12));
    const auto v = static_cast<int32_t>(draw(1, 4));
    const auto m = static_cast<int32_t>(p * draw(1, 4));
    const int64_t weight = draw(1, 9);
    const int64_t forward = draw(weight, 20), input = draw(weight, 20);
    const auto step = [&](const char* name, const Extent& extent) {
      const Table table = MakeTable(*FindSchedule(name), extent);
      Times times;
      times.stages.assign(
          static_cast<size_t>(table.stages),
          {static_cast<double>(forward), static_cast<double>(input),
           static_cast<double>(weight)});
      return Simulate(table, times).step;
    };
    const int64_t all = forward + input + weight;
    CHECK(step("1f1b", {p, 1, m}) == static_cast<double>((m + p - 1) * all));
    CHECK(step("interleaved", {p, v, m}) ==
          static_cast<double>((int64_t{m} * v + p - 1) * all));
    CHECK(step("zb-h1", {p, 1, m}) ==
          static_cast<double>(m * all + (p - 1) * (forward + input - weight)));
  }
}

TEST_CASE("a message takes its time, which an exposed send adds to the task") {
  const Table table = MakeTable(*FindSchedule("gpipe"), {2, 1, 2});
  Times times = Unit(table);
  times.hop_forward = {5};
  times.hop_back = {7};
  // 0F0 takes 1, its message 5, 1F0 and 1F1 together 2, 1B0 2, its message 7,
  // and 0B0 and 0B1 take 2 each.
  CHECK(Simulate(table, times).step == 1 + 5 + 2 + 2 + 7 + 2 + 2);
  times.exposed = true;
  // 0F0 and 0F1 take 6 each, so 1F1 ends at 13. Then 1B0 and 1B1 take 9 each,
  // and 0B1 takes 2.
  CHECK(Simulate(table, times).step == 13 + 9 + 9 + 2);
}

TEST_CASE("an overlapped pair takes a part of the sum of its tasks") {
  const Table table = MakeTable(*FindSchedule("dualpipev"), {4, 2, 16});
  Times times = Unit(table);
  const double whole = Simulate(table, times).step;
  times.overlap = 0.5;
  CHECK(Simulate(table, times).step < 0.7 * whole);
}

TEST_CASE("the factor of an overlapped pair leaves its exposed sends as long") {
  const Table table = MakeTable(*FindSchedule("dualpipev"), {4, 2, 16});
  Times times = Unit(table);
  times.hop_forward.assign(static_cast<size_t>(table.stages), 0.25);
  times.hop_back = times.hop_forward;
  times.exposed = true;
  // `1F0` takes 1, `1B0` 2, and a message to another rank 0.25.
  const auto sends = [&](const Task& task) {
    const int32_t to = task.stage + (task.kind == TaskKind::kForward ? 1 : -1);
    return to >= 0 && to < table.stages &&
           (task.kind == TaskKind::kForward || task.SendsBack()) &&
           table.RankOf(task.stage, task.micro) != table.RankOf(to, task.micro);
  };
  for (const double factor : {1.0, 0.5, 0.0}) {
    times.overlap = factor;
    const Timeline timeline = Simulate(table, times);
    int pairs = 0;
    for (size_t rank = 0; rank < table.rows.size(); ++rank) {
      for (size_t i = 0; i < table.rows[rank].size(); ++i) {
        const Cell& cell = table.rows[rank][i];
        if (!cell.overlapped) continue;
        ++pairs;
        double length = 0;
        ForEachTask(cell, [&](const Task& task) {
          length += factor * (task.kind == TaskKind::kBackward ? 2 : 1);
          if (sends(task)) length += 0.25;
        });
        const Interval& at = timeline.cells[rank][i];
        CHECK(at.end - at.begin == doctest::Approx(length));
      }
    }
    CHECK(pairs > 0);
  }
}

TEST_CASE("sizes that a schedule cannot run are refused with the numbers") {
  const auto refusal = [](const char* name, const Extent& extent) {
    return Refusal(*FindSchedule(name), extent).value_or("");
  };
  CHECK(refusal("interleaved", {4, 2, 13}) ==
        "interleaved runs micro-batches in 3 rounds (micro-batches / ranks), "
        "which do not divide 13 micro-batches");
  CHECK(refusal("interleaved", {4, 2, 12}).empty());
  CHECK(refusal("dualpipev", {4, 2, 7}) ==
        "dualpipev needs at least 8 micro-batches on 4 ranks, not 7");
  CHECK(refusal("dualpipe", {3, 1, 8}) ==
        "dualpipe needs an even number of ranks, not 3");
  CHECK(refusal("dualpipe", {4, 1, 9}) ==
        "dualpipe needs an even number of micro-batches, not 9");
  CHECK(refusal("zbv", {4, 3, 8}) ==
        "zbv places exactly 2 stages on a rank, not 3");
  CHECK(refusal("1f1b", {4, 2, 8}) ==
        "1f1b places exactly 1 stage on a rank, not 2");
  CHECK(NearestMicrobatches(*FindSchedule("interleaved"), {4, 2, 13}) == 12);
  CHECK(NearestMicrobatches(*FindSchedule("dualpipev"), {4, 2, 5}) == 8);
  CHECK(FindSchedule("zb") == nullptr);
}

}  // namespace
}  // namespace shardc::schedule
