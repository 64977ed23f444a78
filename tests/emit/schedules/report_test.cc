// Compares the reports of schedules and of the costs of pipelines with the
// expected texts in testdata/tables/emit_schedules.txt.
#include <doctest/doctest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cost/pipeline.h"
#include "emit/costs/cost_report.h"
#include "emit/html_rows.h"
#include "emit/inputs.h"
#include "emit/report/page.h"
#include "emit/schedules/schedule_report.h"
#include "schedule/schedules.h"
#include "tables.h"

namespace shardc {
namespace {

using schedule::Schedule;
using schedule::Table;

Table TableOf(const TableCase& given) {
  const Schedule* schedule = schedule::FindSchedule(given.Text("schedule"));
  REQUIRE(schedule != nullptr);
  schedule::Extent extent;
  std::istringstream(given.Text("sizes")) >> extent.ranks >>
      extent.virtual_stages >> extent.microbatches;
  REQUIRE(schedule::Refusal(*schedule, extent).value_or("") == "");
  return schedule::MakeTable(*schedule, extent);
}

// Returns times that differ between stages and are exact as binary fractions.
schedule::Times TimesOf(const Table& table, const TableCase& given) {
  schedule::Times out;
  for (int32_t s = 0; s < table.stages; ++s) {
    out.stages.push_back({1 + 0.5 * s, 1, 0.5 + s});
    out.hop_forward.push_back(0.25 * (s + 1));
    out.hop_back.push_back(0.125 * (s + 1));
  }
  if (given.Find("no hops") != nullptr) out.hop_forward = out.hop_back = {};
  if (given.Find("equal") != nullptr) {
    out.stages.assign(out.stages.size(), schedule::StageTimes());
  }
  out.exposed = given.Find("exposed") != nullptr;
  if (given.Find("overlap") != nullptr) out.overlap = 0.75;
  return out;
}

TEST_CASE("what is written of schedules") {
  CheckTable("emit_schedules.txt", [](const TableCase& given) {
    if (given.Find("list") != nullptr) {
      return Titled("text", ScheduleListText()) +
             Titled("JSON", [](Sink& sink) { WriteScheduleListJson(sink); });
    }
    const Table table = TableOf(given);
    const ScheduleReport report =
        MakeScheduleReport(table, TimesOf(table, given));
    std::string page =
        TextOf([&](Sink& sink) { report::WriteSchedulePage(report, sink); });
    page.erase(0, page.find("<header"));
    return Titled("text", ScheduleReportText(report)) +
           Titled("JSON",
                  [&](Sink& sink) { WriteScheduleJson(report, sink); }) +
           Titled("page of " + std::to_string(report::DrawnTasks(report)) +
                      " tasks",
                  ByRow(page));
  });
}

// Returns the cost of a pipeline in which all numbers differ.
cost::PipelineCost CostOf(const TableCase& given) {
  cost::PipelineCost out;
  out.axis = "pp";
  out.table = TableOf(given);
  const schedule::Times times = TimesOf(out.table, given);
  out.timeline = schedule::Simulate(out.table, times);
  out.timed = given.Find("timed") != nullptr;
  out.layers = 2 * out.table.stages - 1;
  out.boundary = 3 << 20;
  out.hop = 0.0078125;
  out.after = 0.375;
  out.capacity = NumberOf(given, "memory");
  int64_t units = 0;
  for (int32_t s = 0; s < out.table.stages; ++s) {
    cost::StageCost stage;
    stage.begin = units;
    stage.end = units += s == 0 ? 2 : s + 1 == out.table.stages ? 3 : 2;
    stage.parameters = 1000 + s;
    stage.gradients = 2000 + s;
    stage.optimizer = 3000 + s;
    stage.peak.kept = 4000 + s;
    stage.peak.working = 5000 + s;
    stage.peak.logits = 6000 + s;
    stage.peak.gathered = 7000 + s;
    stage.times = times.stages[static_cast<size_t>(s)];
    stage.after = 0.25 * s;
    stage.timed = out.timed;
    out.stages.push_back(stage);
  }
  for (int32_t r = 0; r < out.table.ranks(); ++r) {
    cost::RankCost rank;
    for (int32_t s = 0; s < out.table.stages; ++s) {
      if (out.table.Holds(r, s)) rank.stages.push_back(s);
    }
    int64_t total = 0;
    for (size_t i = 0; i < cost::kComponentCount; ++i) {
      // Whether unknown activations fit is not known.
      if (i == 3 && given.Find("memory") == nullptr) continue;
      rank.held.by[i] = ((static_cast<int64_t>(i) + 2 + 10 * r) << 20) + 512;
      total += *rank.held.by[i];
    }
    rank.held.total = total;
    rank.sent_forward = (50 + r) << 10;
    rank.sent_back = (60 + r) << 10;
    out.ranks.push_back(rank);
  }
  if (given.Find("better") != nullptr) {
    for (int32_t s = 0; s < out.table.stages; ++s) out.better.push_back(1 + s);
    out.better_step = 12.5;
  }
  out.assumptions = {"one thing", "another `thing`"};
  return out;
}

TEST_CASE("what is written of the cost of a pipeline") {
  CheckTable("emit_pipelines.txt", [](const TableCase& given) {
    const cost::PipelineCost cost = CostOf(given);
    return Titled("text", PipelineReportText(cost, "pp:2,dp:2", false)) +
           Titled("explained", PipelineReportText(cost, "pp:2,dp:2", true)) +
           Titled("JSON",
                  [&](Sink& sink) { WritePipelineJson(cost, "small", sink); });
  });
}

}  // namespace
}  // namespace shardc
