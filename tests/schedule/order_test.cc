// Checks the message for each error that a table may have.
#include "schedule/order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "draws.h"
#include "schedule/schedules.h"

namespace shardc::schedule {
namespace {

// Returns the faults of a schedule's table after a change, each as
// `rank.position text`.
template <class Change>
std::vector<std::string> FaultsOf(const char* name, const Extent& extent,
                                  const Change& change) {
  Table table = MakeTable(*FindSchedule(name), extent);
  change(table.rows);
  std::vector<std::string> out;
  for (const Fault& fault : CheckOrder(table)) {
    out.push_back(std::to_string(fault.rank) + "." +
                  std::to_string(fault.position) + " " + fault.text);
  }
  return out;
}

using Rows = std::vector<std::vector<Cell>>;
using Words = std::vector<std::string>;

TEST_CASE("every fault of a table is reported with its rank and position") {
  const Extent small{2, 1, 2};
  CHECK(FaultsOf("1f1b", small, [](Rows&) {}).empty());
  CHECK(FaultsOf("1f1b", small, [](Rows& rows) {
          std::swap(rows[1][0], rows[1][1]);
        }) == Words{"1.0 `1B0` runs before `1F0`"});
  CHECK(FaultsOf("1f1b", small, [](Rows& rows) {
          rows[0].push_back(rows[0][0]);
        }) == Words{"0.4 `0F0` runs a second time"});
  CHECK(FaultsOf("1f1b", small, [](Rows& rows) {
          rows[1].push_back(rows[1].back());
        }) == Words{"1.4 `1B1` runs a second time"});
  CHECK(FaultsOf("1f1b", small, [](Rows& rows) { rows[0].pop_back(); }) ==
        Words{"0.3 `0B1` or `0I1` is missing"});
  CHECK(FaultsOf("1f1b", small,
                 [](Rows& rows) { std::swap(rows[0][0], rows[1][0]); }) ==
        Words{"0.0 `1F0` is on rank 0, but stage 1 of micro-batch 0 is "
              "on rank 1",
              "0.2 `0B0` runs before `0F0`", "0.4 `0F0` is missing",
              "1.0 `0F0` is on rank 1, but stage 0 of micro-batch 0 is "
              "on rank 0",
              "1.1 `1B0` runs before `1F0`", "1.4 `1F0` is missing"});
  CHECK(FaultsOf("zb-h1", small, [](Rows& rows) {
          std::swap(rows[0][2], rows[0][3]);
        }) == Words{"0.2 `0W0` runs before `0I0`"});
  CHECK(FaultsOf("zb-h1", small, [](Rows& rows) { rows[0].pop_back(); }) ==
        Words{"0.5 `0W1` is missing, which computes the gradients of "
              "the weights after `0I1`"});
  CHECK(FaultsOf(
            "zb-h1", small,
            [](Rows& rows) { rows[0][2].task.kind = TaskKind::kBackward; }) ==
        Words{"0.3 `0W0` computes the gradients of the weights that "
              "`0B0` computed before"});
  CHECK(FaultsOf(
            "1f1b", small,
            [](Rows& rows) {
              rows[0].insert(rows[0].end() - 1, Cell{{TaskKind::kInput, 0, 1}});
            }) ==
        Words{"0.4 `0B1` computes the gradient of the input that `0I1` "
              "computed before",
              "0.5 `0W1` is missing, which computes the gradients of "
              "the weights after `0I1`"});
}

TEST_CASE("ranks that wait for each other are reported as a cycle") {
  CHECK(FaultsOf("1f1b", {2, 1, 2},
                 [](Rows& rows) {
                   std::swap(rows[0][1], rows[0][2]);
                   std::swap(rows[1][1], rows[1][2]);
                 }) ==
        Words{"0.1 ranks wait for each other in a cycle: rank 0 waits in "
              "`0B0` for `1B0`, rank 1 waits in `1F1` for `0F1`"});
  // Exchanges the two chunks of rank 0.
  const auto exchanged = FaultsOf("interleaved", {2, 2, 2}, [](Rows& rows) {
    for (Cell& cell : rows[0]) cell.task.stage = 2 - cell.task.stage;
  });
  REQUIRE(exchanged.size() == 1);
  CHECK(exchanged.front().find("in a cycle: ") != std::string::npos);
}

// Returns whether a table can run to its end, without code of src/schedule:
// repeatedly runs any task whose inputs exist and whose predecessors in its row
// have run, and checks that all tasks were run.
bool CanRun(const Table& table) {
  std::vector<size_t> next(table.rows.size(), 0);
  std::vector<Task> done;
  const auto has = [&](TaskKind kind, int32_t stage, int32_t micro) {
    return std::find(done.begin(), done.end(), Task{kind, stage, micro}) !=
           done.end();
  };
  size_t before = 1;
  size_t total = 0;
  while (before != total) {
    before = total;
    for (size_t r = 0; r < next.size(); ++r) {
      if (next[r] == table.rows[r].size()) continue;
      bool ready = true;
      ForEachTask(table.rows[r][next[r]], [&](const Task& task) {
        const int32_t s = task.stage, i = task.micro;
        if (task.kind == TaskKind::kForward) {
          ready = ready && (s == 0 || has(TaskKind::kForward, s - 1, i));
        } else if (task.kind != TaskKind::kWeight) {
          ready = ready &&
                  (s + 1 == table.stages || has(TaskKind::kInput, s + 1, i) ||
                   has(TaskKind::kBackward, s + 1, i));
        }
      });
      if (!ready) continue;
      ForEachTask(table.rows[r][next[r]],
                  [&](const Task& task) { done.push_back(task); });
      ++next[r];
      ++total;
    }
  }
  for (size_t r = 0; r < next.size(); ++r) {
    if (next[r] != table.rows[r].size()) return false;
  }
  return true;
}

TEST_CASE("a table with two neighbours exchanged passes if it can run") {
  Draws draws(11);
  int passed = 0, failed = 0;
  for (int i = 0; i < 3000; ++i) {
    const Schedule& schedule = Schedules()[draws() % Schedules().size()];
    const auto p = static_cast<int32_t>(2 + 2 * (draws() % 2));
    const Extent extent{p, schedule.virtual_stages,
                        static_cast<int32_t>(2 * p)};
    Table table = MakeTable(schedule, extent);
    for (int change = 0; change < 2; ++change) {
      auto& row = table.rows[draws() % table.rows.size()];
      const size_t at = draws() % (row.size() - 1);
      std::swap(row[at], row[at + 1]);
    }
    // Within a row, F must come before I or B, and I before W.
    bool ordered = true;
    for (const auto& row : table.rows) {
      std::vector<Task> met;
      const auto has = [&](TaskKind kind, const Task& task) {
        return std::find(met.begin(), met.end(),
                         Task{kind, task.stage, task.micro}) != met.end();
      };
      for (const Cell& cell : row) {
        ForEachTask(cell, [&](const Task& task) {
          if (task.SendsBack()) {
            ordered = ordered && has(TaskKind::kForward, task);
          } else if (task.kind == TaskKind::kWeight) {
            ordered = ordered && has(TaskKind::kInput, task);
          }
          met.push_back(task);
        });
      }
    }
    const bool runs = ordered && CanRun(table);
    CHECK(CheckOrder(table).empty() == runs);
    ++(runs ? passed : failed);
  }
  CHECK(passed > 500);
  CHECK(failed > 500);
}

}  // namespace
}  // namespace shardc::schedule
