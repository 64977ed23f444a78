// Complete schedules as testdata/tables/schedules.txt lists them: the row of
// each rank, the activations that it holds, the times of its tasks, and the
// sends and receives. The formulas of schedules_test.cc check the length of a
// step; these cases also show which task has moved.
#include <doctest/doctest.h>

#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "schedule/channels.h"
#include "schedule/order.h"
#include "schedule/schedules.h"
#include "tables.h"

namespace shardc::schedule {
namespace {

// Returns times that differ between stages and are exact in binary.
Times TimesOf(const Table& table, const TableCase& given) {
  Times out;
  for (int32_t s = 0; s < table.stages; ++s) {
    out.stages.push_back({1 + 0.5 * s, 1, 0.5 + s});
    out.hop_forward.push_back(0.25 * (s + 1));
    out.hop_back.push_back(0.125 * (s + 1));
  }
  if (given.Find("no hops") != nullptr) out.hop_forward = out.hop_back = {};
  out.exposed = given.Find("exposed") != nullptr;
  if (given.Find("overlap") != nullptr) out.overlap = 0.75;
  return out;
}

void WriteTimeline(const Table& table, const Times& times,
                   std::ostringstream& out) {
  const Timeline line = Simulate(table, times);
  for (size_t r = 0; r < line.ranks.size(); ++r) {
    out << "time " << r << ":";
    for (const Interval& cell : line.cells[r]) {
      out << ' ' << cell.begin << '-' << cell.end;
    }
    out << "; busy " << line.ranks[r].busy << " from " << line.ranks[r].first
        << " to " << line.ranks[r].last << '\n';
  }
  out << "step " << line.step << ", longest rank " << line.LongestRank()
      << ", bubbles " << line.StepBubble() << " and " << line.RankBubble()
      << '\n';
}

void WriteProgram(const Table& table, Receives receives, std::string_view name,
                  std::ostringstream& out) {
  const Programs programs = Lower(table, receives);
  for (size_t r = 0; r < programs.size(); ++r) {
    out << name << ' ' << r << ":";
    for (const Operation& operation : programs[r]) {
      out << (operation.batched ? "+" : " ")
          << OperationText(table, static_cast<int32_t>(r), operation);
      if (operation.kind != OperationKind::kTask) out << '@' << operation.peer;
    }
    out << '\n';
  }
  const auto shown = [](std::optional<int64_t> capacity) {
    return capacity ? std::to_string(*capacity) : "nothing";
  };
  out << name << " needs channels of "
      << shown(LeastCapacity(programs, ChannelScope::kPair)) << ", by kind "
      << shown(LeastCapacity(programs, ChannelScope::kPairAndKind)) << '\n';
  const ChannelRun run = RunChannels(programs, 0, ChannelScope::kPair);
  if (!run.passes) {
    out << name << " without room: " << (run.mismatch ? "mismatch, " : "")
        << run.text << " (rank " << run.rank << ")\n";
  }
}

std::string TextOfSchedule(const TableCase& given) {
  const Schedule* schedule = FindSchedule(given.Text("schedule"));
  REQUIRE(schedule != nullptr);
  Extent extent;
  std::istringstream(given.Text("sizes")) >> extent.ranks >>
      extent.virtual_stages >> extent.microbatches;
  std::ostringstream out;
  if (const auto refusal = Refusal(*schedule, extent)) {
    out << "refused: " << *refusal;
    const auto nearest = NearestMicrobatches(*schedule, extent);
    out << " (nearest " << (nearest ? std::to_string(*nearest) : "none")
        << ")\n";
    return out.str();
  }
  const Table table = MakeTable(*schedule, extent);
  out << table.name << ", " << table.stages << " stages, "
      << PlacementName(table.placement) << ", " << TaskCount(extent)
      << " tasks, " << CheckOrder(table).size() << " faults\n";
  std::vector<int64_t> weights;
  for (int32_t s = 0; s < table.stages; ++s) weights.push_back(1 + s);
  const auto held = HeldByRank(table), weighted = HeldByRank(table, weights);
  for (size_t r = 0; r < table.rows.size(); ++r) {
    out << "rank " << r << ":";
    for (const Cell& cell : table.rows[r]) out << ' ' << CellText(cell);
    out << "; holds " << held[r] << ", weighted " << weighted[r] << ", stages";
    for (int32_t s = 0; s < table.stages; ++s) {
      if (table.Holds(static_cast<int32_t>(r), s)) out << ' ' << s;
    }
    out << '\n';
  }
  WriteTimeline(table, TimesOf(table, given), out);
  if (given.Find("programs") != nullptr) {
    WriteProgram(table, Receives::kInSendOrder, "turns", out);
    WriteProgram(table, Receives::kAtUse, "at use", out);
    WriteProgram(table, Receives::kAtUseBatched, "batched", out);
  }
  return out.str();
}

TEST_CASE("schedules are those that their papers and PyTorch draw") {
  CheckTable("schedules.txt", TextOfSchedule);
}

TEST_CASE("of equally long stages the fullest one has the fewest bytes") {
  // Both divisions have two stages of time 4. The fuller stage has 9, 10 or 11
  // bytes.
  const std::vector<Unit> units = {{4, 9, 0}, {0, 1, 0}, {0, 1, 0}, {4, 1, 0}};
  const std::vector<int64_t> one = {1, 1};
  CHECK(AssignUnits(units, one, std::nullopt) == StageBounds{0, 1, 4});
  const std::vector<Unit> reversed(units.rbegin(), units.rend());
  CHECK(AssignUnits(reversed, one, std::nullopt) == StageBounds{0, 3, 4});
  // Activations count once for each micro-batch in flight.
  const std::vector<Unit> kept = {{1, 0, 4}, {1, 0, 4}, {1, 0, 4}};
  const std::vector<int64_t> uneven = {2, 1};
  CHECK(AssignUnits(kept, uneven, std::nullopt) == StageBounds{0, 1, 3});
  CHECK(AssignUnits(kept, uneven, 8) == StageBounds{0, 1, 3});
  CHECK_FALSE(AssignUnits(kept, uneven, 7));
  CHECK_FALSE(AssignUnits({}, one, std::nullopt));
  CHECK_FALSE(AssignUnits(kept, {}, std::nullopt));
}

TEST_CASE("a stage's rank follows from the placement") {
  const auto ranks = [](Placement placement, int32_t micro) {
    std::vector<int32_t> out;
    const int32_t stages = placement == Placement::kBoth ? 3 : 6;
    for (int32_t s = 0; s < stages; ++s) {
      out.push_back(PlacedRank(placement, 3, s, micro, 4));
    }
    return out;
  };
  using Ranks = std::vector<int32_t>;
  CHECK(ranks(Placement::kLoop, 0) == Ranks{0, 1, 2, 0, 1, 2});
  CHECK(ranks(Placement::kV, 0) == Ranks{0, 1, 2, 2, 1, 0});
  CHECK(ranks(Placement::kBoth, 1) == Ranks{0, 1, 2});
  CHECK(ranks(Placement::kBoth, 2) == Ranks{2, 1, 0});
  CHECK(PlacementName(Placement::kLoop) == "loop");
  CHECK(PlacementName(Placement::kV) == "v");
  CHECK(PlacementName(Placement::kBoth) == "both");
  CHECK(PlacementName(Placement::kListed) == "listed");
}

}  // namespace
}  // namespace shardc::schedule
